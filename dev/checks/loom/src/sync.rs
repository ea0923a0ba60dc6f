//! The protocols of the channels, of selection, and of the locks.

#[path = "../../../../crates/uthread/src/sync/channel/mod.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "it is public in the library, where `mpsc` and `mpmc` use all of it"
)]
pub(crate) mod channel;
#[path = "../../../../crates/uthread/src/sync/notify_mutex.rs"]
#[allow(unreachable_pub, reason = "it is public in the library")]
pub(crate) mod notify_mutex;
#[path = "../../../../crates/uthread/src/sync/selection.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "it is public in the library, where the macro uses all of it"
)]
pub(crate) mod selection;

#[path = "../../../../crates/uthread/src/sync/bucket.rs"]
pub(crate) mod bucket;

#[path = "../../../../crates/uthread/src/sync/futex.rs"]
#[allow(unreachable_pub, reason = "it is public in the library")]
pub(crate) mod futex;
#[path = "../../../../crates/uthread/src/sync/lock.rs"]
pub(crate) mod lock;
#[path = "../../../../crates/uthread/src/sync/condvar/notices.rs"]
pub(crate) mod notices;
#[path = "../../../../crates/uthread/src/sync/parking_lot.rs"]
pub(crate) mod parking_lot;
#[path = "../../../../crates/uthread/src/sync/semaphore/permits.rs"]
pub(crate) mod permits;
#[path = "../../../../crates/uthread/src/sync/once/progress.rs"]
pub(crate) mod progress;

/// The parking lot's table with a single bucket: the bucket would be chosen by the address, which
/// differs between executions.
mod buckets {
    use loom::sync::Mutex;

    use super::bucket::Bucket;

    loom::lazy_static! {
        static ref LINES: Mutex<Bucket> = Mutex::new(Bucket::new());
    }

    pub(super) fn bucket(_address: usize) -> &'static Mutex<Bucket> {
        &LINES
    }
}
