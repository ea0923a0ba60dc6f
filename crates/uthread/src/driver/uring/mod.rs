//! The io_uring driver: one ring, used by the one worker that made it.
//!
//! Submissions gather in the ring's queue and reach the kernel with the next [`Uring::flush`] or
//! [`Uring::wait`], so that a whole scheduler round costs one system call.

mod encode;
mod setup;
pub(crate) mod waker;

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use std::{io, mem};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode};
use rustix::io::Errno;

use self::waker::{Waker, WakerRead};
use super::{Counts, Driver, Token, Wake};
use crate::op::Operation;

/// The completion of a cancel request: the cancelled operation's own completion says all.
const TOKEN_CANCEL: u64 = Token::RESERVED;
/// A wake-up from another thread.
const TOKEN_WAKE: u64 = Token::RESERVED + 1;

/// Enters with deferred work still pending after a wait: each runs about 20 completions, so 8 fill
/// a scheduler round without letting a flood of completions keep the fibers waiting.
const EXTRA_ENTERS_MAX: usize = 8;

/// One worker's ring.
pub(crate) struct Uring {
    ring: IoUring,
    mode: setup::Mode,
    waker: Waker,
    /// The standing read of the waker's eventfd, where wake-ups come that way.
    waker_read: Option<WakerRead>,
    /// Whether that read has completed and must be made again.
    waker_spent: bool,
    /// Completions taken from the ring early, to make room for submissions.
    collected: VecDeque<(Token, i32)>,
    counts: Counts,
}

impl Uring {
    /// Makes a ring for the calling thread.
    ///
    /// # Errors
    ///
    /// The kernel's, with the remedy in the message, where no kind of ring is allowed.
    pub(crate) fn new() -> io::Result<Uring> {
        let (ring, mode) = setup::ring()?;
        let waker = Waker::new(&ring)?;
        let mut driver = Uring {
            ring,
            mode,
            waker,
            waker_read: None,
            waker_spent: false,
            collected: VecDeque::new(),
            counts: Counts::default(),
        };
        driver.arm_waker();
        Ok(driver)
    }

    /// Whether `reap` would hand out something.
    pub(crate) fn has_completions(&mut self) -> bool {
        !self.collected.is_empty() || !self.ring.completion().is_empty()
    }

    /// Renews the read of the waker's eventfd after a wake-up.
    fn rearm_waker(&mut self) {
        if mem::take(&mut self.waker_spent) {
            self.waker_read = None;
            self.arm_waker();
        }
    }

    /// Keeps a read of the waker's eventfd in the ring, where the waker is one.
    #[allow(unsafe_code, reason = "the kernel gets a pointer")]
    fn arm_waker(&mut self) {
        if let Some(mut read) = self.waker.read() {
            let entry = read.entry().user_data(TOKEN_WAKE);
            self.waker_read = Some(read);
            // SAFETY: the buffer is on the heap and kept until the completion (`reap`, `drop`).
            unsafe { self.push(&entry) };
        }
    }

    /// Pushes an entry, making room where the queue is full.
    ///
    /// # Safety
    ///
    /// What the entry points to stays valid until its completion.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn push(&mut self, entry: &io_uring::squeue::Entry) {
        loop {
            // SAFETY: promised by the caller.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            self.enter(0, Some(Duration::ZERO));
        }
    }

    /// One `io_uring_enter`: submits what gathered and waits for `completions_min`.
    #[allow(
        unsafe_code,
        reason = "the crate's own calls cannot ask for GETEVENTS alone"
    )]
    fn enter(&mut self, completions_min: u32, timeout: Option<Duration>) {
        let pending = self.ring.submission().len() as u32;
        let timespec = timeout.filter(|_| completions_min > 0).map(Timespec::from);
        let arguments = match &timespec {
            Some(timespec) => SubmitArgs::new().timespec(timespec),
            None => SubmitArgs::new(),
        };
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG;
        self.counts.enters += 1;
        // SAFETY: `arguments` is of the type that EXT_ARG announces, and lives over the call.
        let entered = unsafe {
            let submitter = self.ring.submitter();
            submitter.enter(pending, completions_min, flags.bits(), Some(&arguments))
        };
        let Err(error) = entered else { return };
        match Errno::from_io_error(&error) {
            // The wait is over, or a signal came: look around.
            Some(Errno::TIME | Errno::INTR) => {}
            // No room for completions, or no memory for requests: take completions, try again.
            Some(Errno::BUSY | Errno::AGAIN | Errno::NOMEM) => self.collect(),
            _ => panic!("io_uring_enter: {error}: no cause known, please report"),
        }
    }

    /// Empties the completion queue into memory, so that the kernel accepts submissions again.
    fn collect(&mut self) {
        let mut collected = mem::take(&mut self.collected);
        self.reap(&mut |token, result| collected.push_back((token, result)));
        self.collected = collected;
    }
}

impl Driver for Uring {
    fn description(&self) -> String {
        format!("io_uring ({}, wake by {})", self.mode, self.waker.kind())
    }

    fn waker(&self) -> io::Result<Box<dyn Wake>> {
        Ok(Box::new(self.waker.try_clone()?))
    }

    fn counts(&self) -> Counts {
        self.counts
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
        self.rearm_waker();
        let submission = self.ring.submission();
        let pending = submission.len();
        if pending > 0 || submission.taskrun() || submission.cq_overflow() {
            drop(submission);
            self.enter(0, Some(Duration::ZERO));
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if self.has_completions() {
            return self.flush();
        }
        self.rearm_waker();
        self.enter(1, timeout);
        for _ in 0..EXTRA_ENTERS_MAX {
            // With deferred task work a sleeping enter returns with the first completion and
            // leaves the others pending: fetch them, or batches shrink to one.
            if !self.ring.submission().taskrun() {
                break;
            }
            self.enter(0, Some(Duration::ZERO));
        }
    }

    fn reap(&mut self, complete: &mut dyn FnMut(Token, i32)) {
        for (token, result) in self.collected.drain(..) {
            complete(token, result);
        }
        let mut woken = false;
        for entry in self.ring.completion() {
            match entry.user_data() {
                TOKEN_CANCEL => {}
                TOKEN_WAKE => woken = true,
                token => {
                    self.counts.completions += 1;
                    complete(Token(token), entry.result());
                }
            }
        }
        // The entry is pushed with the next flush or wait, not here: making room for it may reap.
        self.waker_spent |= woken;
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

impl Drop for Uring {
    /// Ends the standing read of the waker. All else has completed: the worker saw to that.
    fn drop(&mut self) {
        /// Far beyond what the cancellation of an eventfd read takes: one enter does it.
        const ENTERS_MAX: usize = 100;
        let Some(read) = self.waker_read.take().filter(|_| !self.waker_spent) else {
            return;
        };
        self.cancel(Token(TOKEN_WAKE));
        for _ in 0..ENTERS_MAX {
            self.enter(1, Some(Duration::from_millis(10)));
            if self
                .ring
                .completion()
                .any(|entry| entry.user_data() == TOKEN_WAKE)
            {
                return;
            }
        }
        // Closing a ring does not end its requests at once: what the kernel may write is leaked.
        mem::forget(read);
    }
}

#[cfg(test)]
mod tests;
