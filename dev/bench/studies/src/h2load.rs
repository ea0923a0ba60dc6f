//! Loads a server over HTTP/2 by `h2load` of nghttp2.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use uthread_load::{Percentiles, Report};

/// Streams of each connection that are open at the same time.
pub(crate) const STREAMS: u32 = 100;

/// Requests a path as a closed loop, on [`STREAMS`] of each connection. The answers have to be of
/// status 200; their bodies are not compared.
pub(crate) fn run(
    program: &Path,
    address: SocketAddr,
    path: &str,
    connections: u32,
    seconds: u64,
) -> Result<Report> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let mut command = Command::new(program);
    command.args(["-m", &STREAMS.to_string(), "-c", &connections.to_string()]);
    command.args(["-D", &seconds.to_string()]);
    command.arg(format!("--log-file={}", log.display()));
    let output = command.arg(format!("http://{address}/{path}")).output();
    let output = output.context("run h2load")?;
    let failed = || String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}", failed());
    let times = times(&fs::read_to_string(log)?)?;
    Ok(report(connections, seconds, &times))
}

/// Reads the log, which has the start, the status and the microseconds of a request in each line.
fn times(log: &str) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for line in log.lines() {
        match line.split('\t').collect::<Vec<_>>()[..] {
            [_, "200", time, ..] => times.push(time.parse()?),
            _ => bail!("a request failed: {line:?}"),
        }
    }
    ensure!(!times.is_empty(), "nothing was answered");
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Describes a run by the sorted times of its requests.
fn report(connections: u32, seconds: u64, times: &[f64]) -> Report {
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    Report {
        target: String::new(),
        connections: connections.into(),
        connected: connections.into(),
        workers: 1,
        driver: "h2load".to_owned(),
        pipelining: Some(STREAMS.into()),
        rate: None,
        seconds: seconds as f64,
        interrupted: false,
        answered: times.len() as u64,
        // It does not tell the connections apart.
        measured: 0,
        per_second: times.len() as f64 / seconds as f64,
        latency_us: Some(Percentiles {
            mean: times.iter().sum::<f64>() / times.len() as f64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            p99999: at(0.99999),
            max: at(1.0),
        }),
        most_served: 0,
        least_served: 0,
        fairness: None,
        unanswered: 0,
        reconnects: 0,
        errors: Vec::new(),
        cpu_share: None,
        cpu_wait_share: None,
        late_us: None,
        saturated: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_a_time_for_each_answer() {
        let log = "1700000000000000\t200\t30\n1700000000000009\t200\t10\n";
        let report = report(8, 2, &times(log).unwrap());
        assert_eq!((report.answered, report.per_second), (2, 1.0));
        let latency = report.latency_us.unwrap();
        assert_eq!((latency.p50, latency.max, latency.mean), (10.0, 30.0, 20.0));
        for wrong in ["", "1\t500\t10\n", "1\t-1\t10\n", "1\t200\n"] {
            assert!(times(wrong).is_err(), "{wrong:?}");
        }
    }
}
