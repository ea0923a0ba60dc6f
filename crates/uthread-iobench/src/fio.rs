//! `fio`, the reference: its arguments and its output.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use uthread_report::program::output;

use crate::blocks::BLOCK_BYTES;
use crate::load::{Load, Pattern};
use crate::tally::{Latencies, PERCENTILES, Report};
use crate::walk::{READS_PERCENT, WRITES_PER_SYNC};

/// An engine of `fio`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Blocking calls by as many threads as requests at a time.
    Psync,
    /// Linux AIO.
    Libaio,
    /// A ring.
    IoUring,
    /// A ring with registered file and buffers.
    IoUringRegistered,
}

/// Found by the search path.
pub(crate) const PROGRAM: &str = "fio";

/// Ours reads alike: a block may come again, and latency is that of the whole request.
const ALWAYS: &str = "--direct=1 --bs=4k --thread --group_reporting --norandommap --lat_percentiles=1 --output-format=json";

impl Engine {
    /// All engines, in the order of the tables.
    pub const ALL: [Engine; 4] = [
        Engine::Psync,
        Engine::Libaio,
        Engine::IoUring,
        Engine::IoUringRegistered,
    ];

    /// Returns the name in the tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Engine::Psync => "fio psync",
            Engine::Libaio => "fio libaio",
            Engine::IoUring => "fio io_uring",
            Engine::IoUringRegistered => "fio io_uring registered",
        }
    }

    /// Performs a load by the program `fio` at this path.
    ///
    /// # Errors
    ///
    /// The last line of `fio` on stderr, if it has failed; any error if it cannot be run.
    pub fn run_by(self, program: &Path, load: &Load) -> Result<Report> {
        let first = load.files.first().context("no file")?;
        let bytes = fs::metadata(first)?.len();
        let printed = run_fio(Command::new(program).args(self.arguments(load, bytes)))?;
        parse(&printed, load.pattern == Pattern::Mixed)
    }

    /// Returns the arguments for files of this size.
    fn arguments(self, load: &Load, bytes: u64) -> Vec<String> {
        let engine = match self {
            Engine::Psync => "--ioengine=psync",
            Engine::Libaio => "--ioengine=libaio",
            Engine::IoUring => "--ioengine=io_uring",
            Engine::IoUringRegistered => "--ioengine=io_uring --fixedbufs --registerfiles",
        };
        let pattern = match load.pattern {
            Pattern::Sequential => "--rw=read".to_owned(),
            Pattern::Random
            | Pattern::KeyValue
            | Pattern::UrgentReads(_)
            | Pattern::UrgentEchoes(_) => "--rw=randread".to_owned(),
            Pattern::Mixed => {
                format!("--rw=randrw --rwmixread={READS_PERCENT} --fsync={WRITES_PER_SYNC}")
            }
        };
        let depth = load.depth as u64;
        let (threads, depth) = match self {
            // One call after the other has no batches.
            Engine::Psync if load.is_batched => (1, 1),
            Engine::Psync => (depth, 1),
            _ => (1, depth),
        };
        let mut words = format!(
            "{ALWAYS} {engine} {pattern} --iodepth={depth} --numjobs={threads} --randseed={}",
            load.seed
        );
        if load.is_batched {
            words += &format!(" --iodepth_batch={depth} --iodepth_batch_complete_min={depth}");
        }
        // Each thread reads its own part of the file in order.
        words += &if load.pattern == Pattern::Sequential && threads > 1 {
            let part = bytes / threads / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
            format!(" --size={part} --offset_increment={part}")
        } else {
            format!(" --size={bytes}")
        };
        words += &match load.seconds {
            Some(seconds) => format!(" --time_based --runtime={seconds}"),
            None => {
                let bytes = load.requests.div_ceil(threads) * BLOCK_BYTES as u64;
                format!(" --io_size={bytes}")
            }
        };
        let options: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let mut arguments = Vec::new();
        // A job for each file, and all are reported together. Options reach only the job that they
        // follow.
        for (index, file) in load.files.iter().enumerate() {
            arguments.push(format!("--name=file{index}"));
            arguments.extend_from_slice(&options);
            arguments.push(format!("--filename={}", file.display()));
        }
        arguments
    }
}

/// Returns the version of the program `fio`, or what to do if it is missing.
pub(crate) fn find() -> Result<String, String> {
    let version = output(Command::new(PROGRAM).arg("--version"));
    version
        .map(|version| version.trim().trim_start_matches("fio-").to_owned())
        .map_err(|_| "it is not installed: `apt-get install fio`".to_owned())
}

/// Runs `fio` with an option for JSON, and returns what it prints.
///
/// # Errors
///
/// The last line of `fio` on stderr, if it has failed; any error if it cannot be run, or prints
/// something else.
pub fn run_fio(command: &mut Command) -> Result<Value> {
    json(&output(command)?)
}

/// Parses the JSON in its output, which may begin with other messages.
fn json(output: &str) -> Result<Value> {
    let start = output.find('{').unwrap_or(0);
    serde_json::from_str(&output[start..]).context("the output of fio")
}

/// Reads the report of the first job, which is that of all.
fn parse(printed: &Value, is_mixed: bool) -> Result<Report> {
    let job = printed.pointer("/jobs/0").context("fio reported no job")?;
    let number = |path: &str| {
        let number = job.pointer(&format!("/{path}")).and_then(Value::as_f64);
        number.with_context(|| format!("fio reported no {path}"))
    };
    let error = number("error")?;
    ensure!(error == 0.0, "fio failed with errno {error}");
    let reads = latencies(job, "read")?;
    let writes = is_mixed.then(|| latencies(job, "write")).transpose()?;
    let syncs = is_mixed.then(|| latencies(job, "sync")).transpose().ok();
    let requests = number("read/total_ios")? + number("write/total_ios").unwrap_or(0.0);
    ensure!(requests > 0.0, "fio has requested nothing");
    // CPU times are in percent of the time of all threads, which is in milliseconds.
    let cpu_us =
        |path| Ok::<_, anyhow::Error>(number(path)? / 100.0 * number("job_runtime")? * 1e3);
    let seconds = number("read/runtime")?.max(number("write/runtime").unwrap_or(0.0)) / 1e3;
    Ok(Report {
        seconds,
        reads: Some(reads),
        writes,
        syncs: syncs.flatten(),
        calls: None,
        usr_us: Some(cpu_us("usr_cpu")? / requests),
        sys_us: Some(cpu_us("sys_cpu")? / requests),
        context_switches: Some(number("ctx")? / requests),
        involuntary_switches: None,
        max_rss_mib: None,
        written_per_put: None,
    })
}

fn latencies(job: &Value, direction: &str) -> Result<Latencies> {
    let at = |path: &str| {
        let number = job.pointer(&format!("/{direction}/{path}"));
        let number = number.and_then(Value::as_f64);
        number.with_context(|| format!("fio reported no {direction}/{path}"))
    };
    let percentile = |percent: &f64| -> Result<f64> {
        Ok(at(&format!("lat_ns/percentile/{percent:.6}"))? / 1e3)
    };
    Ok(Latencies {
        count: at("total_ios")? as u64,
        mean_us: at("lat_ns/mean")? / 1e3,
        deviation_us: at("lat_ns/stddev")? / 1e3,
        percentiles_us: PERCENTILES.iter().map(percentile).collect::<Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// Returns output like that of fio 3.33, with all percentiles alike.
    fn sample(error: u32) -> String {
        let percentiles = PERCENTILES.map(|percent| format!("\"{percent:.6}\": 250880"));
        let latency = format!(
            "\"total_ios\": 1000, \"runtime\": 500, \"lat_ns\": {{ \"mean\": 251000.5, \"stddev\": 2000.0, \"percentile\": {{ {} }} }}",
            percentiles.join(", ")
        );
        format!(
            "note: a message\n{{ \"jobs\": [ {{ \"error\": {error}, \"job_runtime\": 500, \"usr_cpu\": 1.0, \"sys_cpu\": 3.0, \
             \"ctx\": 2000, \"read\": {{ {latency} }} }} ] }}"
        )
    }

    #[test]
    fn the_output_of_fio_becomes_a_report() {
        let parsed = |output: &str, is_mixed| parse(&json(output)?, is_mixed);
        let report = parsed(&sample(0), false).unwrap();
        let reads = report.reads.unwrap();
        assert_eq!((reads.count, reads.at(99.0)), (1000, 250.88));
        assert_eq!((reads.mean_us, reads.deviation_us), (251.0005, 2.0));
        assert_eq!((report.seconds, report.context_switches), (0.5, Some(2.0)));
        let (usr, sys) = (report.usr_us.unwrap(), report.sys_us.unwrap());
        assert!(
            (usr - 5.0).abs() < 1e-9 && (sys - 15.0).abs() < 1e-9,
            "{usr} {sys}"
        );
        let cases = [
            (sample(5), false, "errno 5"),
            (sample(0), true, "no write/"),
            (
                sample(0).replace("99.950000", "x"),
                false,
                "percentile/99.95",
            ),
            ("[}".to_owned(), false, "the output of fio"),
        ];
        for (output, is_mixed, expected) in cases {
            let error = format!("{:#}", parsed(&output, is_mixed).unwrap_err());
            assert!(error.contains(expected), "{error:?} has no {expected:?}");
        }
    }

    #[test]
    fn every_file_has_all_options() {
        let load = Load {
            files: ["/a b", "/c"].map(PathBuf::from).to_vec(),
            pattern: Pattern::Sequential,
            requests: 160,
            seconds: None,
            depth: 16,
            is_batched: false,
            seed: 7,
        };
        let check = |engine: Engine, load: &Load, expected: &[&str]| {
            let arguments = engine.arguments(load, 1 << 20);
            for option in expected {
                let is_it = |argument: &&String| argument == option;
                let count = arguments.iter().filter(is_it).count();
                assert_eq!(count, 2, "{option} in {arguments:?}");
            }
            assert_eq!(arguments[0], "--name=file0");
            assert!(arguments.contains(&"--filename=/a b".to_owned()));
        };
        let threads = [
            "--iodepth=1",
            "--numjobs=16",
            "--io_size=40960",
            "--offset_increment=65536",
        ];
        check(Engine::Psync, &load, &threads);
        check(
            Engine::Libaio,
            &load,
            &[
                "--rw=read",
                "--iodepth=16",
                "--numjobs=1",
                "--io_size=655360",
            ],
        );
        let random = Load {
            pattern: Pattern::Random,
            seconds: Some(3),
            ..load
        };
        check(
            Engine::IoUringRegistered,
            &random,
            &["--fixedbufs", "--runtime=3", "--size=1048576"],
        );
    }
}
