//! One direction of a socket: the task that waits for it, and the fiber that waits for the
//! descriptor.
//!
//! ```text
//!   task     attempt -> would block -> leave the waker -> start a fiber unless there is one -> pending
//!   fiber    wait until the descriptor is ready -> resign and take the waker, in one step -> wake
//! ```
//!
//! No wake-up is lost: a task that finds a fiber has left its waker before the fiber resigns, and
//! is woken by it. A task that finds none starts one, and the descriptor is ready at once if that
//! has changed since the attempt. The fiber consumes nothing, so a task that has gone loses nothing
//! either.
//!
//! The fiber is of the runtime in which the task was polled last: a task that is polled elsewhere
//! ends the fiber and starts another one, because a runtime may end without the fibers it abandons.
//!
//! No lock is held while the fiber starts or wakes the task.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use uthread::shield;
use uthread::sync::oneshot::{self, Receiver, Sender};
use uthread::thread::{self, RuntimeId};

/// Number of bytes that a task may transfer in a row before it has to let others run. A poll never
/// suspends its fiber, so a task whose streams are always ready would keep the worker otherwise.
/// The kernel copies as many in some tens of microseconds.
const TURN_BYTES: usize = 128 << 10;

/// Number of bytes that take as long as an attempt takes by itself.
const ATTEMPT_BYTES: usize = 8 << 10;

/// The event that a direction waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Readable,
    Writable,
}

/// The state of one direction.
#[derive(Debug)]
pub(crate) struct Direction {
    event: Event,
    waiting: Mutex<Waiting>,
    /// Bytes since the task last let others run, with those of each attempt.
    spent: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    waker: Option<Waker>,
    /// Present while a fiber waits for the descriptor.
    fiber: Option<Helper>,
    /// Number of fibers that were started so far.
    started: u64,
    /// The error with which the kernel refused to wait.
    failure: Option<io::Error>,
    /// The last fiber has not started, because its runtime has ended.
    has_vanished: bool,
}

/// A fiber that waits for the descriptor.
#[derive(Debug)]
struct Helper {
    /// Its number, counted from 1.
    number: u64,
    runtime: RuntimeId,
    /// Dropping it ends the fiber.
    _end: Sender<Infallible>,
}

impl Waiting {
    fn is_served_by(&self, number: u64) -> bool {
        self.fiber
            .as_ref()
            .is_some_and(|fiber| fiber.number == number)
    }
}

impl Direction {
    pub(crate) fn new(event: Event) -> Direction {
        Direction {
            event,
            waiting: Mutex::default(),
            spent: AtomicUsize::new(0),
        }
    }

    /// Lets other tasks and fibers run, now and then. Called before an attempt.
    pub(crate) fn poll_turn(&self, context: &Context<'_>) -> Poll<()> {
        // Relaxed, here and below: a task that misses what another thread has spent only yields
        // later.
        if self.spent.load(Ordering::Relaxed) < TURN_BYTES {
            return Poll::Ready(());
        }
        self.spent.store(0, Ordering::Relaxed);
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Counts an attempt that has succeeded.
    pub(crate) fn spend(&self, bytes: usize) {
        let bytes = bytes.saturating_add(ATTEMPT_BYTES);
        self.spent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Wakes the task once `socket` is ready. Called after an attempt that would have blocked.
    pub(crate) fn wake_when_ready<S>(
        self: &Arc<Self>,
        socket: &Arc<S>,
        context: &Context<'_>,
    ) -> io::Result<()>
    where
        S: AsFd + Send + Sync + 'static,
    {
        self.spent.store(0, Ordering::Relaxed);
        let waker = context.waker().clone();
        let mut waiting = self.lock();
        if let Some(failure) = waiting.failure.take() {
            return Err(failure);
        }
        let previous = waiting.waker.replace(waker);
        let runtime = thread::runtime_id();
        if waiting
            .fiber
            .as_ref()
            .is_some_and(|fiber| fiber.runtime == runtime)
        {
            drop(waiting);
            drop(previous);
            return Ok(());
        }
        let (sender, end) = oneshot::channel();
        waiting.started += 1;
        let number = waiting.started;
        let elsewhere = waiting.fiber.replace(Helper {
            number,
            runtime,
            _end: sender,
        });
        let has_vanished = waiting.has_vanished && elsewhere.is_none();
        drop(waiting);
        drop((previous, elsewhere));
        let mut wait = Wait {
            direction: Arc::clone(self),
            number,
            has_started: false,
        };
        let socket = Arc::clone(socket);
        let wait = move || wait.run(&*socket, end);
        if has_vanished {
            // The runtime of the caller starts no more fibers, and the caller may wait all the
            // same.
            std::thread::Builder::new().spawn(wait).map(drop)
        } else {
            thread::Builder::new().spawn(wait).map(drop)
        }
    }

    /// Ends the fiber that waits for the descriptor, and forgets the task.
    pub(crate) fn end(&self) {
        let mut waiting = self.lock();
        let (fiber, waker) = (waiting.fiber.take(), waiting.waker.take());
        drop(waiting);
        drop((fiber, waker));
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wait of a fiber. Resigns and wakes the task when it is dropped, also if the fiber never
/// starts or is unwound.
struct Wait {
    direction: Arc<Direction>,
    /// The number of the fiber.
    number: u64,
    has_started: bool,
}

impl Wait {
    fn run(&mut self, socket: &impl AsFd, mut end: Receiver<Infallible>) {
        self.has_started = true;
        let refused = |ready: io::Result<()>| {
            // If the runtime of this fiber ends, another one waits.
            let failure = ready.err().filter(|_| !thread::is_cancelled());
            let mut waiting = self.direction.lock();
            if waiting.is_served_by(self.number) {
                waiting.failure = failure;
            }
        };
        match self.direction.event {
            Event::Readable => uthread::select! {
                readable(socket) -> ready => refused(ready),
                recv(&mut end) => {}
            },
            Event::Writable => uthread::select! {
                writable(socket) -> ready => refused(ready),
                recv(&mut end) => {}
            },
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut waiting = self.direction.lock();
        if !waiting.is_served_by(self.number) {
            return;
        }
        waiting.has_vanished = !self.has_started;
        let (fiber, waker) = (waiting.fiber.take(), waiting.waker.take());
        drop(waiting);
        drop(fiber);
        if let Some(waker) = waker {
            // The fiber may be cancelled, and the executor's waker may make calls: it runs to its
            // end all the same.
            shield(|| waker.wake());
        }
    }
}
