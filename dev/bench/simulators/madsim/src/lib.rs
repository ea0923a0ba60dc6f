//! A payment that counts twice, found by madsim.

pub use tokio::net;

#[path = "../../account.rs"]
pub mod account;

#[path = "../../payments.rs"]
pub mod payments;
