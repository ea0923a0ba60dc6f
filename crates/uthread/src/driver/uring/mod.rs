//! The io_uring driver: one ring, used by the worker that created it.
//!
//! Submissions gather and reach the kernel with the next [`Driver::flush`] or [`Driver::wait`], so
//! that a whole scheduler round costs one system call; or none, if a kernel thread polls for them
//! ([`submissions`]).

mod batch_sizer;
pub(super) mod cancellations;
mod completions;
mod connections;
mod devices;
mod encode;
mod raw;
mod registered;
mod ring_features;
mod setup;
mod start;
mod submissions;
#[cfg(uthread_urgent)]
mod urgent;
pub(super) mod user_data;
pub(crate) mod waker;

pub(crate) mod probe;
mod trial;

use std::cell::OnceCell;
use std::fmt::Write;
use std::io;
use std::time::{Duration, Instant};

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, Probe, opcode};
use rustix::io::Errno;

use self::batch_sizer::BatchSizer;
use self::cancellations::Cancellations;
use self::connections::Connections;
use self::devices::Devices;
use self::raw::Raws;
use self::registered::Registered;
use self::submissions::{PendingSubmissions, Submissions};
#[cfg(uthread_urgent)]
use self::urgent::UrgentEntries;
use self::user_data::UserData;
use self::waker::Waker;
use super::native;
use super::send_batcher::SendBatcher;
use super::{Completion, Counts, Driver, RingFeatures, Start, Token, Wake};
use crate::op::Operation;
use crate::op::net::SocketOperation;
use crate::priorities::Priority;
pub(crate) use setup::{Options, is_refusal};

/// Maximum number of additional enters while deferred work is pending after a wait. Each runs about
/// 20 completions, so 8 fill a scheduler round, and a flood of completions does not delay the
/// fibers.
const EXTRA_ENTERS_MAX: usize = 8;

/// The driver of one worker, with its ring.
pub(crate) struct Uring {
    submissions: Submissions,
    mode: setup::Mode,
    /// `true` if sends are tried at once, or gather.
    tries_sends: bool,
    /// The results of requested polling modes, with the kernel's reason if it does not poll for
    /// submissions.
    notes: String,
    waker: Waker,
    counts: Counts,
    batch_sizer: BatchSizer,
    send_batcher: SendBatcher,
    registered: Registered,
    devices: Option<Devices>,
    /// `None` if a thread of the kernel takes the submissions, or if fibers move to other rings.
    connections: Option<Connections>,
    in_flight: InFlight,
    /// `true` if a wake-up was reaped, so that the request that listens for the next must be
    /// renewed.
    woken: bool,
    /// The operations that the ring supports, once queried; `None` if the ring cannot be queried.
    probe: OnceCell<Option<Probe>>,
}

/// The records of the entries in flight.
struct InFlight {
    raws: Raws,
    cancellations: Cancellations,
    /// `None` if the ring does not use the flag of urgent entries.
    #[cfg(uthread_urgent)]
    urgent: Option<UrgentEntries>,
}

/// Creates a ring for a worker.
///
/// # Errors
///
/// The errors of [`new`].
pub(crate) fn make(options: Options) -> io::Result<Box<dyn Driver>> {
    Ok(Box::new(new(options)?))
}

/// Creates a ring with the waker of older kernels.
#[cfg(test)]
pub(crate) fn make_with_eventfd() -> io::Result<Box<dyn Driver>> {
    let mut driver = new(Options::default())?;
    driver.waker = Waker::by_eventfd()?;
    Ok(Box::new(driver))
}

/// Creates a ring for the calling thread. If the kernel refuses to poll, the ring does not poll.
///
/// # Errors
///
/// `PermissionDenied`, `ENOSYS`, `ENOMEM` or any other error with which the kernel refuses all
/// kinds of rings, with a remedy in the message.
fn new(options: Options) -> io::Result<Uring> {
    let ring = setup::ring_for(options)?;
    #[cfg(uthread_urgent)]
    let (ring, urgent) = UrgentEntries::of(ring)?;
    assemble(
        options,
        ring,
        #[cfg(uthread_urgent)]
        urgent,
    )
}

/// Makes the driver of a new ring.
///
/// # Errors
///
/// `EMFILE` if the process has no free descriptor.
fn assemble(
    options: Options,
    (ring, mode, refusal): setup::Made,
    #[cfg(uthread_urgent)] urgent: Option<UrgentEntries>,
) -> io::Result<Uring> {
    let waker = Waker::new(&ring)?;
    let mut notes = String::new();
    #[cfg(uthread_urgent)]
    if urgent.is_some() {
        notes.push_str(", urgent entries overtake");
    }
    if let Some(refusal) = refusal {
        let _ = write!(notes, ", kernel polling refused: {refusal}");
    }
    if let Some(count) = options.kernel_workers {
        let limited = (ring.submitter()).register_iowq_max_workers(&mut [count, count]);
        let _ = match limited {
            Ok(()) => write!(notes, ", at most {count} kernel workers"),
            Err(refusal) => write!(notes, ", limit of kernel workers refused: {refusal}"),
        };
    }
    let devices = options.io_polling.then(Devices::new);
    if let Some(devices) = &devices {
        notes.push_str(", I/O polling");
        if let Err(refusal) = devices {
            let _ = write!(notes, " refused: {refusal}");
        }
    }
    let is_polled = matches!(mode, setup::Mode::Polled { .. });
    // Fibers that move to other rings are served at less cost by requests.
    let has_connections = !is_polled && (!options.moves || options.is_only);
    let mut connections = has_connections.then(Connections::new).transpose()?;
    // Before Linux 5.18, the ring gets an eventfd only once it has no requests, and the call waits
    // for that.
    if mode == setup::Mode::Interrupting {
        connections.take_if(|connections| connections.listen(&ring).is_err());
    }
    // With cooperative task work, a request for each send takes as little time, and the fiber goes
    // behind those that wait for their turn: fewer connections wait for long.
    let tries_sends = mode == setup::Mode::Deferred;
    Ok(Uring {
        submissions: Submissions::new(ring),
        tries_sends,
        mode,
        notes,
        waker,
        counts: Counts::default(),
        batch_sizer: BatchSizer::new(),
        send_batcher: SendBatcher::new(Duration::ZERO),
        registered: Registered::new(),
        devices: devices.and_then(Result::ok),
        connections,
        in_flight: InFlight {
            raws: Raws::default(),
            cancellations: Cancellations::default(),
            #[cfg(uthread_urgent)]
            urgent,
        },
        woken: true,
        probe: OnceCell::new(),
    })
}

impl Uring {
    /// Ends a round of sends, and returns their number.
    fn end_round(&mut self) -> u32 {
        self.send_batcher
            .end_round(self.backlog(), Instant::now, native::preemptions)
    }

    /// Returns the number of connections that wait for their turn.
    fn backlog(&self) -> u32 {
        self.connections.as_ref().map_or(0, Connections::backlog)
    }

    /// Releases unused resources.
    fn forget_retired(&mut self) {
        let ring = self.submissions.ring.submitter();
        self.registered.forget_retired(&ring);
    }

    /// Sleeps in the ring until a completion or the timeout, if it `may_sleep`.
    fn wait_in_ring(&mut self, may_sleep: bool, timeout: Option<Duration>) {
        let pending = self.submissions.publish();
        if may_sleep || !pending.is_empty() || self.submissions.owes_completions() {
            self.enter(pending, u32::from(may_sleep), timeout);
        }
    }

    /// Sleeps in the epoll instance until an event of a connection, a completion or the timeout, if
    /// it `may_sleep`.
    fn wait_for_events(&mut self, may_sleep: bool, timeout: Option<Duration>) {
        let pending = self.submissions.publish();
        let is_due = self.ask(Connections::take_unsignaled) || self.submissions.owes_completions();
        if is_due || !pending.is_empty() {
            self.enter(pending, 0, Some(Duration::ZERO));
        }
        // An earlier signal of the ring may end the first sleep too soon.
        for _ in 0..2 {
            if !may_sleep
                || self.has_completions()
                || self.submissions.owes_completions()
                || self.ask(|connections| connections.take_events(timeout))
            {
                break;
            }
        }
    }

    /// Returns the answer of the connections; `false` if there are none.
    fn ask(&mut self, question: impl FnOnce(&mut Connections) -> bool) -> bool {
        self.connections.as_mut().is_some_and(question)
    }

    /// Returns `true` if the ring has completions to reap.
    fn has_completions(&mut self) -> bool {
        !self.submissions.ring.completion().is_empty()
    }

    /// Submits due requests to cancel. Returns the time until the next is due, if there is one.
    #[allow(unsafe_code, reason = "every entry is pushed through one unsafe call")]
    fn push_cancellations(&mut self) -> Option<Duration> {
        while self.has_room(1)
            && let Some(target) = self.in_flight.cancellations.take(Instant::now)
        {
            let entry = opcode::AsyncCancel::new(UserData::Entry(target).encode()).build();
            let entry = entry.user_data(UserData::Cancel(target).encode());
            // SAFETY: a cancel request points to no memory.
            unsafe { self.submissions.push_last(&entry) };
        }
        self.in_flight.cancellations.next(Instant::now)
    }

    /// Listens for wake-ups again after one has arrived, if that takes a request. Returns `true` if
    /// one has arrived meanwhile.
    #[allow(unsafe_code, reason = "every entry is pushed through one unsafe call")]
    fn listen(&mut self) -> bool {
        if !self.woken || !self.has_room(1) {
            return false;
        }
        self.woken = false;
        let woken = self.waker.clear();
        if let Some(entry) = self.waker.listen() {
            // SAFETY: a poll request points to no memory.
            unsafe {
                self.submissions
                    .push([&entry.user_data(UserData::Wake.encode())])
            };
        }
        woken
    }

    /// Makes one `io_uring_enter` call, which submits `pending` and waits for `completions_min`.
    #[allow(
        unsafe_code,
        reason = "the crate's own calls cannot ask for GETEVENTS alone"
    )]
    fn enter(
        &mut self,
        pending: PendingSubmissions,
        completions_min: u32,
        timeout: Option<Duration>,
    ) {
        let timespec = timeout.filter(|_| completions_min > 0).map(Timespec::from);
        let arguments = match &timespec {
            Some(timespec) => SubmitArgs::new().timespec(timespec),
            None => SubmitArgs::new(),
        };
        let flags = EnterFlags::GETEVENTS | EnterFlags::EXT_ARG | pending.flags;
        self.counts.enters += 1;
        // SAFETY: `arguments` is of the type that EXT_ARG announces, and outlives the call.
        let entered = unsafe {
            let submitter = self.submissions.ring.submitter();
            submitter.enter(
                pending.entries,
                completions_min,
                flags.bits(),
                Some(&arguments),
            )
        };
        check(entered);
    }
}

fn check(entered: io::Result<usize>) {
    let Err(error) = entered else { return };
    match Errno::from_io_error(&error) {
        // The wait is over, or a signal has arrived.
        Some(Errno::TIME | Errno::INTR) => {}
        // No space for completions, or no memory for requests: the worker reaps and tries again.
        Some(Errno::BUSY | Errno::AGAIN | Errno::NOMEM) => {}
        _ => panic!("io_uring_enter: {error}: no cause known, please report"),
    }
}

impl Driver for Uring {
    fn description(&self) -> String {
        format!("{}{}, wake by {}", self.mode, self.notes, self.waker.kind())
    }

    fn waker(&self) -> io::Result<Box<dyn Wake>> {
        Ok(Box::new(self.waker.try_clone()?))
    }

    fn counts(&self) -> Counts {
        Counts {
            enters: self.counts.enters + self.connections.as_ref().map_or(0, Connections::calls),
            backlog: self.backlog(),
            ..self.counts
        }
    }

    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn start(&mut self, operation: &mut Operation<'_>, token: Token) -> Start {
        let start = match operation {
            Operation::Socket(SocketOperation::Receive(receive)) => {
                // SAFETY: the caller keeps the operation in place until its completion.
                unsafe { self.start_receive(receive, token) }
            }
            Operation::Socket(SocketOperation::Send(send)) => {
                // SAFETY: the caller keeps the operation in place until its completion.
                unsafe { self.start_send(send, token) }
            }
            // SAFETY: the caller keeps the operation in place until its completion.
            Operation::Socket(operation) => unsafe { self.start_socket(operation, token) },
            // SAFETY: the caller keeps the operation in place until its completion.
            Operation::File(operation) => unsafe { self.start_file(operation, token) },
            // SAFETY: the caller keeps the operation in place until its completion.
            Operation::Multishot(operation) => unsafe { self.start_multishot(operation, token) },
            // SAFETY: the caller keeps the operation in place until its completion.
            Operation::Raw(operation) => unsafe { self.start_raw(operation, token) },
        };
        self.counts.submissions += u64::from(start != Start::Full);
        start
    }

    fn ring(&mut self) -> Option<&mut dyn RingFeatures> {
        Some(self)
    }

    fn set_priority(&mut self, priority: Priority) {
        if priority != Priority::Normal && !self.submissions.is_ordered() {
            if self.submissions.unpublished() > 0 {
                // The entries have their order already, and get a flush of their own.
                self.flush();
            }
            self.submissions.order();
        }
        self.submissions.set_priority(priority);
    }

    fn cancel(&mut self, target: Token) {
        let waited = self.ask(|connections| connections.cancel(target));
        let InFlight {
            raws,
            cancellations,
            ..
        } = &mut self.in_flight;
        if !waited && !raws.cancel(target, cancellations) {
            cancellations.cancel(target);
        }
    }

    fn flush_within(&self) -> Option<Duration> {
        #[cfg(uthread_urgent)]
        if (self.in_flight.urgent.as_ref()).is_some_and(UrgentEntries::is_any_refused) {
            return Some(super::FLUSH_TIME_MAX);
        }
        self.send_batcher
            .flush_within(self.submissions.unpublished())
    }

    fn is_flush_due(&self) -> bool {
        self.batch_sizer.is_full()
    }

    fn flush(&mut self) {
        self.batch_sizer.begin_next();
        let sends = self.end_round();
        self.poll_devices();
        self.listen();
        #[cfg(uthread_urgent)]
        self.resubmit_refused();
        self.forget_retired();
        self.push_cancellations();
        if let Some(connections) = &mut self.connections
            && connections.has_waiting()
        {
            connections.take_some_events(sends);
        }
        let pending = self.submissions.publish();
        if !pending.is_empty() || self.submissions.owes_completions() {
            self.enter(pending, 0, Some(Duration::ZERO));
        }
    }

    fn is_flushed(&mut self) -> bool {
        self.submissions.is_drained()
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        if self.devices.as_ref().is_some_and(Devices::is_busy) {
            // Nothing would end the sleep.
            return self.flush();
        }
        self.batch_sizer.reset();
        self.end_round();
        self.forget_retired();
        let woken = self.listen();
        #[cfg(uthread_urgent)]
        let woken = self.resubmit_refused() || woken;
        let pause = self.push_cancellations();
        let is_busy = woken || self.ask(|connections| connections.has_results());
        let may_sleep = !is_busy && pause != Some(Duration::ZERO);
        let timeout = timeout.into_iter().chain(pause).min();
        if self.ask(|connections| connections.has_waiting()) {
            self.wait_for_events(may_sleep, timeout);
        } else {
            self.wait_in_ring(may_sleep, timeout);
        }
        for _ in 0..EXTRA_ENTERS_MAX {
            // With deferred task work, a sleeping enter returns with the first completion and
            // leaves the others pending. Fetch them, or batches shrink to one.
            if !self.submissions.has_task_work() {
                break;
            }
            let pending = self.submissions.publish();
            self.enter(pending, 0, Some(Duration::ZERO));
        }
    }

    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> bool {
        self.hand_out_completions(max, complete)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        self.registered.end(&self.submissions.ring.submitter());
    }
}

#[cfg(test)]
mod tests;
