//! The protocols of the layer `sched`.

#[path = "../../../../crates/uthread/src/sched/shared/idle.rs"]
pub(crate) mod idle;
#[path = "../../../../crates/uthread/src/sched/queues/inbox.rs"]
pub(crate) mod inbox;

/// Replaces random choices, which must not affect the checked properties.
pub(crate) mod fast_rand {
    pub(crate) fn below(_bound: usize) -> usize {
        0
    }
}

pub(crate) mod features {
    /// Replaces waits in the kernel, which no model uses.
    pub(crate) mod readiness {
        use std::io;
        use std::marker::PhantomData;
        use std::time::Instant;

        use crate::fiber::WakeHandle;

        pub(crate) struct PollOperation<'a>(PhantomData<&'a ()>);

        pub(crate) fn wake_handle() -> io::Result<WakeHandle> {
            unreachable!("nothing is polled")
        }

        pub(crate) fn park(
            _waiter: &WakeHandle,
            _polls: &[PollOperation<'_>],
            _deadline: Option<Instant>,
        ) -> Result<(), (usize, io::Error)> {
            unreachable!("nothing is polled")
        }
    }
}

/// Replaces fibers by threads of the model, whose waits may have an end.
pub(crate) mod caller {
    use std::cell::RefCell;
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};
    use loom::thread::Thread;

    use crate::fiber::{Token, WakeHandle, keep_wakes_in};

    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

    loom::thread_local! {
        static ENDING: RefCell<Ending> = RefCell::default();
    }

    /// The event that may end the waits of a thread: the end of its runtime, or the deadline.
    #[derive(Clone, Default)]
    pub(crate) struct Ending {
        shut_down: Arc<AtomicBool>,
        late: Arc<AtomicBool>,
        token: Option<Token>,
    }

    impl Ending {
        /// Creates the ending of a thread that keeps its wakes.
        pub(crate) fn keeping_wakes() -> Ending {
            Ending {
                token: Some(Token::default()),
                ..Ending::default()
            }
        }

        /// Lets the ending hold for the calling thread.
        pub(crate) fn apply_here(&self) {
            if let Some(token) = &self.token {
                keep_wakes_in(Arc::clone(token));
            }
            ENDING.with(|here| *here.borrow_mut() = self.clone());
        }

        /// Wakes the waiter once, like `Ending::cancel_all`.
        pub(crate) fn shut_down(&self, fiber: &Thread) {
            self.shut_down.store(true, Ordering::Release);
            self.wake(fiber);
        }

        /// Lets the deadline pass, like an expired timer.
        pub(crate) fn pass_deadline(&self, fiber: &Thread) {
            self.late.store(true, Ordering::Release);
            self.wake(fiber);
        }

        fn wake(&self, fiber: &Thread) {
            WakeHandle::of(fiber.clone(), self.token.clone()).wake();
        }
    }

    /// Returns the deadline of all waits that have one.
    pub(crate) fn deadline() -> Instant {
        *BEGIN + Duration::from_secs(1)
    }

    pub(crate) fn now() -> Instant {
        if ENDING.with(|here| here.borrow().late.load(Ordering::Acquire)) {
            deadline()
        } else {
            *BEGIN
        }
    }

    /// Returns the deadline, for any time from now.
    pub(crate) fn after(_begin: Instant, _duration: Duration) -> Instant {
        deadline()
    }

    pub(crate) fn wake_handle() -> WakeHandle {
        WakeHandle::current()
    }

    pub(crate) fn is_caller(waiter: &WakeHandle) -> bool {
        waiter.is_current()
    }

    /// Returns the same bits for all threads: a lock keeps them, and does not read them.
    pub(crate) fn holder_bits() -> u32 {
        5
    }

    pub(crate) mod cancellation {
        use std::io;

        use loom::sync::atomic::Ordering;

        pub(crate) fn is_cancelled() -> bool {
            super::ENDING.with(|here| here.borrow().shut_down.load(Ordering::Acquire))
        }

        /// Returns `false`: no runtime of a model abandons its fibers.
        pub(crate) fn is_abandoned() -> bool {
            false
        }

        pub(crate) const IN_A_CALL: &str = "";

        pub(crate) fn vanish_if_abandoned(_: &str) {}

        /// Returns without unwinding, like a call in a destructor.
        pub(crate) fn unwind_if_cancelled() {}

        /// Returns no error: the models know by themselves what has ended.
        pub(crate) fn refuse_if_cancelled() -> io::Result<()> {
            Ok(())
        }

        pub(crate) fn count_early_end() {}
    }

    pub(crate) mod turn {
        pub(crate) fn spend() {}

        pub(crate) fn spend_try() {}

        pub(crate) fn spend_within_wait() {}
    }

    pub(crate) mod wait {
        use std::time::Instant;

        use loom::sync::atomic::AtomicU32;

        use super::cancellation::is_cancelled;
        use super::now;
        pub(crate) use crate::fiber::park;

        /// What lists and debuggers show of a wait. The models have neither.
        pub(crate) enum Awaiting<'a> {
            Lock(#[allow(dead_code, reason = "it is shown")] &'a AtomicU32),
        }

        pub(crate) fn awaiting<R>(_: Awaiting<'_>, wait: impl FnOnce() -> R) -> R {
            wait()
        }

        pub(crate) fn park_unless_cancelled() -> bool {
            let shut_down = is_cancelled();
            if !shut_down {
                park();
            }
            !shut_down
        }

        pub(crate) fn park_until_cancelled() -> bool {
            park_unless_cancelled() && !is_cancelled()
        }

        pub(crate) fn park_unless_over(deadline: Option<Instant>) {
            match deadline {
                None => drop(park_unless_cancelled()),
                Some(deadline) if !is_cancelled() => park_deadline(deadline),
                Some(_) => {}
            }
        }

        pub(crate) fn park_deadline(deadline: Instant) {
            if now() < deadline {
                park();
            }
        }
    }
}
