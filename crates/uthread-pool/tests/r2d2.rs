//! The pool with a manager for `r2d2`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use r2d2::ManageConnection;
use uthread_pool::{GetError, Pool, R2d2};

/// Makes connections that are numbers.
#[derive(Clone, Default)]
struct Numbers(Arc<State>);

#[derive(Default)]
struct State {
    next: AtomicU32,
    refuses: AtomicBool,
    is_down: AtomicBool,
    breaks: AtomicBool,
}

impl ManageConnection for Numbers {
    type Connection = u32;
    type Error = io::Error;

    fn connect(&self) -> io::Result<u32> {
        if self.0.refuses.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok(self.0.next.fetch_add(1, Ordering::Relaxed))
    }

    fn is_valid(&self, _: &mut u32) -> io::Result<()> {
        if self.0.is_down.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }

    fn has_broken(&self, _: &mut u32) -> bool {
        self.0.breaks.load(Ordering::Relaxed)
    }
}

#[uthread::test]
fn a_manager_for_r2d2_opens_and_checks_connections() {
    let manager = Numbers::default();
    let state = &manager.0;
    let pool = Pool::builder(R2d2(manager.clone()))
        .max(1)
        .check_after(Duration::ZERO)
        .build();
    let lent = || *pool.get().unwrap();
    assert_eq!((lent(), lent()), (0, 0));
    state.is_down.store(true, Ordering::Relaxed);
    assert_eq!((lent(), lent()), (1, 2));
    state.is_down.store(false, Ordering::Relaxed);
    state.breaks.store(true, Ordering::Relaxed);
    assert_eq!((lent(), lent()), (2, 3));
    state.refuses.store(true, Ordering::Relaxed);
    let refusal = pool.get().unwrap_err();
    assert!(
        matches!(&refusal, GetError::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    );
}
