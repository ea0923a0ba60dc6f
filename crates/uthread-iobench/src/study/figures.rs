//! The metrics of a scenario, with the names and units of `fio`, and their figures.

use uthread_report::results::{Better, Metric};

use crate::blocks::BLOCK_BYTES;
use crate::scenario::Scenario;
use crate::tally::{Latencies, Report};
use crate::urgent::CHUNK_BYTES;

const MIB: f64 = 1024.0 * 1024.0;

/// Returns the metrics of a scenario. Those that answer its question are drawn.
pub(super) fn metrics(scenario: Scenario) -> Vec<Metric> {
    use Better::{Less, More, Neither};
    if scenario == Scenario::Mixed {
        let all = [
            ("read IOPS", "", More),
            ("write IOPS", "", More),
            ("read lat p50", "usec", Less),
            ("read lat p99", "usec", Less),
            ("write lat p50", "usec", Less),
            ("write lat p99", "usec", Less),
            ("sync lat p50", "usec", Less),
            ("sync lat p99", "usec", Less),
            ("CPU per I/O", "usec", Less),
        ];
        let drawn = ["read IOPS", "read lat p99", "write lat p99", "CPU per I/O"];
        return chosen(&all, &drawn);
    }
    if scenario == Scenario::Kv {
        let all = [
            ("puts", "1/s", More),
            ("gets", "1/s", More),
            ("put lat p50", "usec", Less),
            ("put lat p99", "usec", Less),
            ("get lat p50", "usec", Less),
            ("get lat p99", "usec", Less),
            ("blocks written per put", "", Less),
            ("CPU per I/O", "usec", Less),
        ];
        let drawn = ["puts", "gets", "put lat p99", "get lat p99"];
        return chosen(&all, &drawn);
    }
    if scenario.has_rivals() {
        let all = [
            ("lat avg", "usec", Less),
            ("lat stdev", "usec", Less),
            ("lat p50", "usec", Less),
            ("lat p99", "usec", Less),
            ("lat p99.9", "usec", Less),
            ("rivals", "MiB/s", More),
        ];
        return chosen(&all, &["lat p50", "lat p99", "lat p99.9", "rivals"]);
    }
    let all = [
        ("IOPS", "", More),
        ("BW", "MiB/s", More),
        ("lat avg", "usec", Less),
        ("lat stdev", "usec", Less),
        ("lat p50", "usec", Less),
        ("lat p99", "usec", Less),
        ("lat p99.9", "usec", Less),
        ("CPU per I/O", "usec", Less),
        ("usr per I/O", "usec", Less),
        ("sys per I/O", "usec", Less),
        ("ctx per I/O", "", Neither),
        ("involuntary ctx per I/O", "", Neither),
        ("calls per I/O", "", Neither),
        ("CPU per call", "usec", Less),
        ("max RSS", "MiB", Less),
        ("elapsed", "s", Less),
        ("CPU time", "s", Less),
        ("CPU", "percent", Neither),
    ];
    let drawn: &[&str] = match scenario {
        Scenario::SyscallOverhead => &["IOPS", "CPU per I/O", "calls per I/O"],
        Scenario::CpuFootprint => &["usr per I/O", "sys per I/O", "ctx per I/O", "max RSS"],
        _ => &["IOPS", "lat p50", "lat p99", "CPU per I/O"],
    };
    chosen(&all, drawn)
}

/// Returns the figures in the order of the metrics, `NAN` where one is not known.
pub(super) fn of(scenario: Scenario, report: &Report) -> Vec<f64> {
    let cpu = Some(report.cpu_us());
    let rate = |latencies: &Option<Latencies>| {
        let count = latencies.as_ref().map(|latencies| latencies.count as f64);
        count.map(|count| count / report.seconds)
    };
    let at = |latencies: &Option<Latencies>, percent| {
        latencies.as_ref().map(|latencies| latencies.at(percent))
    };
    let (reads, writes, syncs) = (&report.reads, &report.writes, &report.syncs);
    let requests = reads.as_ref().map(|reads| reads.count as f64);
    let cpu_seconds = requests.map(|requests| report.cpu_us() * requests / 1e6);
    let figures = match scenario {
        Scenario::Mixed => vec![
            rate(reads),
            rate(writes),
            at(reads, 50.0),
            at(reads, 99.0),
            at(writes, 50.0),
            at(writes, 99.0),
            at(syncs, 50.0),
            at(syncs, 99.0),
            cpu,
        ],
        Scenario::Kv => vec![
            rate(writes),
            rate(reads),
            at(writes, 50.0),
            at(writes, 99.0),
            at(reads, 50.0),
            at(reads, 99.0),
            report.written_per_put,
            cpu,
        ],
        Scenario::UrgentReads | Scenario::UrgentEchoes => {
            let bytes = match scenario {
                Scenario::UrgentReads => BLOCK_BYTES,
                _ => CHUNK_BYTES,
            };
            vec![
                reads.as_ref().map(|reads| reads.mean_us),
                reads.as_ref().map(|reads| reads.deviation_us),
                at(reads, 50.0),
                at(reads, 99.0),
                at(reads, 99.9),
                rate(writes).map(|rate| rate * bytes as f64 / MIB),
            ]
        }
        _ => vec![
            rate(reads),
            rate(reads).map(|rate| rate * BLOCK_BYTES as f64 / MIB),
            reads.as_ref().map(|reads| reads.mean_us),
            reads.as_ref().map(|reads| reads.deviation_us),
            at(reads, 50.0),
            at(reads, 99.0),
            at(reads, 99.9),
            cpu,
            report.usr_us,
            report.sys_us,
            report.context_switches,
            report.involuntary_switches,
            report.calls,
            report.calls.map(|calls| report.cpu_us() / calls),
            report.max_rss_mib,
            Some(report.seconds),
            cpu_seconds,
            cpu_seconds.map(|cpu| cpu / report.seconds * 100.0),
        ],
    };
    let known = figures.into_iter().map(|figure| figure.unwrap_or(f64::NAN));
    known.collect()
}

fn chosen(all: &[(&str, &str, Better)], drawn: &[&str]) -> Vec<Metric> {
    let metric = |&(name, unit, better): &(&str, &str, Better)| {
        let metric = Metric::new(name, unit, better);
        if drawn.contains(&name) {
            metric.drawn()
        } else {
            metric
        }
    };
    all.iter().map(metric).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_metric_has_its_figure() {
        let latencies = |count| {
            let percentiles_us = crate::tally::PERCENTILES.to_vec();
            Some(Latencies {
                count,
                mean_us: 42.0,
                deviation_us: 7.0,
                percentiles_us,
            })
        };
        let report = Report {
            seconds: 200.0,
            reads: latencies(51_200),
            writes: latencies(10_000),
            usr_us: Some(1.0),
            sys_us: Some(2.0),
            calls: Some(0.5),
            involuntary_switches: Some(0.25),
            ..Report::default()
        };
        for scenario in Scenario::ALL
            .into_iter()
            .filter(|scenario| *scenario != Scenario::UrgentTrace)
        {
            let (metrics, figures) = (metrics(scenario), of(scenario, &report));
            assert_eq!(metrics.len(), figures.len(), "{scenario}");
            assert!(metrics.iter().any(|metric| metric.is_drawn));
            let figure = |name: &str| {
                let index = metrics.iter().position(|metric| metric.name == name);
                index.map(|index| figures[index])
            };
            if scenario.has_rivals() {
                assert_eq!(
                    (figure("lat avg"), figure("lat stdev")),
                    (Some(42.0), Some(7.0))
                );
                assert_eq!(figure("lat p99.9"), Some(99.9));
                let bytes = [BLOCK_BYTES, CHUNK_BYTES];
                let rivals = bytes.map(|bytes| Some(50.0 * bytes as f64 / MIB));
                assert!(rivals.contains(&figure("rivals")));
                continue;
            }
            assert_eq!(figure("CPU per I/O"), Some(3.0));
            match scenario {
                Scenario::Mixed => {
                    assert_eq!(figure("write IOPS"), Some(50.0));
                    assert_eq!(figure("read lat p99"), Some(99.0));
                    assert!(figure("sync lat p50").unwrap().is_nan());
                }
                Scenario::Kv => {
                    assert_eq!((figure("puts"), figure("gets")), (Some(50.0), Some(256.0)));
                }
                _ => {
                    assert_eq!((figure("IOPS"), figure("BW")), (Some(256.0), Some(1.0)));
                    assert_eq!(
                        (figure("lat avg"), figure("lat stdev")),
                        (Some(42.0), Some(7.0))
                    );
                    assert_eq!(figure("lat p99.9"), Some(99.9));
                    assert_eq!(figure("calls per I/O"), Some(0.5));
                    assert_eq!(figure("CPU per call"), Some(6.0));
                    assert_eq!(figure("elapsed"), Some(200.0));
                    assert_eq!(figure("CPU time"), Some(51_200.0 * 3.0 / 1e6));
                    assert_eq!(figure("CPU"), Some(51_200.0 * 3.0 / 1e6 / 200.0 * 100.0));
                    assert_eq!(figure("involuntary ctx per I/O"), Some(0.25));
                    assert!(figure("max RSS").unwrap().is_nan());
                }
            }
        }
    }
}
