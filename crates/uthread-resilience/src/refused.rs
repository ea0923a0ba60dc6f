//! Calls that are not made.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;

/// The reason why a policy has not made a call.
///
/// ```
/// use std::io::ErrorKind;
/// use uthread_resilience::Refused;
///
/// let error = std::io::Error::from(Refused::Full);
/// assert_eq!(error.kind(), ErrorKind::ResourceBusy);
/// assert_eq!(error.to_string(), "too many calls wait for a turn");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// A [`Breaker`](crate::Breaker) is open, or those of all [`Endpoints`](crate::Endpoints) are.
    Open,
    /// A [`Bulkhead`](crate::Bulkhead) has as many callers as may wait, or none had a turn in time.
    Full,
    /// There are as many calls as a [`Limit`](crate::Limit) allows now.
    Overloaded,
}

impl Display for Refused {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Refused::Open => "the circuit breaker is open, as calls have failed",
            Refused::Full => "too many calls wait for a turn",
            Refused::Overloaded => "too many calls are in progress",
        })
    }
}

impl Error for Refused {}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> io::Error {
        io::Error::new(io::ErrorKind::ResourceBusy, refused)
    }
}
