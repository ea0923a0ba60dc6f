//! `fio`: what it is told, and what it says.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Map;

use crate::own::disk::Report;

/// A way to read, in its words.
pub(super) struct Engine {
    pub(super) name: &'static str,
    arguments: &'static [&'static str],
    /// Whether one thread reads one block at a time.
    is_synchronous: bool,
}

/// The first is the measure for ours.
pub(super) const ENGINES: [Engine; 4] = [
    Engine {
        name: "fio io_uring",
        arguments: &["--ioengine=io_uring"],
        is_synchronous: false,
    },
    Engine {
        name: "fio io_uring registered",
        arguments: &["--ioengine=io_uring", "--fixedbufs", "--registerfiles"],
        is_synchronous: false,
    },
    Engine {
        name: "fio libaio",
        arguments: &["--ioengine=libaio"],
        is_synchronous: false,
    },
    Engine {
        name: "fio psync",
        arguments: &["--ioengine=psync"],
        is_synchronous: true,
    },
];

/// The quantiles that it tells by default, as it calls them.
const P50: &str = "50.000000";
const P99: &str = "99.000000";
const P999: &str = "99.900000";

pub(super) struct Job<'a> {
    pub(super) file: &'a Path,
    pub(super) mib: u64,
    pub(super) is_random: bool,
    pub(super) depth: u32,
    pub(super) seconds: u64,
}

impl Job<'_> {
    pub(super) fn arguments(&self, engine: &Engine) -> Vec<String> {
        let (threads, depth) = match engine.is_synchronous {
            true => (self.depth, 1),
            false => (1, self.depth),
        };
        let mut arguments: Vec<String> = [
            "--name=reads",
            "--direct=1",
            "--bs=4k",
            "--time_based",
            "--thread",
            "--group_reporting",
            // As ours: a block may come again, and latency is that of the whole call.
            "--norandommap",
            "--lat_percentiles=1",
            "--output-format=json",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.extend(engine.arguments.iter().map(|&argument| argument.to_owned()));
        arguments.push(format!("--filename={}", self.file.display()));
        arguments.push(format!("--size={}m", self.mib));
        arguments.push(format!(
            "--rw={}",
            if self.is_random { "randread" } else { "read" }
        ));
        arguments.push(format!("--iodepth={depth}"));
        arguments.push(format!("--numjobs={threads}"));
        arguments.push(format!("--runtime={}", self.seconds));
        if !self.is_random && threads > 1 {
            // Each its own part of the file, not all the same blocks.
            let kib = self.mib * 1024 / u64::from(threads);
            arguments.push(format!("--size={kib}k"));
            arguments.push(format!("--offset_increment={kib}k"));
        }
        arguments
    }
}

#[derive(Deserialize)]
struct Said {
    jobs: Vec<JobSaid>,
}

/// Of all threads together.
#[derive(Deserialize)]
struct JobSaid {
    error: i64,
    /// In milliseconds, the sum of all threads.
    job_runtime: f64,
    /// In percent of that.
    usr_cpu: f64,
    sys_cpu: f64,
    read: ReadSaid,
}

#[derive(Deserialize)]
struct ReadSaid {
    iops: f64,
    total_ios: u64,
    lat_ns: LatencySaid,
}

#[derive(Deserialize)]
struct LatencySaid {
    percentile: Map<String, serde_json::Value>,
}

/// What it found, from its JSON, before which it may say other things.
pub(super) fn parse(text: &str) -> Result<Report> {
    let start = text.find('{').unwrap_or(0);
    let said: Said = serde_json::from_str(&text[start..]).context("what fio said")?;
    let [job] = &said.jobs[..] else {
        anyhow::bail!("fio told of {} jobs", said.jobs.len());
    };
    let read = &job.read;
    ensure!(job.error == 0, "fio failed with errno {}", job.error);
    ensure!(read.total_ios > 0, "fio has read nothing");
    let us = |quantile| {
        let ns = read.lat_ns.percentile.get(quantile);
        let ns = ns.and_then(serde_json::Value::as_f64);
        ns.map(|ns| ns / 1e3)
            .with_context(|| format!("fio told no latency at {quantile} %"))
    };
    let cpu_us = (job.usr_cpu + job.sys_cpu) / 100.0 * job.job_runtime * 1e3;
    Ok(Report {
        reads: read.total_ios,
        per_second: read.iops,
        cpu_us: cpu_us / read.total_ios as f64,
        p50_us: us(P50)?,
        p99_us: us(P99)?,
        p999_us: us(P999)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of fio 3.33, shortened: 16 threads, each a second.
    const SAID: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "reads", "groupid" : 0, "error" : 0, "elapsed" : 2, "job_runtime" : 16000,
      "read" : {
        "io_bytes" : 260976640, "iops" : 63651.348651, "runtime" : 1001, "total_ios" : 63715, "short_ios" : 0,
        "clat_ns" : { "min" : 0, "max" : 0, "mean" : 0.0, "stddev" : 0.0, "N" : 0 },
        "lat_ns" : {
          "min" : 80000, "max" : 3200000, "mean" : 250000.5, "N" : 63715,
          "percentile" : { "50.000000" : 250880, "99.000000" : 522240, "99.900000" : 1003520 }
        }
      },
      "usr_cpu" : 0.350000, "sys_cpu" : 3.106250, "ctx" : 65610
    }
  ],
  "disk_util" : [ { "name" : "vda", "util" : 92.8 } ]
}"#;

    #[test]
    fn what_fio_says_becomes_a_report() {
        let report = parse(SAID).unwrap();
        assert_eq!((report.reads, report.per_second), (63715, 63_651.348_651));
        let latencies = [report.p50_us, report.p99_us, report.p999_us];
        assert_eq!(latencies, [250.88, 522.24, 1003.52]);
        assert!((report.cpu_us - 8.68).abs() < 0.01, "{}", report.cpu_us);
    }

    #[test]
    fn what_is_no_result_says_why() {
        let check = |said: &str, instead: &str, expected: &str| {
            let text = SAID.replace(said, instead);
            assert_ne!(text, SAID);
            let error = format!("{:#}", parse(&text).unwrap_err());
            assert!(
                error.contains(expected),
                "{error:?} does not say {expected:?}"
            );
        };
        check("\"error\" : 0", "\"error\" : 5", "errno 5");
        check("\"total_ios\" : 63715", "\"total_ios\" : 0", "nothing");
        check("99.900000", "99.950000", "no latency at 99.9");
        check("\"jobname\"", "\"x\" : [}", "what fio said");
        assert!(parse("").is_err());
        assert!(parse(r#"{"jobs": []}"#).is_err());
    }

    #[test]
    fn who_reads_one_at_a_time_gets_threads() {
        let arguments = |engine: &Engine, is_random| {
            let job = Job {
                file: Path::new("/disk/blocks"),
                mib: 1024,
                is_random,
                depth: 16,
                seconds: 3,
            };
            job.arguments(engine).join(" ")
        };
        let [ring, .., psync] = &ENGINES;
        let said = arguments(ring, true);
        assert!(said.ends_with(
            "--ioengine=io_uring --filename=/disk/blocks --size=1024m --rw=randread --iodepth=16 --numjobs=1 --runtime=3"
        ));
        let said = arguments(psync, false);
        let parts = "--rw=read --iodepth=1 --numjobs=16 --runtime=3 --size=65536k --offset_increment=65536k";
        assert!(said.ends_with(parts), "{said}");
    }
}
