//! The protocol of the layer `pool`.

#[path = "../../../../crates/uthread/src/pool/queue.rs"]
pub(crate) mod queue;
