//! The plan of a load. Everything is checked here, before anything starts.

use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use uthread::Driver;

use crate::Error;
use crate::exchange::Exchange;
use crate::target::Target;

/// Bytes in flight on one connection. A server's socket accepts this much while the server itself
/// reads nothing, so a closed loop never waits to send while the server waits for it to receive.
const IN_FLIGHT_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of workers: more than any machine has CPUs are a mistake in the argument.
const WORKERS_MAX: usize = 1024;
/// Maximum length of a measurement, within the range of latencies.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// The rule by which connections send.
///
/// ```
/// use uthread_load::Pattern;
///
/// let one_at_a_time = Pattern::Closed { depth: 1.try_into().unwrap() };
/// let thousand_a_second = Pattern::Open { per_second: 1000.try_into().unwrap() };
/// assert_ne!(one_at_a_time, thousand_a_second);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Sends when a response has arrived.
    Closed {
        /// Requests in flight per connection.
        depth: NonZeroUsize,
    },
    /// Sends when a request is due, at random times, whether or not earlier ones were answered.
    Open {
        /// Requests per second, over all connections.
        per_second: NonZeroU64,
    },
}

/// Options of a load. [`Plan::new`] has the defaults.
///
/// ```
/// use std::time::Duration;
/// use uthread_load::{Plan, Target};
///
/// let plan = Plan {
///     connections: 4.try_into().unwrap(),
///     duration: Duration::from_millis(100),
///     ..Plan::new(Target::tcp("127.0.0.1:7000", 16)?)
/// };
/// assert_eq!(plan.workers.get(), 1);
/// # Ok::<(), uthread_load::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    /// Server and requests.
    pub target: Target,
    /// Number of connections. Default: 50.
    pub connections: NonZeroUsize,
    /// Rule by which connections send. Default: one request at a time.
    pub pattern: Pattern,
    /// Duration of the measurement. Default: 10 s.
    pub duration: Duration,
    /// Duration of the load before the measurement. Default: 1 s.
    pub warm_up: Duration,
    /// Time after which a request or a connection attempt fails. Default: 10 s.
    pub timeout: Duration,
    /// Threads of the generator, which share the connections evenly. Default: one, which leaves the
    /// most to the server.
    pub workers: NonZeroUsize,
    /// Never sleep: for a generator with CPUs of its own whose wake-ups should not be measured.
    pub spin: bool,
    /// I/O driver of the generator. Default: that of [`uthread::runtime::Builder::driver`].
    pub driver: Option<Driver>,
}

impl Plan {
    /// Creates a plan with the defaults. See the example of [`Plan`].
    pub fn new(target: Target) -> Plan {
        Plan {
            target,
            connections: NonZeroUsize::MIN.saturating_add(49),
            pattern: Pattern::Closed {
                depth: NonZeroUsize::MIN,
            },
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            workers: NonZeroUsize::MIN,
            spin: false,
            driver: None,
        }
    }

    /// Returns the number of workers that have a connection.
    pub(crate) fn workers(&self) -> usize {
        self.workers.min(self.connections).get()
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::Usage(text));
        if self.workers.get() > WORKERS_MAX {
            return refuse(format!("too many workers: at most {WORKERS_MAX}"));
        }
        let times = [self.duration, self.warm_up, self.timeout];
        if self.duration.is_zero()
            || self.timeout.is_zero()
            || times.iter().any(|time| *time > TIME_MAX)
        {
            return refuse(format!(
                "duration and timeout must be longer than zero, and no time longer than {TIME_MAX:?}"
            ));
        }
        Ok(())
    }

    pub(crate) fn check_flight(&self, exchange: &Exchange) -> Result<(), Error> {
        let bytes = exchange.message_bytes();
        let depth = match self.pattern {
            Pattern::Closed { depth } => depth.get(),
            Pattern::Open { .. } => 1,
        };
        match bytes.checked_mul(depth) {
            Some(all) if all <= IN_FLIGHT_BYTES_MAX => Ok(()),
            _ => Err(Error::Usage(format!(
                "{depth} x {bytes} bytes in flight per connection is more than {IN_FLIGHT_BYTES_MAX}: both sides could \
                 wait for each other to read"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_plans_are_refused() {
        let plan = Plan::new(Target::tcp("127.0.0.1:1", 1024).unwrap());
        let exchange = Exchange::Echo { bytes: 1024 };
        let with_depth = |depth: usize| Plan {
            pattern: Pattern::Closed {
                depth: depth.try_into().unwrap(),
            },
            ..plan.clone()
        };
        assert!(with_depth(64).check_flight(&exchange).is_ok());
        assert!(with_depth(65).check_flight(&exchange).is_err());
        assert!(with_depth(usize::MAX).check_flight(&exchange).is_err());
        assert!(plan.check().is_ok());
        let never = Plan {
            duration: Duration::ZERO,
            ..plan.clone()
        };
        assert!(never.check().is_err());
        let many = Plan {
            workers: 1025.try_into().unwrap(),
            ..plan
        };
        assert!(many.check().is_err());
    }
}
