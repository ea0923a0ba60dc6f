//! The protocol of the layer `pool`.

#[path = "../../uthread/src/pool/queue.rs"]
pub(crate) mod queue;
