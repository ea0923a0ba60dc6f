//! The protocols of the channels, and of the choice among several.

#[path = "../../uthread/src/sync/mpsc/channel.rs"]
pub(crate) mod channel;
#[path = "../../uthread/src/sync/select/choice.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "it is public in the library, where the macro uses all of it"
)]
pub(crate) mod choice;
#[path = "../../uthread/src/sync/monitor.rs"]
pub(crate) mod monitor;
#[path = "../../uthread/src/sync/mpsc/selecting.rs"]
#[allow(unreachable_pub, reason = "it is public in the library")]
pub(crate) mod selecting;

pub(crate) mod select {
    pub(crate) use super::choice::{Case, Event, Place, choose, choose_timeout};
}
