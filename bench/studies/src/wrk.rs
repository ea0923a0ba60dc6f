//! Runs `wrk` and reads its report. Any failed request makes the whole run an error: its rate would be of errors.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// `wrk` waits for stragglers after its time is up; one that takes longer than this has hung.
const OVERTIME_MAX: Duration = Duration::from_secs(15);
const POLL_EVERY: Duration = Duration::from_millis(10);

pub(crate) struct Load<'a> {
    pub(crate) program: &'a Path,
    pub(crate) url: &'a str,
    pub(crate) threads: usize,
    pub(crate) connections: usize,
    pub(crate) seconds: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) requests: u64,
    pub(crate) requests_per_second: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
}

pub(crate) fn run(load: &Load) -> Result<Report> {
    let mut command = Command::new(load.program);
    command.args([
        "--latency",
        "--threads",
        &load.threads.min(load.connections).to_string(),
    ]);
    command.args(["--connections", &load.connections.to_string()]);
    command.args(["--duration", &format!("{}s", load.seconds), load.url]);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut running = Running(child.context("run wrk")?);
    let deadline = Instant::now() + Duration::from_secs(load.seconds) + OVERTIME_MAX;
    // Its report is a kilobyte, so it cannot block on the pipe while we wait.
    let status = loop {
        match running.0.try_wait().context("wait for wrk")? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                bail!("wrk has not ended {OVERTIME_MAX:?} after its time")
            }
            None => thread::sleep(POLL_EVERY),
        }
    };
    let output = running.output()?;
    ensure!(status.success(), "wrk ended with {status}:\n{output}");
    parse(&output).with_context(|| format!("wrk on {} reported:\n{output}", load.url))
}

/// Ends `wrk` if the wait for it fails.
struct Running(Child);

impl Running {
    fn output(&mut self) -> Result<String> {
        let mut text = String::new();
        if let Some(mut pipe) = self.0.stdout.take() {
            pipe.read_to_string(&mut text)
                .context("read wrk's report")?;
        }
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_string(&mut text)
                .context("read wrk's messages")?;
        }
        Ok(text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn parse(output: &str) -> Result<Report> {
    for line in output.lines().map(str::trim) {
        let failed =
            line.starts_with("Socket errors:") || line.starts_with("Non-2xx or 3xx responses:");
        ensure!(!failed, "requests failed: {line}");
    }
    let after = |name: &str| {
        output
            .lines()
            .find_map(|line| line.trim().strip_prefix(name))
            .map(str::trim)
    };
    let requests = output
        .lines()
        .find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
    let rate = after("Requests/sec:").and_then(|text| text.parse().ok());
    let report = Report {
        requests: requests.context("no number of requests")?,
        requests_per_second: rate.context("no rate")?,
        p50_us: after("50%")
            .and_then(parse_time_us)
            .context("no median latency")?,
        p99_us: after("99%")
            .and_then(parse_time_us)
            .context("no 99th percentile")?,
    };
    ensure!(report.requests > 0, "no request was answered");
    Ok(report)
}

/// `743.18us`, `1.27ms`, `2.00s`, `1.50m`.
fn parse_time_us(text: &str) -> Option<f64> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let unit_us = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3600e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Running 1s test @ http://127.0.0.1:18081/f
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   743.18us  114.90us   2.44ms   92.18%
    Req/Sec    86.49k     3.86k   90.70k    80.00%
  Latency Distribution
     50%  722.00us
     75%  758.00us
     90%  807.00us
     99%    1.27ms
  85717 requests in 1.00s, 19.70MB read
Requests/sec:  85613.32
Transfer/sec:     19.68MB
";

    #[test]
    fn a_good_report_is_read() {
        let expected = Report {
            requests: 85717,
            requests_per_second: 85613.32,
            p50_us: 722.0,
            p99_us: 1270.0,
        };
        assert_eq!(parse(GOOD).unwrap(), expected);
    }

    #[test]
    fn a_failed_or_cut_off_report_is_an_error() {
        let check = |output: String, reason: &str| {
            let error = parse(&output).unwrap_err().to_string();
            assert!(error.contains(reason), "{error:?} does not say {reason:?}");
        };
        check(
            format!("{GOOD}  Non-2xx or 3xx responses: 104335\n"),
            "104335",
        );
        check(
            format!("{GOOD}  Socket errors: connect 0, read 12, write 0, timeout 0\n"),
            "read 12",
        );
        check(GOOD.replace("85717 requests", "0 requests"), "no request");
        check(GOOD.replace("Requests/sec", "Requests"), "no rate");
        check(GOOD.replace("99%", "98%"), "99th");
        check(
            "unable to connect to 127.0.0.1:1 Connection refused".to_owned(),
            "no number",
        );
        check(String::new(), "no number");
    }

    #[test]
    fn times_have_units() {
        let check = |text: &str, expected: Option<f64>| {
            assert_eq!(parse_time_us(text), expected, "{text:?}")
        };
        check("0.00us", Some(0.0));
        check("743.18us", Some(743.18));
        check("1.5ms", Some(1500.0));
        check("2.00s", Some(2e6));
        check("1.50m", Some(90e6));
        check("1.5", None);
        check("ms", None);
        check("1.5parsec", None);
    }
}
