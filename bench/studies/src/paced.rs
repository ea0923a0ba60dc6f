//! An ordinary client at a fixed pace, on one keep-alive connection.
//!
//! Each latency counts from the moment the request was *due*, not from when it was sent: a server that stalls delays
//! the following requests too, and a client that politely waits would hide that.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::thread::set_current_timer_slack;

use crate::client::Connection;
use crate::measure::stats;

/// Enough to make the connection and the file warm, and over in a moment.
const WARM_UP_REQUESTS: u64 = 100;
/// The kernel may delay a sleep by 50 us to save power, more than a request takes; ask for the least.
const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::MIN;
/// How far behind its pace the client may end before the server counts as stuck.
const LATE_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Latencies {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

pub(crate) fn run(
    address: SocketAddr,
    path: &str,
    per_second: u64,
    seconds: u64,
) -> Result<Latencies> {
    set_current_timer_slack(Some(TIMER_SLACK_NS))?;
    let mut connection = Connection::open(address)?;
    for _ in 0..WARM_UP_REQUESTS {
        request(&mut connection, path)?;
    }
    let interval = Duration::from_secs(1) / u32::try_from(per_second)?;
    let start = Instant::now() + interval;
    let count = u32::try_from(per_second * seconds)?;
    let mut latencies_us = Vec::with_capacity(count as usize);
    for index in 0..count {
        let due = start + interval * index;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        request(&mut connection, path)?;
        let latency = due.elapsed();
        ensure!(
            latency < LATE_MAX,
            "the server is {LATE_MAX:?} behind a client of {per_second} requests per second"
        );
        latencies_us.push(latency.as_secs_f64() * 1e6);
    }
    Ok(summarise(latencies_us))
}

fn request(connection: &mut Connection, path: &str) -> Result<()> {
    let head = connection.get(path, |_| Ok(()))?;
    ensure!(
        head.status == 200 && !head.closes,
        "{path} was answered with {head:?}"
    );
    Ok(())
}

fn summarise(mut latencies_us: Vec<f64>) -> Latencies {
    latencies_us.sort_by(f64::total_cmp);
    let at = |q| stats::quantile(&latencies_us, q).unwrap_or(f64::NAN);
    Latencies {
        p50_us: at(0.50),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: at(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_taken_from_unsorted_latencies() {
        let latencies_us: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        let expected = Latencies {
            p50_us: 500.0,
            p99_us: 990.0,
            p999_us: 999.0,
            max_us: 1000.0,
        };
        assert_eq!(summarise(latencies_us), expected);
    }
}
