//! The protocol of the channels.

#[path = "../../uthread/src/sync/mpsc/channel.rs"]
pub(crate) mod channel;
