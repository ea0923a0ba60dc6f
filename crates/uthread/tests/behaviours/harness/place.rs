//! The places in which behaviours have to hold: the columns of the table.

use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use uthread::runtime::Builder;
use uthread::{Driver, JoinHandle, Runtime};

use crate::support::{pass_a_round, spawn_begun, wait_until_asleep};

/// All places, one line each.
pub(crate) const PLACES: [Place; 9] = [
    Place::outside("thread"),
    Place::inside("uring 1", Driver::Uring, 1).variant(),
    Place::inside("uring 1 polling", Driver::Uring, 1)
        .polling()
        .variant(),
    Place::inside("uring 2", Driver::Uring, 2),
    Place::inside("epoll 1 lean", Driver::Epoll, 1)
        .lean()
        .variant(),
    Place::inside("epoll 2", Driver::Epoll, 2),
    Place::inside("uring 1 lean", Driver::Uring, 1)
        .lean()
        .variant(),
    Place::inside("uring 2 lean", Driver::Uring, 2)
        .lean()
        .variant(),
    Place::inside("threads", Driver::Threads, 2),
];

/// A plain thread outside every runtime, or a kind of runtime.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    runtime: Option<Kind>,
    /// `true` if another place is much like it: an unfiltered `cargo test` runs only the behaviours
    /// here that hold in no other place.
    pub(super) is_variant: bool,
}

#[derive(Debug, Clone, Copy)]
struct Kind {
    driver: Driver,
    workers: usize,
    polling: bool,
    lean: bool,
}

/// Time after which the kernel thread sleeps, short enough that some submissions find it asleep and
/// others find it awake.
const POLLING_IDLE: Duration = Duration::from_millis(1);

impl Place {
    const fn outside(name: &'static str) -> Place {
        Place {
            name,
            runtime: None,
            is_variant: false,
        }
    }

    const fn inside(name: &'static str, driver: Driver, workers: usize) -> Place {
        let kind = Kind {
            driver,
            workers,
            polling: false,
            lean: false,
        };
        Place {
            name,
            runtime: Some(kind),
            is_variant: false,
        }
    }

    /// Returns the place as a variant of another one.
    const fn variant(mut self) -> Place {
        self.is_variant = true;
        self
    }

    /// Returns the place with polling: the kernel polls for submissions, and the workers poll disks
    /// that support it.
    const fn polling(mut self) -> Place {
        if let Some(kind) = &mut self.runtime {
            kind.polling = true;
        }
        self
    }

    /// Returns the place with lean fibers.
    const fn lean(mut self) -> Place {
        if let Some(kind) = &mut self.runtime {
            kind.lean = true;
        }
        self
    }

    /// Runs a behaviour in a fiber of this place, or on the thread that this place is.
    #[track_caller]
    pub(crate) fn run<T: Send>(self, behaviour: impl FnOnce() -> T + Send) -> T {
        if self.is_outside() {
            return behaviour();
        }
        let mut result = None;
        // Boxed, so that the code of `Runtime::run` is compiled once and not for each behaviour.
        let boxed: Box<dyn FnOnce() + Send + '_> = Box::new(|| result = Some(behaviour()));
        self.runtime().run(boxed);
        result.expect("the result of a fiber that has returned")
    }

    /// Starts a runtime of this place.
    pub(crate) fn runtime(self) -> Runtime {
        self.builder().build().unwrap()
    }

    /// Starts a runtime of this place with another number of workers.
    pub(crate) fn runtime_of(self, workers: usize) -> Runtime {
        self.builder().workers(workers).build().unwrap()
    }

    /// Returns the builder of this place's runtimes.
    pub(crate) fn builder(self) -> Builder {
        let kind = self.kind();
        let mut builder = Runtime::builder()
            .driver(kind.driver)
            .workers(kind.workers)
            // Some keep their worker on purpose, and on a busy machine any may.
            .on_stall(|_| ());
        if kind.polling {
            builder = builder.kernel_polling(POLLING_IDLE).io_polling();
        }
        if kind.lean {
            return builder.lean();
        }
        builder
    }

    /// Returns the reason why there can be no such runtime on this machine, if there is one.
    pub(crate) fn refusal(self) -> Option<&'static str> {
        static NO_RING: LazyLock<Option<String>> = LazyLock::new(|| {
            let runtime = Runtime::builder().workers(1).build().ok()?;
            runtime.driver().refusal().map(ToString::to_string)
        });
        NO_RING.as_deref().filter(|_| self.has(Driver::Uring))
    }

    pub(crate) fn driver(self) -> Driver {
        self.kind().driver
    }

    pub(crate) fn workers(self) -> usize {
        self.kind().workers
    }

    pub(crate) fn is_outside(self) -> bool {
        self.runtime.is_none()
    }

    /// Returns `true` if fibers share workers.
    pub(crate) fn is_of_fibers(self) -> bool {
        !self.is_outside() && !self.is_of_threads()
    }

    pub(crate) fn is_of_threads(self) -> bool {
        self.has(Driver::Threads)
    }

    pub(crate) fn is_of_uring(self) -> bool {
        self.has(Driver::Uring)
    }

    pub(crate) fn is_of_epoll(self) -> bool {
        self.has(Driver::Epoll)
    }

    fn has(self, driver: Driver) -> bool {
        self.runtime.is_some_and(|kind| kind.driver == driver)
    }

    pub(crate) fn has_more_workers(self) -> bool {
        let has_more = self.runtime.is_some_and(|kind| kind.workers > 1);
        has_more && !self.is_of_threads()
    }

    /// Returns `true` if each fiber has thread-local storage of its own.
    pub(crate) fn has_own_tls(self) -> bool {
        self.runtime
            .is_some_and(|kind| !kind.lean && kind.driver != Driver::Threads)
    }

    /// Returns `true` if the kernel polls for operations here.
    pub(crate) fn is_polling(self) -> bool {
        self.runtime.is_some_and(|kind| kind.polling)
    }

    /// Makes `event` happen while `call` waits in the kernel, and returns what `call` returns. Must
    /// be used inside `run`. Where there are several workers, `call` may only be about to wait.
    pub(crate) fn meanwhile<T: Send>(
        self,
        call: impl FnOnce() -> T + Send,
        event: impl FnOnce(),
    ) -> T {
        let (call, waits) = self.announced(call);
        if self.is_outside() {
            return thread::scope(|scope| {
                let caller = scope.spawn(call);
                waits();
                assert!(!caller.is_finished(), "the caller does not wait");
                event();
                caller.join().unwrap()
            });
        }
        uthread::scope(|scope| {
            let caller = scope.spawn(call);
            waits();
            assert!(!caller.is_finished(), "the caller does not wait");
            event();
            caller.join().unwrap()
        })
    }

    /// Starts a fiber beside others that wait, and returns when it waits too.
    pub(crate) fn spawn_waiting<T: Send + 'static>(
        self,
        runtime: &Runtime,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let (fiber, thread) = spawn_begun(runtime, call);
        wait_until_asleep(thread);
        fiber
    }

    /// Returns a call for somebody else to make, and a function that returns once that one waits.
    fn announced<T: Send>(
        self,
        call: impl FnOnce() -> T + Send,
    ) -> (impl FnOnce() -> T + Send, impl FnOnce()) {
        let (sender, thread) = mpsc::channel();
        let call = move || {
            sender.send(rustix::thread::gettid()).unwrap();
            call()
        };
        let waits = move || {
            if self.is_outside() || self.is_of_threads() {
                return wait_until_asleep(thread.recv().unwrap());
            }
            while thread.try_recv().is_err() {
                uthread::yield_now();
            }
            pass_a_round();
        };
        (call, waits)
    }

    fn kind(self) -> Kind {
        self.runtime.expect("a place with a runtime")
    }
}
