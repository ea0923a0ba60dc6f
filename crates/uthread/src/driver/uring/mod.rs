//! The io_uring driver: one ring, used by the one worker that made it.
//!
//! Submissions gather in the ring's queue and reach the kernel with the next [`Driver::flush`] or
//! [`Driver::wait`], so that a whole scheduler round costs one system call.

mod encode;
mod setup;
pub(crate) mod waker;

pub(crate) mod probe;
mod trial;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{CompletionQueue, EnterFlags, IoUring, SubmissionQueue, opcode};
use rustix::io::Errno;

use self::waker::Waker;
use super::{Completions, Counts, Driver, Pair, Token, Wake};
use crate::op::Operation;
pub(crate) use setup::is_refusal;

/// The completion of a cancel request: the cancelled operation's own completion says all.
const TOKEN_CANCEL: u64 = Token::RESERVED;
/// A wake-up from another thread.
const TOKEN_WAKE: u64 = Token::RESERVED + 1;

/// Enters with deferred work still pending after a wait: each runs about 20 completions, so 8 fill
/// a scheduler round without letting a flood of completions keep the fibers waiting.
const EXTRA_ENTERS_MAX: usize = 8;

/// One worker's ring: the end at which operations go in.
pub(crate) struct Uring {
    ring: Arc<Ring>,
    mode: setup::Mode,
    waker: Waker,
    counts: Counts,
}

/// The other end.
pub(crate) struct UringCompletions {
    ring: Arc<Ring>,
}

/// What both ends have. Each of its two queues belongs to one of them alone.
struct Ring {
    io: IoUring,
    /// Whether a wake-up was reaped, so that what listens for the next must be renewed. Relaxed: the end
    /// that reaps is locked against the wait of the other (`Desk`), which orders the two.
    woken: AtomicBool,
}

/// As [`new`], for a worker.
///
/// # Errors
///
/// As [`new`].
pub(crate) fn make(shared: bool) -> io::Result<Pair> {
    let (driver, completions) = new(shared)?;
    Ok((Box::new(driver), Box::new(completions)))
}

/// The same with the waker of older kernels.
#[cfg(test)]
pub(crate) fn make_with_eventfd() -> io::Result<Pair> {
    let (mut driver, completions) = new(false)?;
    driver.waker = Waker::by_eventfd()?;
    Ok((Box::new(driver), Box::new(completions)))
}

/// Makes a ring for the calling thread; where its completions are to be `shared`, one to which they come
/// without that thread.
///
/// # Errors
///
/// The kernel's, with the remedy in the message, where no kind of ring is allowed.
fn new(shared: bool) -> io::Result<(Uring, UringCompletions)> {
    let (io, mode) = setup::ring(if shared { setup::SHARED } else { setup::OWN })?;
    let waker = Waker::new(&io)?;
    let ring = Arc::new(Ring {
        io,
        woken: AtomicBool::new(true),
    });
    let completions = UringCompletions {
        ring: Arc::clone(&ring),
    };
    let driver = Uring {
        ring,
        mode,
        waker,
        counts: Counts::default(),
    };
    Ok((driver, completions))
}

impl Uring {
    #[allow(unsafe_code, reason = "one of two queues that share their ring")]
    fn submission(&mut self) -> SubmissionQueue<'_> {
        // SAFETY: there is one `Uring` to a ring, borrowed mutably here, and nobody else submits.
        unsafe { self.ring.io.submission_shared() }
    }

    /// # Safety
    ///
    /// What the entry points to stays valid until its completion.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn push(&mut self, entry: &Entry) {
        // SAFETY: promised by the caller.
        let pushed = unsafe { self.submission().push(entry) };
        assert!(pushed.is_ok(), "whoever submits has looked for room");
    }

    /// Listens for wake-ups again after one has come, where that takes a request; whether one has come
    /// meanwhile.
    #[allow(unsafe_code, reason = "every entry is pushed through one unsafe call")]
    fn listen(&mut self) -> bool {
        if !self.ring.woken.load(Ordering::Relaxed) || !self.has_room() {
            return false;
        }
        self.ring.woken.store(false, Ordering::Relaxed);
        let woken = self.waker.clear();
        if let Some(entry) = self.waker.listen() {
            // SAFETY: a poll request points to no memory.
            unsafe { self.push(&entry.user_data(TOKEN_WAKE)) };
        }
        woken
    }

    /// One `io_uring_enter`: submits what gathered and waits for `completions_min`.
    #[allow(
        unsafe_code,
        reason = "the crate's own calls cannot ask for GETEVENTS alone"
    )]
    fn enter(&mut self, completions_min: u32, timeout: Option<Duration>) {
        let pending = self.submission().len() as u32;
        let timespec = timeout.filter(|_| completions_min > 0).map(Timespec::from);
        let arguments = match &timespec {
            Some(timespec) => SubmitArgs::new().timespec(timespec),
            None => SubmitArgs::new(),
        };
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        self.counts.enters += 1;
        // SAFETY: `arguments` is of the type that EXT_ARG announces, and lives over the call.
        let entered = unsafe {
            let submitter = self.ring.io.submitter();
            submitter.enter(pending, completions_min, flags.bits(), Some(&arguments))
        };
        let Err(error) = entered else { return };
        match Errno::from_io_error(&error) {
            // The wait is over, or a signal came: look around.
            Some(Errno::TIME | Errno::INTR) => {}
            // No room for completions, or no memory for requests: the worker reaps, and tries again.
            Some(Errno::BUSY | Errno::AGAIN | Errno::NOMEM) => {}
            _ => panic!("io_uring_enter: {error}: no cause known, please report"),
        }
    }
}

impl Driver for Uring {
    fn description(&self) -> String {
        format!("{}, wake by {}", self.mode, self.waker.kind())
    }

    fn waker(&self) -> io::Result<Box<dyn Wake>> {
        Ok(Box::new(self.waker.try_clone()?))
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn has_room(&mut self) -> bool {
        !self.submission().is_full()
    }

    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn submit(&mut self, operation: &mut Operation<'_>, token: Token) {
        let entry = encode::encode(operation).user_data(token.0);
        self.counts.submissions += 1;
        // SAFETY: the caller keeps what the entry points to alive.
        unsafe { self.push(&entry) };
    }

    #[allow(unsafe_code, reason = "every entry is pushed through one unsafe call")]
    fn cancel(&mut self, target: Token) {
        let entry = opcode::AsyncCancel::new(target.0)
            .build()
            .user_data(TOKEN_CANCEL);
        // SAFETY: a cancel request points to no memory.
        unsafe { self.push(&entry) };
    }

    fn flush(&mut self) {
        self.listen();
        let submission = self.submission();
        let pending = submission.len();
        if pending > 0 || submission.taskrun() || submission.cq_overflow() {
            drop(submission);
            self.enter(0, Some(Duration::ZERO));
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        let woken = self.listen();
        self.enter(u32::from(!woken), timeout);
        for _ in 0..EXTRA_ENTERS_MAX {
            // With deferred task work a sleeping enter returns with the first completion and
            // leaves the others pending: fetch them, or batches shrink to one.
            if !self.submission().taskrun() {
                break;
            }
            self.enter(0, Some(Duration::ZERO));
        }
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

impl UringCompletions {
    #[allow(unsafe_code, reason = "one of two queues that share their ring")]
    fn queue(&mut self) -> CompletionQueue<'_> {
        // SAFETY: there is one `UringCompletions` to a ring, borrowed mutably here, and nobody else
        // takes completions.
        unsafe { self.ring.io.completion_shared() }
    }
}

impl Completions for UringCompletions {
    fn is_empty(&mut self) -> bool {
        self.queue().is_empty()
    }

    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, i32)) -> bool {
        let mut woken = false;
        for entry in self.queue().take(max) {
            match entry.user_data() {
                TOKEN_CANCEL => {}
                TOKEN_WAKE => woken = true,
                token => complete(Token(token), entry.result()),
            }
        }
        if woken {
            self.ring.woken.store(true, Ordering::Relaxed);
        }
        woken
    }
}
