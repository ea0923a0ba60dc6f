//! A payment that counts twice, found by turmoil.

pub use turmoil::net;

#[path = "../../account.rs"]
pub mod account;

#[path = "../../payments.rs"]
pub mod payments;
