//! The epoll driver: system calls that do not wait, and where they would, a wait for readiness.
//!
//! ```text
//!   at once          one on a connection, unless it would be in vain
//!   flush or wait    each operation that gathered is attempted
//!     done             its result is kept until it is reaped
//!     not ready        it waits for an event of its descriptor, and is attempted again
//!     would block      a thread of the pool carries it out: what epoll cannot wait for, as a disk
//! ```
//!
//! Where completions are shared, another worker that reaps also asks for events, and attempts what
//! they were for.

mod attempt;
mod events;
mod interest_table;
mod returned;

pub(crate) mod probe;

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, mem};

use rustix::event::epoll::{self, CreateFlags};

use self::attempt::Attempt;
use self::events::Events;
use self::interest_table::InterestTable;
use self::returned::Returned;
use super::eventfd::Eventfd;
use super::latest::Latest;
use super::{Completion, Completions, Counts, Driver, Pair, Token, Wake, in_one};
use crate::op::{self, Operation};
use crate::pool::{self, Ticket};

/// Operations that gather before they are attempted: a scheduler round makes at most about as many.
const GATHERED_MAX: usize = 256;

/// Waits in a row that end without a look at events because something is done: a fiber whose calls all
/// succeed at once must not keep the others from theirs. An answer to one request needs one.
const BLIND_WAITS_MAX: u32 = 4;

/// Tells a wake-up from the events of descriptors, whose numbers are lower.
const WAKE_UP: u64 = u64::MAX;

/// One worker's end at which operations go in.
pub(crate) struct Epoll {
    core: Arc<Core>,
    gathered: Vec<Pending>,
    counts: Counts,
    /// Waits since the last look at events.
    blind_waits: u32,
}

/// The other end.
pub(crate) struct EpollCompletions {
    core: Arc<Core>,
    /// Whether others than the worker reap.
    shared: bool,
}

/// What both ends have, and the pool's threads.
struct Core {
    epoll: Arc<OwnedFd>,
    state: Mutex<State>,
    returned: Returned<(Token, i32)>,
    eventfd: Eventfd,
}

struct State {
    interests: InterestTable,
    /// What was given to the pool of threads.
    pooled: Latest<Ticket>,
    /// Results not yet reaped; bounded by the number of fibers.
    done: VecDeque<(Token, i32)>,
    /// Whether a wake-up has come that was not yet reaped.
    woken: bool,
    /// Attempts made.
    attempts: u64,
}

/// An operation that is not complete.
struct Pending {
    token: Token,
    operation: NonNull<Operation<'static>>,
}

#[allow(unsafe_code, reason = "a reference without a lifetime")]
// SAFETY: whoever has it is the only one to use the operation, until the completion is reaped, as promised
// to `submit`; and an operation may be sent, as is checked below.
unsafe impl Send for Pending {}

const _: fn() = || {
    fn may_be_sent<T: Send>() {}
    may_be_sent::<Operation<'_>>();
};

/// Makes a driver; `shared` where others than the worker reap its completions.
///
/// # Errors
///
/// The kernel's: `EMFILE`, `ENOMEM`.
pub(crate) fn make(shared: bool) -> io::Result<Pair> {
    let (driver, completions) = new(shared)?;
    Ok((Box::new(driver), Box::new(completions)))
}

fn new(shared: bool) -> io::Result<(Epoll, EpollCompletions)> {
    let eventfd = Eventfd::new()?;
    let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
    events::listen(epoll.as_fd(), eventfd.as_fd(), WAKE_UP)?;
    let core = Arc::new(Core {
        epoll: Arc::clone(&epoll),
        state: Mutex::new(State {
            interests: InterestTable::new(epoll),
            pooled: Latest::default(),
            done: VecDeque::new(),
            woken: false,
            attempts: 0,
        }),
        returned: Returned::default(),
        eventfd,
    });
    let completions = EpollCompletions {
        core: Arc::clone(&core),
        shared,
    };
    let driver = Epoll {
        core,
        gathered: Vec::new(),
        counts: Counts::default(),
        blind_waits: 0,
    };
    Ok((driver, completions))
}

impl Epoll {
    /// Attempts what gathered.
    fn start_gathered(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let mut state = self.core.state();
        for pending in self.gathered.drain(..) {
            self.core.proceed(&mut state, pending);
        }
    }

    fn look(&mut self, timeout: Option<Duration>) {
        self.blind_waits = 0;
        self.counts.enters += 1;
        self.core.look(timeout);
    }
}

impl Driver for Epoll {
    fn description(&self) -> String {
        let timers = if events::are_waits_precise() {
            ""
        } else {
            ", timers of whole milliseconds"
        };
        format!("edge-triggered, files on a pool of threads{timers}")
    }

    fn waker(&self) -> io::Result<Box<dyn Wake>> {
        Ok(Box::new(self.core.eventfd.try_clone()?))
    }

    fn counts(&self) -> Counts {
        Counts {
            enters: self.counts.enters + self.core.state().attempts,
            ..self.counts
        }
    }

    fn has_room(&mut self, entries: usize) -> bool {
        self.gathered.len() + entries <= GATHERED_MAX
    }

    #[allow(unsafe_code, reason = "the contract's")]
    unsafe fn submit(&mut self, operation: &mut Operation<'_>, token: Token) {
        assert!(self.has_room(1), "whoever submits has looked for room");
        self.counts.submissions += 1;
        self.gathered.push(Pending {
            token,
            operation: NonNull::from(operation).cast(),
        });
    }

    fn attempt(&mut self, operation: &mut Operation<'_>) -> Option<i32> {
        let result = self.core.state().attempt(operation)?;
        self.counts.submissions += 1;
        Some(in_one(result))
    }

    fn cancel(&mut self, target: Token) {
        let gathered = self
            .gathered
            .iter()
            .position(|pending| pending.token == target);
        let mut state = self.core.state();
        let found = match gathered {
            Some(index) => {
                self.gathered.remove(index);
                true
            }
            // What a thread has begun ends by itself.
            None => state.interests.cancel(target) || state.withdraw(target),
        };
        if found {
            state.done.push_back((target, -op::CANCELLED));
        }
    }

    fn flush(&mut self) {
        self.start_gathered();
        if self.core.state().interests.has_waiting() {
            self.look(Some(Duration::ZERO));
        }
    }

    fn is_flushed(&mut self) -> bool {
        self.gathered.is_empty()
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.start_gathered();
        if !self.core.has_results() {
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
}

impl Completions for EpollCompletions {
    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> bool {
        if self.shared && !self.core.has_results() {
            self.core.look(Some(Duration::ZERO));
        }
        let returned = self.core.returned.take();
        let mut state = self.core.state();
        state.done.extend(returned);
        let count = state.done.len().min(max);
        for (token, result) in state.done.drain(..count) {
            complete(token, Completion::last(result));
        }
        mem::take(&mut state.woken)
    }

    fn is_empty(&mut self) -> bool {
        let has_events = || self.shared && events::are_there(self.core.epoll.as_fd());
        !(self.core.has_results() || has_events())
    }
}

impl State {
    /// Takes an operation back from the pool; false if it is not there, or has begun.
    fn withdraw(&mut self, token: Token) -> bool {
        let ticket = self.pooled.get(token);
        ticket.and_then(pool::withdraw).is_some()
    }

    /// Carries an operation on a connection out, unless it would be in vain.
    fn attempt(&mut self, operation: &mut Operation<'_>) -> Option<rustix::io::Result<u32>> {
        if !attempt::is_on_connection(operation) {
            return None;
        }
        let (descriptor, interest) = attempt::interest(operation)?;
        let interests = &mut self.interests;
        if interests.is_unready(descriptor, interest) {
            return None;
        }
        self.attempts += 1;
        match attempt::try_now(operation, interests) {
            Attempt::Done(result) => Some(result),
            Attempt::NotReady | Attempt::Blocks(_) => {
                // The submission that follows need not try again. It also tells of what cannot be watched.
                if interests.register(descriptor).is_ok() {
                    interests.mark_unready(descriptor, interest);
                }
                None
            }
        }
    }
}

impl Core {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_results(&self) -> bool {
        !self.returned.is_empty() || !self.state().done.is_empty()
    }

    /// Carries an operation on as far as it goes now.
    #[allow(unsafe_code, reason = "the operation is there by promise")]
    fn proceed(self: &Arc<Core>, state: &mut State, mut pending: Pending) {
        // SAFETY: its completion was not reaped, so it is alive, and nobody else uses it.
        let operation = unsafe { pending.operation.as_mut() };
        let interests = &mut state.interests;
        let waits_for = attempt::interest(operation);
        if let Some((descriptor, interest)) = waits_for
            && interests.is_unready(descriptor, interest)
        {
            return interests.wait(descriptor.fd.as_raw_fd(), interest, pending);
        }
        state.attempts += 1;
        let result = match attempt::try_now(operation, interests) {
            Attempt::Done(result) => result,
            Attempt::Blocks(done) => return self.send_to_pool(state, pending, done),
            Attempt::NotReady => {
                let (descriptor, interest) = waits_for.expect("what is not ready will be");
                let fd = descriptor.fd.as_raw_fd();
                match interests.register(descriptor) {
                    Ok(_) => {
                        interests.mark_unready(descriptor, interest);
                        let is_final = interests.is_final(fd);
                        match is_final.then(|| attempt::at_end(operation)).flatten() {
                            Some(result) => result,
                            None => return interests.wait(fd, interest, pending),
                        }
                    }
                    Err(errno) => Err(errno),
                }
            }
        };
        state.done.push_back((pending.token, in_one(result)));
    }

    /// Lets a thread that may block carry on an operation of which so many bytes are done.
    #[allow(unsafe_code, reason = "the operation is there by promise")]
    fn send_to_pool(self: &Arc<Core>, state: &mut State, mut pending: Pending, done: usize) {
        let core = Arc::clone(self);
        let token = pending.token;
        let ticket = pool::run(Box::new(move || {
            // Whole, as only whole it may be sent.
            let pending = &mut pending;
            // SAFETY: its completion was not reaped, so it is alive, and nobody else uses it.
            let operation = unsafe { pending.operation.as_mut() };
            let result = in_one(attempt::block(operation, done));
            if core.returned.give((pending.token, result)) {
                core.eventfd.wake();
            }
        }));
        state.pooled.insert(token, ticket);
    }

    /// Takes events, waiting for the first at most so long, and carries on what they are for.
    fn look(self: &Arc<Core>, timeout: Option<Duration>) {
        let mut events = Events::new();
        let events = events.wait(self.epoll.as_fd(), timeout);
        if events.is_empty() {
            return;
        }
        let mut state = self.state();
        for event in events {
            let (data, flags) = (event.data.u64(), event.flags);
            match data {
                WAKE_UP => state.woken = true,
                fd => {
                    let event = state.interests.on_event(fd as RawFd, flags);
                    for _ in 0..event.waiting {
                        if let Some(pending) = state.interests.take(&event) {
                            self.proceed(&mut state, pending);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
