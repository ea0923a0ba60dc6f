//! A driver whose waits take virtual time: it moves a clock instead of sleeping, once nothing else
//! can happen.
//!
//! ```text
//!   something has run         -> look for completions
//!   .. nothing                -> wait until the kernel has delivered what was sent ([`Barrier`])
//!   .. nothing, a timer       -> move the clock to it
//!   .. nothing, no timer      -> wait for threads and processes outside; then it is a deadlock
//!   a call goes on outside    -> wait, while time stands still
//! ```
//!
//! A file is read or written at once: when a disk is done is nothing that a seed decides. In a simulated
//! [world](World), what is sent between hosts travels through that: its events are further timers. The rest
//! is done by another driver.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::{Completion, Counts, Driver, RingFeatures, Start, Token, Wake, epoll, native};
use crate::clock::VirtualClock;
use crate::op::fs::FileOperation;
use crate::op::net::SocketOperation;
use crate::op::{CallResult, Operation};
use crate::priorities::Priority;
use crate::world::{self, World};

/// How long a packet to the same host may take.
const ARRIVAL_TIME_MAX: Duration = Duration::from_secs(1);

/// How long threads and processes outside of the runtime may take to wake one of its fibers.
const OUTSIDE_TIME_MAX: Duration = Duration::from_secs(3);

/// Number of times that a batch goes on before one ends.
const BATCH_CHECKS: u32 = 16;

/// After this time, it looks again whether calls still go on outside.
const BUSY_TIME_MAX: Duration = Duration::from_millis(100);

/// The runtime as its driver sees it.
pub(crate) trait Surroundings: Send {
    /// Returns a number that changes when a fiber runs.
    fn progress(&self) -> u64;
    /// Returns `true` if a fiber waits for the end of a call on another thread, or runs on one.
    fn is_busy(&self) -> bool;
    /// Ends the fibers, if there are any, none of which can go on.
    fn end_deadlock(&self);
}

/// What has happened since a fiber or a timer has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Ran,
    /// It has looked for completions, and there were none.
    Polled,
    /// Nor after the kernel had delivered all that was sent.
    Quiet,
    /// Nothing was left but to wait for others, since this time of the system.
    WaitsSince(u64),
    /// The deadlock was reported.
    Ended,
}

pub(crate) struct VirtualDriver {
    inner: Box<dyn Driver>,
    clock: Arc<VirtualClock>,
    /// The time at which the clock starts.
    start: Instant,
    runtime: Box<dyn Surroundings>,
    phase: Phase,
    /// The progress at the last wait.
    progress: u64,
    /// Number of pending operations, which may wait for another fiber.
    pending: usize,
    /// The kernel has carried out an operation since the last barrier: there may be room again for a sender.
    has_performed: bool,
    /// `None` where there are no such sockets, and so nothing to wait for.
    barrier: Option<Barrier>,
    checks: Cell<u32>,
}

impl VirtualDriver {
    pub(crate) fn new(
        inner: Box<dyn Driver>,
        clock: Arc<VirtualClock>,
        runtime: Box<dyn Surroundings>,
    ) -> VirtualDriver {
        stay_on_a_cpu();
        clock.prepare_thread();
        let start = clock.begin(Instant::now);
        VirtualDriver {
            inner,
            clock,
            start,
            runtime,
            phase: Phase::Ran,
            progress: 0,
            pending: 0,
            has_performed: false,
            barrier: Barrier::new().ok(),
            checks: Cell::new(0),
        }
    }

    /// Waits until the kernel has delivered what was sent, if a seed decides: otherwise it would depend on
    /// how busy the computer is which fiber becomes ready first, and whether a call has to wait. A world
    /// knows whether something was sent.
    fn settle(&self) {
        let may_arrive = match self.clock.world() {
            Some(world) => world.take_sent(),
            None => self.clock.is_seeded(),
        };
        if may_arrive {
            self.barrier.as_ref().inspect(|barrier| barrier.pass());
        }
    }

    /// Returns `true` if an operation may complete that nothing was sent for. A world knows what was sent.
    fn may_complete(&self) -> bool {
        self.pending > 0 && (self.has_performed || self.clock.world().is_none())
    }

    /// Returns how long to sleep now, after it has moved the clock if that is due. `timeout` is the
    /// time until the next timer.
    fn next_sleep(&mut self, timeout: Option<Duration>) -> Duration {
        let progress = self.runtime.progress();
        if self.progress != progress {
            self.progress = progress;
            self.phase = Phase::Ran;
        }
        if self.runtime.is_busy() {
            return BUSY_TIME_MAX;
        }
        let mut timeout = timeout;
        if let Some(world) = self.clock.world() {
            if world.act() {
                self.phase = Phase::Ran;
            }
            timeout = timeout.into_iter().chain(world.next()).min();
        }
        match (self.phase, timeout) {
            (Phase::Ran, _) => {
                self.phase = Phase::Polled;
                self.settle();
                Duration::ZERO
            }
            (Phase::Polled, _) if self.may_complete() => {
                self.phase = Phase::Quiet;
                self.has_performed = false;
                self.barrier.as_ref().inspect(|barrier| barrier.pass());
                Duration::ZERO
            }
            (_, Some(timeout)) => {
                self.clock.advance(timeout);
                self.clock.world().inspect(|world| _ = world.act());
                self.settle();
                // A timer may have cancelled an operation, whose end comes before the next one.
                self.phase = Phase::Ran;
                Duration::ZERO
            }
            (Phase::Polled | Phase::Quiet, None) => {
                self.phase = Phase::WaitsSince(native::monotonic_ns());
                OUTSIDE_TIME_MAX
            }
            (Phase::WaitsSince(since), None) => {
                let waited = Duration::from_nanos(native::monotonic_ns() - since);
                let rest = OUTSIDE_TIME_MAX.saturating_sub(waited);
                if rest.is_zero() {
                    self.phase = Phase::Ended;
                    self.runtime.end_deadlock();
                }
                rest
            }
            (Phase::Ended, None) => BUSY_TIME_MAX,
        }
    }
}

/// Keeps the calling thread on a CPU, another one for each runtime: a [`Barrier`] waits for what its CPU
/// has sent. Otherwise, on a busy computer, a message may be seen after time has gone on.
#[allow(unsafe_code, reason = "system calls")]
fn stay_on_a_cpu() {
    static RUNTIMES: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: a set of CPUs is plain integers.
    let mut allowed: libc::cpu_set_t = unsafe { mem::zeroed() };
    let bytes = size_of_val(&allowed);
    // SAFETY: the set has so many bytes.
    if unsafe { libc::sched_getaffinity(0, bytes, &raw mut allowed) } != 0 {
        return;
    }
    // SAFETY: the set has these bits.
    let is_allowed = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &allowed) };
    let cpus: Vec<usize> = (0..8 * bytes).filter(is_allowed).collect();
    let number = RUNTIMES.fetch_add(1, Ordering::Relaxed);
    if let Some(at) = number.checked_rem(cpus.len()) {
        // SAFETY: as above.
        let mut own: libc::cpu_set_t = unsafe { mem::zeroed() };
        // SAFETY: the CPU is one of the set's.
        unsafe { libc::CPU_SET(cpus[at], &mut own) };
        // SAFETY: the set has so many bytes.
        unsafe { libc::sched_setaffinity(0, bytes, &raw const own) };
    }
}

/// A socket that sends to itself. The kernel usually delivers a packet within the call that sends it, and
/// otherwise after those that this CPU has sent before: once this one has arrived, they have.
struct Barrier {
    socket: OwnedFd,
    /// Number of packets sent.
    sent: Cell<u64>,
}

impl Barrier {
    fn new() -> rustix::io::Result<Barrier> {
        let socket = net::socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        net::connect(&socket, &net::getsockname(&socket)?)?;
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(ARRIVAL_TIME_MAX))?;
        Ok(Barrier {
            socket,
            sent: Cell::new(0),
        })
    }

    /// Waits until all packets have arrived that this CPU has sent.
    fn pass(&self) {
        let number = self.sent.get() + 1;
        self.sent.set(number);
        // If it cannot be sent or is dropped, so are others.
        if net::send(&self.socket, &number.to_ne_bytes(), SendFlags::empty()).is_err() {
            return;
        }
        loop {
            let mut received = [0; 8];
            match net::recv(&self.socket, &mut received, RecvFlags::empty()) {
                // An earlier one may come late.
                Ok(_) if u64::from_ne_bytes(received) == number => return,
                // A ring interrupts its thread at the end of a request: the first of the packets has arrived.
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// Returns `true` if an operation ends without anybody else: one on a file or a device, not on a
/// pipe or a socket.
fn ends_by_itself(operation: &FileOperation<'_>) -> bool {
    let Some(file) = operation.file() else {
        return true;
    };
    rustix::fs::fstat(file.fd).is_ok_and(|status| {
        !matches!(
            FileType::from_raw_mode(status.st_mode),
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice
        )
    })
}

/// Carries out in the world what concerns it. Returns `None` if the kernel has to do it.
pub(crate) fn simulate(world: &dyn World, operation: &Operation<'_>) -> Option<CallResult> {
    let done = match operation {
        Operation::Socket(SocketOperation::Send(call)) => {
            let buffers = [IoSlice::new(call.buffer)];
            world.send(call.socket.fd.as_raw_fd(), &buffers, None)?
        }
        Operation::Socket(SocketOperation::SendMessage(call)) => {
            if let Some(address) = call.message.unix_address()
                && let Err(error) = world::tell_unix(world, &address)
            {
                return Some(Err(errno_of(error)));
            }
            let to = call.message.address();
            let socket = call.socket.fd.as_raw_fd();
            world.send(socket, call.message.slices(), to)?
        }
        Operation::File(FileOperation::Sync { file, .. }) => {
            world.sync(file.fd.as_raw_fd())?.map(|()| 0)
        }
        Operation::File(operation) => return prepare(world, operation).err().map(Err),
        _ => return None,
    };
    Some(done.map(|count| count as u32).map_err(errno_of))
}

/// Tells the world what is about to happen to a file.
fn prepare(world: &dyn World, operation: &FileOperation<'_>) -> Result<(), Errno> {
    let told = match operation {
        FileOperation::Write {
            file,
            buffer,
            offset,
        } => world.write(file.fd.as_raw_fd(), *offset, buffer.len()),
        FileOperation::WriteVectored {
            file,
            buffers,
            offset,
        } => {
            let length = buffers.iter().map(|buffer| buffer.len()).sum();
            world.write(file.fd.as_raw_fd(), *offset, length)
        }
        FileOperation::Open {
            directory,
            path,
            how,
        } => {
            let directory = directory.map(|directory| directory.as_raw_fd());
            world.open(directory, path, how.flags)
        }
        FileOperation::Sync { .. }
        | FileOperation::Read { .. }
        | FileOperation::ReadVectored { .. } => Ok(()),
    };
    told.map_err(errno_of)
}

/// Returns the number of an error of the world, which has one.
fn errno_of(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

impl Driver for VirtualDriver {
    fn description(&self) -> String {
        format!("{}, virtual time", self.inner.description())
    }

    fn waker(&self) -> io::Result<Box<dyn Wake>> {
        self.inner.waker()
    }

    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    unsafe fn start(&mut self, operation: &mut Operation<'_>, token: Token) -> Start {
        if let Some(world) = self.clock.world()
            && let Some(result) = simulate(&**world, operation)
        {
            return Start::Done(result);
        }
        if let Operation::File(operation) = operation
            && ends_by_itself(operation)
        {
            return Start::Done(epoll::block(operation, 0));
        }
        self.settle();
        // SAFETY: by the caller's contract.
        let start = unsafe { self.inner.start(operation, token) };
        match start {
            Start::Pending(_) => self.pending += 1,
            Start::Done(_) => self.has_performed = true,
            Start::Full => {}
        }
        start
    }

    fn set_priority(&mut self, priority: Priority) {
        self.inner.set_priority(priority);
    }

    fn cancel(&mut self, target: Token) {
        self.inner.cancel(target);
    }

    fn flush_within(&self) -> Option<Duration> {
        self.inner.flush_within()
    }

    fn is_flush_due(&self) -> bool {
        self.inner.is_flush_due()
    }

    /// Time stands still during a batch, so its end is one by number.
    fn is_over(&self, _end: Instant) -> bool {
        self.checks.update(|checks| (checks + 1) % BATCH_CHECKS);
        self.checks.get() == 0
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn is_flushed(&mut self) -> bool {
        self.inner.is_flushed()
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        // How often a worker looks for work depends on real time.
        self.checks.set(0);
        let sleep = match timeout {
            Some(Duration::ZERO) => {
                self.settle();
                Duration::ZERO
            }
            timeout => self.next_sleep(timeout),
        };
        if sleep.is_zero() {
            self.inner.flush();
        } else {
            self.inner.wait(Some(sleep));
        }
    }

    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> bool {
        let pending = &mut self.pending;
        let has_performed = &mut self.has_performed;
        self.inner.reap(max, &mut |token, completion| {
            *has_performed = true;
            if !completion.more {
                *pending -= 1;
            }
            complete(token, completion);
        })
    }

    fn ring(&mut self) -> Option<&mut dyn RingFeatures> {
        self.inner.ring()
    }

    fn counts(&self) -> Counts {
        self.inner.counts()
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn timer_after(&self, timeout: Duration) -> Option<Instant> {
        let own = self.now().checked_add(timeout)?;
        let world = self.clock.world();
        Some(world.map_or(own, |world| world.deadline(own)))
    }

    fn timer_time(&self) -> Instant {
        self.start + self.clock.elapsed()
    }
}
