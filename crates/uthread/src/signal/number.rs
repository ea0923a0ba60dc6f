//! The signals by their names.

use std::fmt;

use rustix::process::Signal as Named;

/// A signal of the system, but for the real-time ones, which have no names.
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

            /// Its name, without `SIG`.
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
    HUP = HUP, "the terminal is gone, or a daemon shall read its configuration again";
    INT = INT, "ctrl-C";
    QUIT = QUIT, "ctrl-\\\\";
    ILL = ILL, "no such instruction";
    TRAP = TRAP, "a breakpoint";
    ABRT = ABORT, "the process ended itself";
    BUS = BUS, "memory that is not there";
    FPE = FPE, "arithmetic";
    KILL = KILL, "the end, which nobody can catch";
    USR1 = USR1, "what the program makes of it";
    SEGV = SEGV, "memory that may not be used";
    USR2 = USR2, "what the program makes of it";
    PIPE = PIPE, "a write that nobody will read";
    ALRM = ALARM, "a timer";
    TERM = TERM, "a polite request to end";
    STKFLT = STKFLT, "unused by the kernel";
    CHLD = CHILD, "a child has ended or stopped";
    CONT = CONT, "go on after a stop";
    STOP = STOP, "a stop that nobody can catch";
    TSTP = TSTP, "ctrl-Z";
    TTIN = TTIN, "reads from the terminal, in the background";
    TTOU = TTOU, "writes to the terminal, in the background";
    URG = URG, "urgent data of a socket";
    XCPU = XCPU, "more time than allowed";
    XFSZ = XFSZ, "a file larger than allowed";
    VTALARM = VTALARM, "a timer of the process's time";
    PROF = PROF, "a timer of the process's time, that of the kernel included";
    WINCH = WINCH, "the terminal has another size";
    IO = IO, "a descriptor is ready";
    PWR = POWER, "the power fails";
    SYS = SYS, "no such system call";
}

impl Signal {
    /// The signal of this number, if it is one with a name.
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

    /// Its number.
    ///
    /// ```
    /// assert_eq!(uthread::signal::Signal::HUP.as_raw(), 1);
    /// ```
    #[must_use]
    pub fn as_raw(self) -> i32 {
        self.0
    }

    pub(crate) fn named(self) -> Named {
        Named::from_named_raw(self.0).expect("it was made of one")
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
