//! Executors of futures, started inside a fiber.

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::{Use, WAIT, both, overlap};

pub(super) const USES: &[Use] = &[
    Use::new(
        "pollster",
        "`block_on` of a future that a fiber completes",
        pollster,
    ),
    Use::new(
        "tokio",
        "`block_on` until a fiber, inside of the runtime's context, spawns a task",
        tokio,
    ),
];

fn pollster() {
    let (sender, receiver) = oneshot::channel();
    both(
        || {
            uthread::sleep(WAIT);
            sender.send(7).expect("a receiver");
        },
        || assert_eq!(pollster::block_on(receiver), Ok(7)),
    );
}

fn tokio() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime");
    let (sender, receiver) = oneshot::channel();
    overlap(
        |begun| {
            let _context = runtime.enter();
            begun();
            uthread::sleep(WAIT);
            tokio::spawn(async { sender.send(7) });
        },
        || {
            let value = runtime.block_on(async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                receiver.await
            });
            assert_eq!(value, Ok(7));
        },
    );
    // Two runtimes in fibers that take turns: each has a context of its own.
    let other = Runtime::new().expect("a runtime");
    overlap(
        |begun| {
            let value = runtime.block_on(async {
                begun();
                uthread::sleep(WAIT);
                tokio::spawn(async { 3 }).await
            });
            assert_eq!(value.expect("no panic"), 3);
        },
        || {
            let value = other.block_on(async { tokio::spawn(async { 4 }).await });
            assert_eq!(value.expect("no panic"), 4);
        },
    );
}
