//! Signals to the process, received as a stream of values.
//!
//! The signal handler only records the signal and writes a byte to a socket; receivers wait for
//! this byte like for any other input. Every [`Signals`] receives all signals that it listens for,
//! however many of them exist.
//!
//! The first listener for a signal disables its default action, such as terminating the process.
//! The default action is not restored when the last listener is dropped.
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
mod selecting;

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::SignalOnly;

use crate::atomic;
use crate::op::net::{self, SocketOperation};
use crate::op::{self, Operation};
use crate::resource::descriptor::{Descriptor, FdState};
use crate::resource::standard;
use crate::sched::caller::{self, cancellation, turn, wait};

pub use number::Signal;

/// Listens for signals to the process from its creation until it is dropped.
///
/// Signals of one kind that arrive before they are received are merged into one, as in the kernel.
/// As an iterator it is endless and waits for each signal. If the fiber is cancelled, the iterator
/// unwinds it, like every call that cannot return an error.
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
    /// `None` at the end of the drop.
    delivery: Option<Delivery>,
    state: FdState,
}

type Delivery = SignalDelivery<UnixStream, SignalOnly>;

impl Drop for Signals {
    fn drop(&mut self) {
        atomic::while_locking(|| drop(self.delivery.take()));
    }
}

impl Signals {
    /// Starts listening for the given signals.
    ///
    /// # Errors
    ///
    /// `InvalidInput` (`EINVAL`) for a signal that cannot be caught (`KILL`, `STOP`), that reports
    /// a fault of the program (`ILL`, `FPE`, `SEGV`), or that interrupts fibers on the threads
    /// driver (`URG`); `EMFILE` if there is no free descriptor; any other error that
    /// `socketpair(2)` or `sigaction(2)` reports.
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
        let (reader, writer) = (standard::avoid(reader)?, standard::avoid(writer)?);
        // The handlers have a lock, which all runtimes share.
        let delivery = atomic::while_locking(|| {
            SignalDelivery::with_pipe(reader, writer, SignalOnly, signals)
        });
        Ok(Signals {
            delivery: Some(delivery?),
            state: FdState::new(),
        })
    }

    /// Waits for the next signal and returns it.
    ///
    /// # Errors
    ///
    /// `ECANCELED` if the fiber is cancelled.
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

    /// Waits for the next signal, at most for `timeout`. Returns `None` if no signal arrived in
    /// that time.
    ///
    /// # Errors
    ///
    /// `ECANCELED` if the fiber is cancelled.
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
        self.recv_deadline(caller::after(caller::now(), timeout))
    }

    /// Waits for the next signal until `deadline`. Returns `None` if no signal arrived by then.
    ///
    /// # Errors
    ///
    /// `ECANCELED` if the fiber is cancelled.
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
            let rest = deadline.saturating_duration_since(caller::now());
            if rest.is_zero() {
                return Ok(None);
            }
            match self.await_byte(Some(rest)) {
                Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => {}
                result => result?,
            }
        }
    }

    /// Returns a signal that has arrived, without waiting.
    ///
    /// ```
    /// use uthread::signal::{Signal, Signals};
    /// assert_eq!(Signals::new([Signal::WINCH])?.try_recv(), None);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_recv(&mut self) -> Option<Signal> {
        turn::spend();
        self.take_pending()
    }

    fn take_pending(&mut self) -> Option<Signal> {
        let delivery = self.delivery.as_mut()?;
        delivery.pending().next().and_then(Signal::from_raw)
    }

    /// Returns a poll for the byte that announces a signal.
    fn readable(&self) -> net::Poll<'_> {
        net::Poll {
            descriptor: Descriptor {
                fd: self
                    .delivery
                    .as_ref()
                    .expect("set until the drop")
                    .get_read()
                    .as_fd(),
                state: &self.state,
            },
            events: PollFlags::IN,
        }
    }

    fn await_byte(&self, timeout: Option<Duration>) -> io::Result<()> {
        let mut readable = Operation::Socket(SocketOperation::Poll(self.readable()));
        wait::perform(&mut readable, timeout)?;
        Ok(())
    }
}

impl Iterator for Signals {
    type Item = Signal;

    fn next(&mut self) -> Option<Signal> {
        let signal = self.recv();
        if signal.is_err() {
            cancellation::unwind_if_cancelled();
        }
        signal.ok()
    }
}

impl fmt::Debug for Signals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Signals").finish_non_exhaustive()
    }
}

/// Waits for an interrupt: Ctrl-C in a terminal, or `SIGINT` from elsewhere.
///
/// From the first call on, `SIGINT` no longer terminates the process. An interrupt that arrives
/// while no call waits is lost; to receive all of them, keep a [`Signals`].
///
/// # Errors
///
/// `ECANCELED` if the fiber is cancelled; `EMFILE` if there is no free descriptor; any other error
/// that `socketpair(2)` or `sigaction(2)` reports.
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
