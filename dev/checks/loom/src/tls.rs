//! The protocols of the layer `tls`.

#[path = "../../../../crates/uthread/src/tls/claim.rs"]
pub(crate) mod claim;
