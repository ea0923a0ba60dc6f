//! Signals to the process, as a stream of values that a fiber or thread waits for.
//!
//! A handler only notes a signal and writes a byte to a socket; whoever listens waits for that as for any other
//! input. Each [`Signals`] hears of every signal it listens for, however many there are.
//!
//! A signal whose first listener has come is no longer left to its default action, such as ending the process,
//! also after its last listener has gone.
//!
//! ```
//! use uthread::signal::{Signal, Signals};
//!
//! let mut signals = Signals::new([Signal::HUP, Signal::USR1])?;
//! std::process::Command::new("kill").args(["-USR1", &std::process::id().to_string()]).status()?;
//! assert_eq!(signals.recv()?, Signal::USR1);
//! # Ok::<(), std::io::Error>(())
//! ```

mod number;

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::op::net::SocketOperation;
use crate::op::{self, Operation};
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::wait;

pub use number::Signal;

/// Listens for signals to the process, from its making until it is dropped.
///
/// Signals of one kind that arrive before they are received count as one, as the kernel has it. As an
/// iterator it waits for each and has no end; like any call that returns no error, it unwinds a fiber that is
/// cancelled.
///
/// ```
/// use uthread::signal::{Signal, Signals};
///
/// let signals = Signals::new([Signal::INT, Signal::TERM, Signal::HUP])?;
/// # std::process::Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status()?;
/// for signal in signals {
///     match signal {
///         Signal::HUP => println!("reads its configuration again"),
///         _ => break,
///     }
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Signals {
    delivery: SignalDelivery<UnixStream, SignalOnly>,
    state: FdState,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a signal that cannot be caught (`KILL`, `STOP`), or that tells of a fault of the program
    /// (`ILL`, `FPE`, `SEGV`), or by which fibers that are threads are interrupted (`URG`); the kernel's: `EMFILE`.
    ///
    /// ```
    /// use uthread::signal::{Signal, Signals};
    /// assert!(Signals::new([Signal::WINCH]).is_ok());
    /// assert!(Signals::new([Signal::KILL]).is_err());
    /// ```
    pub fn new(signals: impl IntoIterator<Item = Signal>) -> io::Result<Signals> {
        let signals: Vec<i32> = signals.into_iter().map(Signal::as_raw).collect();
        let refused = |signal| signal_hook::consts::FORBIDDEN.contains(signal);
        if signals
            .iter()
            .any(|signal| refused(signal) || *signal == Signal::URG.as_raw())
        {
            return Err(io::Error::from_raw_os_error(op::INVALID));
        }
        let (reader, writer) = UnixStream::pair()?;
        Ok(Signals {
            delivery: SignalDelivery::with_pipe(reader, writer, SignalOnly, signals)?,
            state: FdState::new(),
        })
    }

    /// Waits for the next signal.
    ///
    /// # Errors
    ///
    /// `ECANCELED` once the fiber is cancelled.
    ///
    /// ```
    /// use uthread::signal::{Signal, Signals};
    ///
    /// let mut signals = Signals::new([Signal::USR1])?;
    /// let waiting = uthread::spawn(move || signals.recv());
    /// std::process::Command::new("kill").args(["-USR1", &std::process::id().to_string()]).status()?;
    /// assert_eq!(waiting.join().unwrap()?, Signal::USR1);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn recv(&mut self) -> io::Result<Signal> {
        loop {
            if let Some(signal) = self.try_recv() {
                return Ok(signal);
            }
            self.await_byte(None)?;
        }
    }

    /// Waits for the next signal until the timeout at the latest; `None` then.
    ///
    /// # Errors
    ///
    /// As [`recv`](Signals::recv).
    ///
    /// ```
    /// use uthread::signal::{Signal, Signals};
    /// use uthread::time::Duration;
    ///
    /// let mut signals = Signals::new([Signal::WINCH])?;
    /// assert_eq!(signals.recv_timeout(Duration::from_millis(5))?, None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> io::Result<Option<Signal>> {
        self.recv_deadline(wait::after(wait::now(), timeout))
    }

    /// Waits for the next signal until the deadline at the latest; `None` then.
    ///
    /// # Errors
    ///
    /// As [`recv`](Signals::recv).
    ///
    /// ```
    /// use uthread::signal::{Signal, Signals};
    /// use uthread::time::Instant;
    ///
    /// let mut signals = Signals::new([Signal::WINCH])?;
    /// assert_eq!(signals.recv_deadline(Instant::now())?, None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn recv_deadline(&mut self, deadline: Instant) -> io::Result<Option<Signal>> {
        loop {
            if let Some(signal) = self.try_recv() {
                return Ok(Some(signal));
            }
            let rest = deadline.saturating_duration_since(wait::now());
            if rest.is_zero() {
                return Ok(None);
            }
            match self.await_byte(Some(rest)) {
                Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => {}
                result => result?,
            }
        }
    }

    /// A signal that has arrived.
    ///
    /// ```
    /// use uthread::signal::{Signal, Signals};
    /// assert_eq!(Signals::new([Signal::WINCH])?.try_recv(), None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_recv(&mut self) -> Option<Signal> {
        wait::spend_turn();
        self.delivery.pending().next().and_then(Signal::from_raw)
    }

    fn await_byte(&self, timeout: Option<Duration>) -> io::Result<()> {
        let mut readable = Operation::Socket(SocketOperation::Poll {
            descriptor: Descriptor {
                fd: self.delivery.get_read().as_fd(),
                state: &self.state,
            },
            events: PollFlags::IN,
        });
        wait::perform(&mut readable, timeout)?;
        Ok(())
    }
}

impl Iterator for Signals {
    type Item = Signal;

    fn next(&mut self) -> Option<Signal> {
        let signal = self.recv();
        if signal.is_err() {
            wait::unwind_if_cancelled();
        }
        signal.ok()
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Signals").finish_non_exhaustive()
    }
}

/// Waits until somebody interrupts the program, by ctrl-C in a terminal or `SIGINT` otherwise. From the first
/// call on that no longer ends the process by itself; one that comes while nobody waits is lost, so a program
/// that wants each one keeps [`Signals`].
///
/// # Errors
///
/// The kernel's: `EMFILE`; `ECANCELED` once the fiber is cancelled.
///
/// ```
/// # use uthread::{process::Command, signal::{Signal, Signals}};
/// # let _no_end = Signals::new([Signal::INT]).unwrap(); // From now on.
/// uthread::run(|| {
///     # let process = std::process::id().to_string();
///     # uthread::spawn(move || while Command::new("kill").args(["-INT", &process]).status().is_ok() {});
///     uthread::spawn(|| uthread::io::stdin().lines().count());
///     uthread::signal::ctrl_c().expect("nothing cancels the main fiber");
///     // The end of `run` cancels the fiber that reads.
/// });
/// ```
pub fn ctrl_c() -> io::Result<()> {
    Signals::new([Signal::INT])?.recv().map(drop)
}
