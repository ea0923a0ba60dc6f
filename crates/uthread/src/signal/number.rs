//! Signal numbers and their names.

use std::fmt;

use rustix::process::Signal as Named;

/// A signal. Real-time signals, which have no names, are not supported.
///
/// ```
/// use uthread::signal::Signal;
///
/// assert_eq!(Signal::TERM.as_raw(), 15);
/// assert_eq!(Signal::TERM.to_string(), "SIGTERM");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Signal(i32);

macro_rules! signals {
    ($($name:ident = $named:ident, $what:literal;)*) => {
        impl Signal {
            $(
                #[doc = concat!("`SIG", stringify!($name), "`: ", $what, ".")]
                pub const $name: Signal = Signal(Named::$named.as_raw());
            )*

            /// Returns the name without `SIG`.
            fn name(self) -> &'static str {
                match self {
                    $(Signal::$name => stringify!($name),)*
                    _ => unreachable!("each has a name"),
                }
            }
        }
    };
}

signals! {
    HUP = HUP, "hang-up of the terminal, or a request to reload the configuration";
    INT = INT, "interrupt from the keyboard (Ctrl-C)";
    QUIT = QUIT, "quit from the keyboard (Ctrl-\\\\)";
    ILL = ILL, "illegal instruction";
    TRAP = TRAP, "breakpoint";
    ABRT = ABORT, "abort by the process itself";
    BUS = BUS, "access to memory that does not exist";
    FPE = FPE, "arithmetic error";
    KILL = KILL, "forced termination, which cannot be caught";
    USR1 = USR1, "user-defined";
    SEGV = SEGV, "invalid memory access";
    USR2 = USR2, "user-defined";
    PIPE = PIPE, "write to a pipe or socket without a reader";
    ALRM = ALARM, "expired timer";
    TERM = TERM, "request to terminate";
    STKFLT = STKFLT, "unused by the kernel";
    CHLD = CHILD, "a child has terminated or stopped";
    CONT = CONT, "continuation after a stop";
    STOP = STOP, "stop, which cannot be caught";
    TSTP = TSTP, "stop from the keyboard (Ctrl-Z)";
    TTIN = TTIN, "read from the terminal by a background process";
    TTOU = TTOU, "write to the terminal by a background process";
    URG = URG, "urgent data on a socket";
    XCPU = XCPU, "CPU time limit exceeded";
    XFSZ = XFSZ, "file size limit exceeded";
    VTALARM = VTALARM, "expired timer of user CPU time";
    PROF = PROF, "expired timer of user and system CPU time";
    WINCH = WINCH, "change of the terminal size";
    IO = IO, "I/O is possible on a descriptor";
    PWR = POWER, "power failure";
    SYS = SYS, "invalid system call";
}

impl Signal {
    /// Returns the signal with this number, or `None` if it has no name.
    ///
    /// ```
    /// use uthread::signal::Signal;
    /// assert_eq!(Signal::from_raw(2), Some(Signal::INT));
    /// assert_eq!(Signal::from_raw(0), None);
    /// ```
    #[must_use]
    pub fn from_raw(number: i32) -> Option<Signal> {
        Named::from_named_raw(number).map(|signal| Signal(signal.as_raw()))
    }

    /// Returns the number of the signal.
    ///
    /// ```
    /// assert_eq!(uthread::signal::Signal::HUP.as_raw(), 1);
    /// ```
    #[must_use]
    pub fn as_raw(self) -> i32 {
        self.0
    }

    pub(crate) fn named(self) -> Named {
        Named::from_named_raw(self.0).expect("the number is of a named signal")
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SIG{}", self.name())
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}
