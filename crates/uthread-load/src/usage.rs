//! The resources that the generator used, to tell whether it was the limit instead of the server.

use std::fs;
use std::ops::{Add, Sub};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Resources that a worker's thread has used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// CPU time. If the worker spins, only the part that was not idle.
    pub(crate) cpu: Duration,
    /// Time ready to run without a CPU; zero if the kernel does not report it.
    pub(crate) waited: Duration,
}

impl Usage {
    /// Returns the usage of the calling thread.
    pub(crate) fn of_thread() -> Usage {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let cpu = Duration::try_from(time).unwrap_or_default();
        let schedstat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let waited = parse_waited(&schedstat).unwrap_or_default();
        Usage { cpu, waited }
    }
}

impl Add for Usage {
    type Output = Usage;

    fn add(self, other: Usage) -> Usage {
        Usage {
            cpu: self.cpu + other.cpu,
            waited: self.waited + other.waited,
        }
    }
}

impl Sub for Usage {
    type Output = Usage;

    fn sub(self, before: Usage) -> Usage {
        Usage {
            cpu: self.cpu.saturating_sub(before.cpu),
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

/// Parses the second number: nanoseconds in a run queue.
fn parse_waited(schedstat: &str) -> Option<Duration> {
    let waited = schedstat.split_ascii_whitespace().nth(1)?;
    waited.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_for_a_cpu_is_the_second_number() {
        assert_eq!(
            parse_waited("2044445896 20369498 2404\n"),
            Some(Duration::from_nanos(20_369_498))
        );
        assert_eq!(parse_waited(""), None);
        assert_eq!(parse_waited("1 x 2"), None);
    }

    #[test]
    fn a_thread_that_works_uses_cpu() {
        let before = Usage::of_thread();
        let mut usage = Usage::default();
        while usage.cpu < Duration::from_millis(2) {
            usage = Usage::of_thread() - before;
        }
        assert_eq!(usage + Usage::default(), usage);
    }
}
