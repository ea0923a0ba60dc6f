//! The protocols of the layer `sched`.

#[path = "../../uthread/src/sched/door.rs"]
pub(crate) mod door;
#[path = "../../uthread/src/sched/idle.rs"]
pub(crate) mod idle;
#[path = "../../uthread/src/sched/inbox.rs"]
pub(crate) mod inbox;
