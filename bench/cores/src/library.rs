//! The files of the library that the model runs as they are.

#[allow(dead_code, reason = "the model makes some of the calls")]
#[path = "../../../crates/uthread/src/sched/shared/idle.rs"]
pub(crate) mod idle;
#[allow(dead_code, reason = "the model makes some of the calls")]
#[path = "../../../crates/uthread/src/sched/queues/inbox.rs"]
pub(crate) mod inbox;
