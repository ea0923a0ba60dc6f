//! Servers beside each other under the same load: what all such studies measure, and who takes part in echoing.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::limits;
use crate::load::{Load, Report};
use crate::measure::calls::{self, Count, Counted, Switches};
use crate::measure::proc;
use crate::measure::quiet::{Usage, Window, wait_until_quiet};
use crate::measure::rounds::Taken;
use crate::peers::{self, Program};
use crate::place::Place;
use crate::results::{Better, Metric, Subject};
use crate::servers::Server;
use crate::study::Measuring;

/// The commands of ours that differ in driver and mode; the first is what others stand beside.
pub(super) const OURS: [(&str, &[&str]); 5] = [
    ("uthread", &["own", "--driver", "uring"]),
    (
        "uthread migrating",
        &["own", "--driver", "uring", "--migrating"],
    ),
    (
        "uthread polling",
        &["own", "--driver", "uring", "--polling"],
    ),
    ("uthread epoll", &["own", "--driver", "epoll"]),
    ("uthread threads", &["own", "--driver", "threads"]),
];
/// The last is no runtime: a loop around epoll, and nothing else.
pub(super) const PEERS: [&str; 7] = ["tokio", "go", "monoio", "compio", "may", "threads", "floor"];

/// What starting a server, connecting and the wait for quiet take on top.
pub(super) const AROUND_SECONDS: f64 = 1.0;
const MIB: f64 = 1024.0 * 1024.0;

/// What each server is measured by, each figure for one answer or of the whole.
pub(super) fn metrics() -> Vec<Metric> {
    let us = |name: &str| Metric::new(name, "us", Better::Less);
    vec![
        Metric::new("rate", "1/s", Better::More).drawn(),
        us("CPU").drawn(),
        us("CPU user"),
        us("CPU system"),
        us("CPU kernel threads"),
        us("p50").drawn(),
        us("p90"),
        us("p99").drawn(),
        us("p99.9"),
        us("p99.99"),
        Metric::new("fairness", "times", Better::Less).drawn(),
        Metric::new("memory", "MiB", Better::Less),
        Metric::new("system calls", "per answer", Better::Less),
        Metric::new("switches", "per answer", Better::Less),
        Metric::new("load busy", "% of its CPUs", Better::Neither),
    ]
}

/// In the order of [`metrics`].
fn figures(report: &Report, usage: &Usage, memory_bytes: u64, calls: Calls) -> Vec<f64> {
    let per_answer_us = |ns: f64| ns / 1e3 / report.answered as f64;
    let cpu = &usage.server;
    let (user_ns, system_ns) = cpu.split_ns();
    vec![
        report.per_second,
        per_answer_us(cpu.total_ns() as f64),
        per_answer_us(user_ns),
        per_answer_us(system_ns),
        per_answer_us(cpu.helpers_ns as f64),
        report.p50_us,
        report.p90_us,
        report.p99_us,
        report.p999_us,
        report.p9999_us,
        report.fairness,
        memory_bytes as f64 / MIB,
        calls.system_calls,
        calls.switches,
        report.busy_share.map_or(f64::NAN, |share| share * 100.0),
    ]
}

/// Loads a server that has just been started. Its system calls are counted, in a second run of the load, if `counts` and they
/// can be: that makes it slower.
pub(super) fn measure(
    server: &Server,
    place: &Place,
    load: &Load,
    quiet_wait: Duration,
    counts: bool,
) -> Result<Taken> {
    let pid = server.pid();
    let mut window = Window::open(Some(pid), quiet_wait)?;
    let mut crowd = load.start(&place.load_cpus, server.address())?;
    let switches = Switches::read(pid)?;
    // Connecting is no part of it.
    window.restart()?;
    let report = crowd.run()?;
    let usage = window.close()?;
    let switches = Switches::read(pid)?.since(&switches);
    let memory_bytes = proc::tree_memory(pid)?.rss_bytes;
    drop(crowd);
    let calls = Calls {
        system_calls: match counts && calls::has_tracepoint() {
            false => f64::NAN,
            true => {
                let mut crowd = load.start(&place.load_cpus, server.address())?;
                let (report, counted) = calls::count(pid, || crowd.run())?;
                system_calls(&counted, &report)
            }
        },
        switches: switches as f64 / report.answered as f64,
    };
    Ok(Taken {
        figures: figures(&report, &usage, memory_bytes, calls),
        usage,
    })
}

/// For each answer; `NAN` where they were not counted.
struct Calls {
    system_calls: f64,
    switches: f64,
}

fn system_calls(counted: &Counted, report: &Report) -> f64 {
    match counted.system_calls {
        Count::Known(count) => count as f64 / report.answered as f64,
        Count::Unknown(_) => f64::NAN,
    }
}

/// Who echoes, and how each is started.
pub(super) struct Contest {
    pub(super) subjects: Vec<Subject>,
    /// `None` for one that is missing.
    programs: Vec<Option<Program>>,
    quiet_wait: Duration,
}

/// What an echo server is asked for.
pub(super) struct Asked<'a> {
    pub(super) place: &'a Place,
    pub(super) workers: usize,
    pub(super) compute_us: u64,
    pub(super) load: &'a Load,
}

impl Contest {
    /// Builds the peers that are to be measured.
    pub(super) fn new(
        measuring: &Measuring,
        ours: usize,
        peers: &[&'static str],
    ) -> Result<Contest> {
        let mut contest = Contest {
            subjects: Vec::new(),
            programs: Vec::new(),
            quiet_wait: measuring.quiet_wait(),
        };
        for (name, prefix) in &OURS[..ours] {
            contest.subjects.push(Subject::ours(name));
            contest.programs.push(Some(peers::own(name, prefix)?));
        }
        for (subject, program) in peers::asked(peers, measuring) {
            contest.subjects.push(subject);
            contest.programs.push(program);
        }
        Ok(contest)
    }

    /// On a server of its own: what one has misjudged, its amount of work above all, stays in one round.
    pub(super) fn measure(&self, subject: usize, asked: &Asked, counts: bool) -> Result<Taken> {
        let program = self.programs[subject].as_ref().context("it is missing")?;
        let name = &self.subjects[subject].name;
        limits::check(u64::from(asked.load.connections), name.ends_with("threads"))?;
        if asked.compute_us > 0 {
            // A server calibrates its work when it starts: that has to be quiet too.
            wait_until_quiet(None, self.quiet_wait)?;
        }
        let [workers, compute_us] =
            [asked.workers as u64, asked.compute_us].map(|number| number.to_string());
        let arguments = ["echo", "0", &workers, &compute_us];
        let server = Server::start_peer(program, &asked.place.server_cpus, &arguments)
            .with_context(|| format!("start {name}"))?;
        measure(&server, asked.place, asked.load, self.quiet_wait, counts)
    }
}
