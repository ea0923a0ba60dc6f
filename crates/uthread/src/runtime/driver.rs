//! The driver of a runtime, and why it was chosen.

use std::str::FromStr;
use std::{env, fmt, io};

use crate::driver::{self, epoll, uring};

/// The environment variable that selects the driver of a program.
const VARIABLE: &str = "UTHREAD_DRIVER";

/// A mechanism that carries the calls of fibers to the kernel; see
/// [`Builder::driver`](crate::runtime::Builder::driver).
///
/// ```
/// use uthread::Driver;
///
/// assert_eq!("epoll".parse(), Ok(Driver::Epoll));
/// assert_eq!(Driver::Epoll.to_string(), "epoll");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Driver {
    /// io_uring, with one ring per worker. The fastest driver; many containers forbid it.
    Uring,
    /// epoll, with one instance per worker and non-blocking system calls. Calls that epoll cannot
    /// wait for, above all file I/O, run on at most 64 threads of the process. Available on every
    /// Linux system.
    Epoll,
    /// One thread per fiber, with ordinary blocking calls. For comparison, for debugging, and for
    /// tools that do not support user-level threads.
    ///
    /// The program behaves differently in these respects: fibers run concurrently in any order;
    /// opening a FIFO waits for its other end; the second closure of [`join`](crate::join) has a
    /// thread of its own; thread-locals belong to the fiber, and joining it waits for their
    /// destructors as in `std`; stalls are not detected. When a runtime is dropped, `SIGURG`
    /// interrupts the calls of the remaining fibers.
    Threads,
}

impl Driver {
    /// All drivers, the fastest first.
    ///
    /// ```
    /// use uthread::Driver;
    ///
    /// let names: Vec<_> = Driver::ALL.iter().map(ToString::to_string).collect();
    /// assert_eq!(names, ["uring", "epoll", "threads"]);
    /// ```
    pub const ALL: &[Driver] = &[Driver::Uring, Driver::Epoll, Driver::Threads];

    /// The driver of a program that requests none.
    pub(super) const DEFAULT: Driver = Driver::Uring;

    /// The driver that replaces the default where the kernel refuses that.
    pub(super) const REPLACEMENT: Driver = Driver::Epoll;

    /// Returns `true` if the workers have rings, as [`ring`](crate::ring) requires.
    ///
    /// ```
    /// use uthread::Driver;
    ///
    /// assert!(Driver::Uring.has_ring());
    /// assert!(!Driver::Epoll.has_ring());
    /// ```
    #[must_use]
    pub fn has_ring(self) -> bool {
        matches!(self, Driver::Uring)
    }

    /// Returns how the driver runs fibers.
    pub(super) fn mechanism(self) -> Mechanism {
        match self {
            Driver::Uring => Mechanism::Workers(uring::make),
            Driver::Epoll => Mechanism::Workers(|_| epoll::make()),
            Driver::Threads => Mechanism::Threads,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Driver::Uring => "uring",
            Driver::Epoll => "epoll",
            Driver::Threads => "threads",
        }
    }
}

/// Makes the driver of the calling thread's worker.
pub(super) type MakeDriver = fn(uring::Options) -> io::Result<Box<dyn driver::Driver>>;

/// How a driver runs fibers.
#[derive(Clone, Copy)]
pub(super) enum Mechanism {
    /// Workers, for each of which this makes a driver.
    Workers(MakeDriver),
    /// A thread for each fiber.
    Threads,
}

/// Formats the name that `UTHREAD_DRIVER` accepts: `uring`, `epoll` or `threads`.
impl fmt::Display for Driver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Parses the name of a driver: `"epoll".parse()`.
impl FromStr for Driver {
    type Err = ParseDriverError;

    fn from_str(text: &str) -> Result<Driver, ParseDriverError> {
        let mut all = Driver::ALL.iter().copied();
        all.find(|driver| driver.name() == text)
            .ok_or(ParseDriverError(()))
    }
}

/// An error returned when a string is not the name of a driver.
///
/// ```
/// let error = "kqueue".parse::<uthread::Driver>().unwrap_err();
/// assert_eq!(error.to_string(), "no driver has this name: choose uring, epoll or threads");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseDriverError(());

impl fmt::Display for ParseDriverError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("no driver has this name: choose ")?;
        for (index, driver) in Driver::ALL.iter().enumerate() {
            let separator = match Driver::ALL.len() - index {
                1 => "",
                2 => " or ",
                _ => ", ",
            };
            write!(formatter, "{driver}{separator}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseDriverError {}

/// A description of the driver of a runtime. See the example of
/// [`Runtime::driver`](crate::Runtime::driver).
///
/// Its `Display` output is for humans: the driver, its setup, and why it was chosen.
#[derive(Debug)]
pub struct DriverInfo {
    driver: Driver,
    details: String,
    reason: Reason,
}

/// The reason why a runtime has its driver.
#[derive(Debug)]
pub(super) enum Reason {
    Builder,
    Environment,
    /// No driver was requested, and this is the best one.
    Best,
    /// No driver was requested, and the best one is not available.
    Refused(io::Error),
}

impl DriverInfo {
    pub(super) fn new(driver: Driver, details: String, reason: Reason) -> DriverInfo {
        DriverInfo {
            driver,
            details,
            reason,
        }
    }

    /// Returns the driver. See the example of [`refusal`](DriverInfo::refusal).
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// Returns a description of the driver's setup, including the replacements for features that
    /// this kernel lacks. See the example of [`refusal`](DriverInfo::refusal).
    #[must_use]
    pub fn details(&self) -> &str {
        &self.details
    }

    /// Returns the reason why io_uring is not used although it was wanted: the kernel's error with
    /// a remedy.
    ///
    /// ```
    /// let runtime = uthread::Runtime::new()?;
    /// match runtime.driver().refusal() {
    ///     None => println!("as wanted: {}", runtime.driver().details()),
    ///     Some(error) => println!("{}, as {error}", runtime.driver().driver()),
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn refusal(&self) -> Option<&io::Error> {
        match &self.reason {
            Reason::Refused(error) => Some(error),
            _ => None,
        }
    }
}

impl fmt::Display for DriverInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", self.driver, self.details)?;
        match &self.reason {
            Reason::Builder => write!(formatter, ", as the program asked"),
            Reason::Environment => write!(formatter, ", as {VARIABLE} asked"),
            Reason::Best => write!(formatter, ", the default"),
            Reason::Refused(error) => write!(formatter, ", as there is no io_uring: {error}"),
        }
    }
}

/// Returns the driver that was requested by name, and the source of the request. The builder takes
/// precedence over the environment.
///
/// # Errors
///
/// `InvalidInput` if `UTHREAD_DRIVER` is not the name of a driver.
pub(super) fn asked_for(by_builder: Option<Driver>) -> io::Result<Option<(Driver, Reason)>> {
    if let Some(driver) = by_builder {
        return Ok(Some((driver, Reason::Builder)));
    }
    let Some(value) = env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let parsed = value.to_str().ok_or(ParseDriverError(()));
    match parsed.and_then(str::parse) {
        Ok(driver) => Ok(Some((driver, Reason::Environment))),
        Err(error) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{VARIABLE}={}: {error}", value.display()),
        )),
    }
}
