//! `fio`: its arguments and its output.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Report;

/// The engines: a name, the arguments, and whether one thread reads one block at a time. The first is the measure for ours.
pub(super) const ENGINES: [(&str, &str, bool); 4] = [
    ("fio io_uring", "--ioengine=io_uring", false),
    (
        "fio io_uring registered",
        "--ioengine=io_uring --fixedbufs --registerfiles",
        false,
    ),
    ("fio libaio", "--ioengine=libaio", false),
    ("fio psync", "--ioengine=psync", true),
];

/// Ours reads alike: a block may come again, and latency is that of the whole call.
const ALWAYS: &str = "--name=reads --direct=1 --bs=4k --time_based --thread --group_reporting --norandommap \
                      --lat_percentiles=1 --output-format=json";

pub(super) struct Job<'a> {
    pub(super) file: &'a Path,
    pub(super) mib: u64,
    pub(super) is_random: bool,
    pub(super) depth: u32,
    pub(super) seconds: u64,
}

impl Job<'_> {
    pub(super) fn arguments(&self, engine: usize) -> Vec<String> {
        let (_, engine, is_synchronous) = ENGINES[engine];
        let (threads, depth) = if is_synchronous {
            (self.depth, 1)
        } else {
            (1, self.depth)
        };
        let (mib, seconds) = (self.mib, self.seconds);
        let pattern = if self.is_random { "randread" } else { "read" };
        let mut words = format!(
            "{ALWAYS} {engine} --size={mib}m --rw={pattern} --iodepth={depth} --numjobs={threads} --runtime={seconds}"
        );
        if !self.is_random && threads > 1 {
            // Each thread reads its own part of the file.
            let kib = mib * 1024 / u64::from(threads);
            words += &format!(" --size={kib}k --offset_increment={kib}k");
        }
        let mut arguments: Vec<String> = words.split(' ').map(str::to_owned).collect();
        arguments.push(format!("--filename={}", self.file.display()));
        arguments
    }
}

/// Parses the JSON in its output, which may begin with other messages.
pub(in crate::studies) fn json(output: &str) -> Result<Value> {
    let start = output.find('{').unwrap_or(0);
    serde_json::from_str(&output[start..]).context("the output of fio")
}

/// Parses the report in its output.
pub(super) fn parse(output: &str) -> Result<Report> {
    let report = json(output)?;
    let number = |path: &str| {
        let number = report
            .pointer(&format!("/jobs/0/{path}"))
            .and_then(Value::as_f64);
        number.with_context(|| format!("fio reported no {path}"))
    };
    let error = number("error")?;
    ensure!(error == 0.0, "fio failed with errno {error}");
    let reads = number("read/total_ios")?;
    ensure!(reads > 0.0, "fio has read nothing");
    let us = |percent: &str| {
        Ok::<_, anyhow::Error>(number(&format!("read/lat_ns/percentile/{percent}"))? / 1e3)
    };
    // In percent of the time of all threads, which is in milliseconds.
    let cpu_us = (number("usr_cpu")? + number("sys_cpu")?) / 100.0 * number("job_runtime")? * 1e3;
    Ok(Report {
        per_second: number("read/iops")?,
        cpu_us: cpu_us / reads,
        p50_us: us("50.000000")?,
        p99_us: us("99.000000")?,
        p999_us: us("99.900000")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of fio 3.33, shortened: 16 threads, each a second.
    const OUTPUT: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{ "fio version": "fio-3.33", "jobs": [ {
    "jobname": "reads", "error" : 0, "job_runtime" : 16000, "usr_cpu" : 0.350000, "sys_cpu" : 3.106250,
    "read": { "iops" : 63651.348651, "total_ios" : 63715,
      "lat_ns": { "percentile": { "50.000000" : 250880, "99.000000" : 522240, "99.900000" : 1003520 } } } } ] }"#;

    #[test]
    fn the_output_of_fio_becomes_a_report() {
        let report = parse(OUTPUT).unwrap();
        assert_eq!(report.per_second, 63_651.348_651);
        let latencies = [report.p50_us, report.p99_us, report.p999_us];
        assert_eq!(latencies, [250.88, 522.24, 1003.52]);
        assert!((report.cpu_us - 8.68).abs() < 0.01, "{}", report.cpu_us);
        let cases = [
            ("\"error\" : 0", "\"error\" : 5", "errno 5"),
            ("\"total_ios\" : 63715", "\"total_ios\" : 0", "nothing"),
            ("99.900000", "99.950000", "no read/lat_ns/percentile/99.9"),
            ("\"jobname\"", "\"x\" : [}", "the output of fio"),
        ];
        for (part, instead, expected) in cases {
            let error = format!("{:#}", parse(&OUTPUT.replace(part, instead)).unwrap_err());
            assert!(
                error.contains(expected),
                "{error:?} does not say {expected:?}"
            );
        }
    }

    #[test]
    fn synchronous_reads_get_threads() {
        let arguments = |engine, is_random| {
            let job = Job {
                file: Path::new("/disk/a file"),
                mib: 1024,
                is_random,
                depth: 16,
                seconds: 3,
            };
            job.arguments(engine).join(" ")
        };
        let parts = "--ioengine=io_uring --size=1024m --rw=randread --iodepth=16 --numjobs=1 --runtime=3 --filename=/disk/a file";
        assert!(arguments(0, true).ends_with(parts));
        let parts = "--rw=read --iodepth=1 --numjobs=16 --runtime=3 --size=65536k --offset_increment=65536k";
        assert!(arguments(3, false).contains(parts));
    }
}
