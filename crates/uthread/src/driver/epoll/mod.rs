//! The epoll driver: non-blocking system calls, and a wait for readiness where they would block.
//!
//! ```text
//!   start            an operation on a connection is tried at once, unless it is known to be unready, or is one of many short sends
//!   flush or wait    each gathered operation is tried
//!     done             its result is kept until it is reaped
//!     not ready        it waits for an event of its descriptor, and is tried again
//!     would block      a pool thread performs it, as epoll cannot wait for it: for example a disk
//! ```

mod file;
mod returned;

pub(crate) mod probe;

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, mem};

use rustix::event::epoll::{self, CreateFlags};
use rustix::io::Errno;

use self::file::Attempt;
pub(crate) use self::file::block;
use self::returned::Returned;
use super::eventfd::Eventfd;
use super::native::{self, socket::Call};
use super::readiness::{Interest, Waiting};
use super::send_batcher::SendBatcher;
use super::token_map::TokenMap;
use super::{Completion, Counts, Driver, Start, Token, Wake, in_one};
use crate::driver::events::{self, EVENTS_MAX, Events};
use crate::driver::interest_table::{self, InterestTable};
use crate::op::fs::FileOperation;
use crate::op::net::SocketOperation;
use crate::op::{self, Awaited, Operation};
use crate::pool::{self, Ticket};
use crate::priorities::{ByPriority, Priority};
use crate::resource::descriptor::Descriptor;
use crate::resource::standard;

/// Number of operations that gather before they are tried: about the maximum of a scheduler round.
const GATHERED_MAX: usize = 256;

/// Mean time for each send of a round, from which sends gather: more than a message takes that is
/// only received and sent. Such messages find the code of the kernel in the cache anyway, and each
/// send is a system call all the same.
const GATHERED_SEND_TIME_MIN: Duration = Duration::from_micros(20);

/// Number of successive waits that end without a poll for events because an operation is done. A
/// fiber whose calls all succeed at once must not starve the others; the response to one request
/// needs one such wait.
const BLIND_WAITS_MAX: u32 = 4;

/// Distinguishes a wake-up from the events of descriptors, whose numbers are lower.
const WAKE_UP: u64 = u64::MAX;

/// The driver of one worker.
pub(crate) struct Epoll {
    operations: Operations,
    gathered: ByPriority<Waiting<Operation<'static>>>,
    /// The priority of the operations that are started.
    priority: Priority,
    counts: Counts,
    /// Number of waits since the last poll for events.
    blind_waits: u32,
    send_batcher: SendBatcher,
}

/// The operations that were tried.
struct Operations {
    interests: InterestTable<Operation<'static>>,
    /// The priority of what is passed to the pool. An operation that has waited for an event is
    /// normal then.
    priority: Priority,
    /// Operations passed to the pool.
    pooled: TokenMap<Ticket>,
    shared: Arc<Shared>,
    /// Results not yet reaped. Bounded by the number of fibers.
    done: VecDeque<(Token, i32)>,
    /// `true` if a wake-up was not reaped yet.
    woken: bool,
    /// Number of attempts.
    attempts: u64,
}

/// The state that the pool's threads share.
struct Shared {
    returned: Returned<(Token, i32)>,
    eventfd: Eventfd,
}

/// The progress of an operation.
enum Progress {
    Done(rustix::io::Result<u32>),
    /// It waits for an event of a registered descriptor.
    Waits(RawFd, Interest),
}

/// Creates a driver.
///
/// # Errors
///
/// `EMFILE` if the process has no free descriptor; `ENOMEM` if the kernel has no memory.
pub(crate) fn make() -> io::Result<Box<dyn Driver>> {
    Ok(Box::new(new()?))
}

fn new() -> io::Result<Epoll> {
    let eventfd = Eventfd::new()?;
    let epoll = standard::avoid(epoll::create(CreateFlags::CLOEXEC)?)?;
    events::listen(epoll.as_fd(), eventfd.as_fd(), WAKE_UP)?;
    let shared = Shared {
        returned: Returned::default(),
        eventfd,
    };
    Ok(Epoll {
        operations: Operations {
            interests: InterestTable::new(epoll),
            priority: Priority::Normal,
            pooled: TokenMap::default(),
            shared: Arc::new(shared),
            done: VecDeque::new(),
            woken: false,
            attempts: 0,
        },
        gathered: ByPriority::default(),
        priority: Priority::Normal,
        counts: Counts::default(),
        blind_waits: 0,
        send_batcher: SendBatcher::new(GATHERED_SEND_TIME_MIN),
    })
}

impl Epoll {
    /// Tries the gathered operations.
    fn start_gathered(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        for (priority, waiting) in self.gathered.drain() {
            self.operations.priority = priority;
            self.operations.proceed(waiting);
        }
        self.operations.priority = Priority::Normal;
    }

    /// Keeps an operation until the next flush.
    ///
    /// # Safety
    ///
    /// The contract of [`Driver::start`].
    #[allow(
        unsafe_code,
        reason = "an operation that its caller keeps in place until it has ended"
    )]
    unsafe fn gather(&mut self, operation: &mut Operation<'_>, token: Token) -> Start {
        if self.gathered.len() == GATHERED_MAX {
            return Start::Full;
        }
        self.counts.submissions += 1;
        let awaited = operation.awaited();
        // SAFETY: the caller keeps the operation in place until its completion.
        let waiting = unsafe { Waiting::new(NonNull::from(operation).cast(), token) };
        self.gathered.push(self.priority, waiting);
        Start::Pending(awaited)
    }

    /// Polls for events, waiting at most `timeout` for the first, and advances the operations that
    /// they concern.
    fn look(&mut self, timeout: Option<Duration>) {
        self.blind_waits = 0;
        self.counts.enters += 1;
        let operations = &mut self.operations;
        let mut events = Events::new();
        let events = events.wait(operations.interests.epoll(), timeout, EVENTS_MAX);
        operations
            .interests
            .prefetch(events.iter().map(|event| event.data.u64() as RawFd));
        for event in events {
            let (data, flags) = (event.data.u64(), event.flags);
            match data {
                WAKE_UP => operations.woken = true,
                fd => interest_table::on_event(
                    operations,
                    |operations| &mut operations.interests,
                    (fd as RawFd, flags),
                    Operations::proceed,
                ),
            }
        }
    }
}

impl Driver for Epoll {
    fn description(&self) -> String {
        let timers = if events::has_precise_waits() {
            ""
        } else {
            ", timers of whole milliseconds"
        };
        format!("edge-triggered, files on a pool of threads{timers}")
    }

    fn waker(&self) -> io::Result<Box<dyn Wake>> {
        Ok(Box::new(self.operations.shared.eventfd.try_clone()?))
    }

    fn counts(&self) -> Counts {
        Counts {
            enters: self.counts.enters + self.operations.attempts,
            ..self.counts
        }
    }

    #[allow(
        unsafe_code,
        reason = "an operation that its caller keeps in place until it has ended"
    )]
    unsafe fn start(&mut self, operation: &mut Operation<'_>, token: Token) -> Start {
        if let Operation::Socket(SocketOperation::Send(send)) = operation
            && self.send_batcher.gathers(send.buffer.len(), Instant::now)
        {
            // SAFETY: the caller keeps the operation in place until its completion.
            return unsafe { self.gather(operation, token) };
        }
        let operations = &mut self.operations;
        let progress = match operation {
            Operation::Socket(SocketOperation::Receive(call)) => operations.attempt(call),
            Operation::Socket(SocketOperation::Send(call)) => operations.attempt(call),
            Operation::Socket(SocketOperation::ReceiveMessage(call)) => operations.attempt(call),
            Operation::Socket(SocketOperation::SendMessage(call)) => operations.attempt(call),
            // SAFETY: the caller keeps the operation in place until its completion.
            _ => return unsafe { self.gather(operation, token) },
        };
        match progress {
            Progress::Done(result) => {
                self.counts.submissions += 1;
                Start::Done(result)
            }
            Progress::Waits(fd, interest) => {
                self.counts.submissions += 1;
                // SAFETY: the caller keeps the operation in place until its completion.
                let waiting = unsafe { Waiting::new(NonNull::from(operation).cast(), token) };
                operations.interests.wait(fd, interest, waiting);
                Start::Pending(Awaited::on(fd))
            }
        }
    }

    fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
    }

    fn cancel(&mut self, target: Token) {
        let gathered = self.gathered.remove(|waiting| waiting.token == target);
        let operations = &mut self.operations;
        // An operation that a thread has started ends by itself.
        let found = gathered.is_some()
            || operations.interests.cancel(target)
            || operations.withdraw(target);
        if found {
            operations.done.push_back((target, -op::CANCELLED));
        }
    }

    fn flush(&mut self) {
        self.send_batcher
            .end_round(0, Instant::now, native::preemptions);
        self.start_gathered();
        if self.operations.interests.has_waiting() {
            self.look(Some(Duration::ZERO));
        }
    }

    fn flush_within(&self) -> Option<Duration> {
        self.send_batcher.flush_within(self.gathered.len() as u32)
    }

    fn is_flushed(&mut self) -> bool {
        self.gathered.is_empty()
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.send_batcher
            .end_round(0, Instant::now, native::preemptions);
        self.start_gathered();
        if !self.operations.has_results() {
            self.look(timeout);
        } else if self.blind_waits < BLIND_WAITS_MAX {
            self.blind_waits += 1;
        } else {
            self.look(Some(Duration::ZERO));
        }
    }

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> bool {
        let operations = &mut self.operations;
        operations.done.extend(operations.shared.returned.take());
        let count = operations.done.len().min(max);
        for (token, result) in operations.done.drain(..count) {
            complete(token, Completion::last(result));
        }
        mem::take(&mut operations.woken)
    }
}

impl Operations {
    /// Returns `true` if there are results to reap.
    fn has_results(&self) -> bool {
        !self.done.is_empty() || !self.shared.returned.is_empty()
    }

    /// Withdraws an operation from the pool. Returns `false` if it is not queued there.
    fn withdraw(&mut self, token: Token) -> bool {
        let ticket = self.pooled.get(token);
        ticket
            .and_then(|ticket| pool::files().withdraw(ticket))
            .is_some()
    }

    /// Advances an operation on a socket as far as possible without blocking.
    fn advance_socket(&mut self, operation: &mut SocketOperation<'_>) -> Progress {
        match operation {
            SocketOperation::Accept(call) => self.attempt(call),
            SocketOperation::Connect(call) => self.attempt(call),
            SocketOperation::Receive(call) => self.attempt(call),
            SocketOperation::Send(call) => self.attempt(call),
            SocketOperation::ReceiveMessage(call) => self.attempt(call),
            SocketOperation::SendMessage(call) => self.attempt(call),
            SocketOperation::Poll(call) => self.attempt(call),
        }
    }

    /// Makes a call on a socket, unless that is known to be unready.
    fn attempt<'a>(&mut self, call: &mut impl Call<'a>) -> Progress {
        let (descriptor, interest) = (call.target(), Interest::of(call.events()));
        let fd = descriptor.fd.as_raw_fd();
        if let Some(readiness) = self.interests.registered(descriptor) {
            if readiness.is_unready(interest) {
                return Progress::Waits(fd, interest);
            }
            self.attempts += 1;
            return match readiness.attempt(call) {
                Some(result) => Progress::Done(result),
                None => Progress::Waits(fd, interest),
            };
        }
        self.attempts += 1;
        if let Some(result) = native::socket::try_now(call) {
            return Progress::Done(result);
        }
        if let Err(errno) = self.register(descriptor) {
            return Progress::Done(Err(errno));
        }
        let readiness = self.interests.file(fd);
        readiness.mark_unready(interest);
        match readiness.at_end(call) {
            Some(result) => Progress::Done(result),
            None => Progress::Waits(fd, interest),
        }
    }

    fn register(&mut self, descriptor: Descriptor<'_>) -> rustix::io::Result<bool> {
        let result = self.interests.register(descriptor);
        self.end_orphans();
        result
    }

    fn end_orphans(&mut self) {
        let done = &mut self.done;
        self.interests.end_orphans(|result| done.push_back(result));
    }

    /// Advances an operation on a file as far as possible without blocking.
    fn advance_file(&mut self, operation: &mut FileOperation<'_>) -> Attempt {
        if let Some((descriptor, interest)) = file::interest(operation)
            && let Some(readiness) = self.interests.registered(descriptor)
            && readiness.is_unready(interest)
        {
            return Attempt::NotReady(descriptor.fd.as_raw_fd(), interest);
        }
        self.attempts += 1;
        let attempt = file::try_file(operation, &mut self.interests);
        self.end_orphans();
        attempt
    }

    /// Advances an operation as far as possible without blocking.
    #[allow(unsafe_code, reason = "a part of an operation is passed on")]
    fn proceed(&mut self, mut waiting: Waiting<Operation<'static>>) {
        let token = waiting.token;
        let progress = match waiting.operation() {
            Operation::Socket(operation) => self.advance_socket(operation),
            Operation::File(operation) => match self.advance_file(operation) {
                Attempt::Done(result) => Progress::Done(result),
                Attempt::NotReady(fd, interest) => Progress::Waits(fd, interest),
                Attempt::Blocks(done) => {
                    // SAFETY: only this part of the operation is accessed from now on, and the
                    // contract for the whole holds for it.
                    let file = unsafe { Waiting::new(NonNull::from(operation), token) };
                    return self.send_to_pool(file, done);
                }
            },
            Operation::Multishot(_) | Operation::Raw(_) => Progress::Done(Err(Errno::OPNOTSUPP)),
        };
        match progress {
            Progress::Done(result) => self.done.push_back((token, in_one(result))),
            Progress::Waits(fd, interest) => self.interests.wait(fd, interest, waiting),
        }
    }

    /// Passes an operation, of which `done` bytes are done, to a pool thread, which may block.
    fn send_to_pool(&mut self, mut waiting: Waiting<FileOperation<'static>>, done: usize) {
        let shared = Arc::clone(&self.shared);
        let token = waiting.token;
        let job = Box::new(move || {
            // Captured as a whole, as only the whole is `Send`.
            let waiting = &mut waiting;
            let result = in_one(file::block(waiting.operation(), done));
            if shared.returned.give((waiting.token, result)) {
                shared.eventfd.wake();
            }
        });
        let ticket = pool::files().run(job, self.priority);
        self.pooled.insert(token, ticket);
    }
}

#[cfg(test)]
mod tests;
