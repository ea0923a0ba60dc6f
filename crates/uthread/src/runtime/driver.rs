//! Which driver a runtime has, and why.

use std::str::FromStr;
use std::{env, fmt, io};

/// The environment variable by which whoever runs a program chooses its driver.
const VARIABLE: &str = "UTHREAD_DRIVER";

/// What carries the calls of fibers to the kernel; see [`Builder::driver`](crate::Builder::driver).
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
    /// io_uring: one ring per worker. The fastest; many containers forbid it.
    Uring,
    /// epoll: one instance per worker, and system calls that do not wait. What it cannot wait for, above
    /// all the disk, runs on at most 64 threads of the process. Works wherever Linux does.
    Epoll,
    /// No fibers: each is a thread of the operating system, and calls are the ordinary blocking ones. To
    /// compare with, to debug, and for tools that do not know user-level threads.
    ///
    /// What the program sees of it: fibers run at the same time and in any order; a FIFO is opened only
    /// together with its other end; of [`join`](crate::join), the second closure has a thread of its own;
    /// thread-locals are the fiber's, and `join` waits for their destructors as `std`'s does; nobody looks for stalls.
    /// When a runtime is dropped, `SIGURG` interrupts the calls of what is left.
    Threads,
}

impl Driver {
    const ALL: [Driver; 3] = [Driver::Uring, Driver::Epoll, Driver::Threads];

    fn name(self) -> &'static str {
        match self {
            Driver::Uring => "uring",
            Driver::Epoll => "epoll",
            Driver::Threads => "threads",
        }
    }
}

/// Its name, as `UTHREAD_DRIVER` takes it: `uring`, `epoll` or `threads`.
impl fmt::Display for Driver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// From its name: `"epoll".parse()`.
impl FromStr for Driver {
    type Err = ParseDriverError;

    fn from_str(text: &str) -> Result<Driver, ParseDriverError> {
        let mut all = Driver::ALL.into_iter();
        all.find(|driver| driver.name() == text)
            .ok_or(ParseDriverError(()))
    }
}

/// A text that names no driver.
///
/// ```
/// let error = "kqueue".parse::<uthread::Driver>().unwrap_err();
/// assert_eq!(error.to_string(), "no driver has this name: choose uring, epoll or threads");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseDriverError(());

impl fmt::Display for ParseDriverError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("no driver has this name: choose uring, epoll or threads")
    }
}

impl std::error::Error for ParseDriverError {}

/// The driver of a runtime; see the example of [`Runtime::driver`](crate::Runtime::driver).
///
/// Its text is for people: the driver, how it was set up, and why this one.
#[derive(Debug)]
pub struct DriverInfo {
    driver: Driver,
    details: String,
    reason: Reason,
}

/// Why a runtime has its driver.
#[derive(Debug)]
pub(super) enum Reason {
    Builder,
    Environment,
    /// Nobody asked for another one, and this is the best.
    Best,
    /// The best one cannot be had.
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

    /// Which one; see the example of [`refusal`](DriverInfo::refusal).
    #[must_use]
    pub fn driver(&self) -> Driver {
        self.driver
    }

    /// How it was set up, and what it uses in place of what this kernel lacks.
    /// See the example of [`refusal`](DriverInfo::refusal).
    #[must_use]
    pub fn details(&self) -> &str {
        &self.details
    }

    /// Why there is no io_uring, where it was wanted and refused: the kernel's error, with the remedy.
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
            Reason::Best => write!(formatter, ", the best there is"),
            Reason::Refused(error) => write!(formatter, ", as there is no io_uring: {error}"),
        }
    }
}

/// The driver that was asked for by name, first of all by the builder, and by whom.
///
/// # Errors
///
/// `InvalidInput` where the environment names none there is.
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
