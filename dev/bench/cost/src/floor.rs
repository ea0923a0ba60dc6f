//! Floors: what an operation costs at least.

use std::hint::black_box;

use corosensei::{Coroutine, CoroutineResult};

/// Switches to a coroutine and back, `count` times.
pub(crate) fn switches(count: usize) {
    let mut coroutine = Coroutine::new(|yielder, ()| {
        loop {
            yielder.suspend(());
        }
    });
    for _ in 0..count {
        let result: CoroutineResult<(), ()> = coroutine.resume(());
        assert!(matches!(result, CoroutineResult::Yield(())));
    }
}

/// Allocates and releases 256 bytes, `count` times.
pub(crate) fn allocations(count: usize) {
    for number in 0..count {
        drop(black_box(Box::new([number; 32])));
    }
}
