//! Servers under the same load: the metrics that all such studies share, and the echo servers that
//! take part.

use std::time::Duration;

use anyhow::{Context, Result};

use uthread_load::Report;
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::{Usage, Window, wait_until_quiet};
use uthread_report::results::{Better, Metric, Subject};

use crate::alone::Measuring;
use crate::cpu_split::CpuSplit;
use crate::limits;
use crate::load::{Load, fairness, latency};
use crate::measure::calls::{self, Switches};
use crate::measure::memory::Memory;
use crate::peers::{self, Program};
use crate::servers::Server;

/// Our programs by driver and mode. The others are compared with the first.
pub(super) const OURS: [(&str, &[&str]); 5] = [
    ("uthread", &["--driver", "uring"]),
    ("uthread lean", &["--driver", "uring", "--lean"]),
    ("uthread polling", &["--driver", "uring", "--polling"]),
    ("uthread epoll", &["--driver", "epoll"]),
    ("uthread threads", &["--driver", "threads"]),
];
/// Peers, by name. The last one is no runtime: it is a loop around epoll, and nothing else.
pub(super) const PEERS: [&str; 7] = ["tokio", "go", "monoio", "compio", "may", "threads", "floor"];

/// Time to start a server, to connect, and to wait for a quiet machine.
pub(super) const AROUND_SECONDS: f64 = 1.0;
pub(super) const MIB: f64 = 1024.0 * 1024.0;
/// Number of answers of a measurement of which ten exceed this percentile.
const ANSWERS_FOR_P99999: u64 = 1_000_000;

/// Returns the metrics of a server under load, each for one answer or for the whole server.
pub(super) fn metrics() -> Vec<Metric> {
    let us = |name: &str| Metric::new(name, "us", Better::Less);
    vec![
        Metric::new("rate", "1/s", Better::More).drawn(),
        us("CPU").drawn(),
        us("machine CPU").drawn(),
        us("CPU user"),
        us("CPU system"),
        us("CPU kernel threads"),
        us("p50").drawn(),
        us("p90"),
        us("p99").drawn(),
        us("p99.9"),
        us("p99.99"),
        us("p99.999"),
        us("max"),
        Metric::new("fairness", "times", Better::Less).drawn(),
        Metric::new("memory", "MiB", Better::Less),
        Metric::new("system calls", "per answer", Better::Less),
        Metric::new("switches", "per answer", Better::Less),
        Metric::new("load busy", "% of its CPUs", Better::Neither),
    ]
}

/// Returns [`metrics`] and the memory that each connection holds.
pub(super) fn metrics_with_memory() -> Vec<Metric> {
    let names = ["RSS", "kernel", "kernel stacks", "page tables", "slab"];
    let memory = names.map(|name| Metric::new(name, "B per connection", Better::Less));
    [metrics(), memory.to_vec()].concat()
}

/// A server under load, once.
pub(super) struct Measured {
    pub(super) report: Report,
    pub(super) usage: Usage,
    /// Memory before the connections were opened, and after the load while they are open and idle.
    memory: [Memory; 2],
    connections: u32,
    /// `true` if the load polls instead of sleeping.
    load_spins: bool,
    /// Number per answer; `NAN` where system calls were not counted.
    system_calls: f64,
    /// Number per answer.
    switches: f64,
}

impl Measured {
    /// Returns the figures of [`metrics`], in that order.
    pub(super) fn figures(&self) -> Vec<f64> {
        let report = &self.report;
        let per_answer_us = |ns: f64| ns / 1e3 / report.answered as f64;
        let cpu = &self.usage.server;
        let (user_ns, system_ns) = cpu.split_ns();
        let latency = latency(report);
        vec![
            report.per_second,
            per_answer_us(cpu.total_ns() as f64),
            per_answer_us(self.usage.machine_ns as f64) - polls_us(report, self.load_spins),
            per_answer_us(user_ns),
            per_answer_us(system_ns),
            per_answer_us(cpu.helpers_ns as f64),
            latency.p50,
            latency.p90,
            latency.p99,
            latency.p999,
            latency.p9999,
            if report.measured < ANSWERS_FOR_P99999 {
                f64::NAN
            } else {
                latency.p99999
            },
            latency.max,
            fairness(report),
            self.memory[1].rss as f64 / MIB,
            self.system_calls,
            self.switches,
            report.cpu_share.map_or(f64::NAN, |share| share * 100.0),
        ]
    }

    pub(super) fn taken(self) -> Taken {
        Taken {
            figures: self.figures(),
            usage: self.usage,
        }
    }

    /// Returns the figures of [`metrics_with_memory`], in that order.
    pub(super) fn taken_with_memory(self) -> Taken {
        let [before, after] = &self.memory;
        let memory = after.since(before, self.connections);
        Taken {
            figures: [&self.figures()[..], &memory].concat(),
            usage: self.usage,
        }
    }
}

/// Returns the CPU time for each answer in which a load that spins had nothing to do.
fn polls_us(report: &Report, load_spins: bool) -> f64 {
    let busy_share = report.cpu_share.unwrap_or(1.0);
    let cpus = report.workers as f64;
    if load_spins {
        (1.0 - busy_share) * cpus * 1e6 / report.per_second
    } else {
        0.0
    }
}

/// Loads a server that has just been started. With `counts`, loads it a second time to count its
/// system calls where that is possible: counting slows it down.
pub(super) fn measure(
    server: &Server,
    split: &CpuSplit,
    load: &Load,
    quiet_wait: Duration,
    counts: bool,
) -> Result<Measured> {
    let pid = server.pid();
    let mut window = Window::open(Some(pid), quiet_wait)?;
    let before = Memory::read(pid)?;
    let mut running = load.start(&split.load_cpus, server.address())?;
    let switches = Switches::read(pid)?;
    // Connecting is not measured.
    window.restart()?;
    let report = running.run()?;
    let usage = window.close()?;
    let switches = Switches::read(pid)?.since(&switches) as f64 / report.answered as f64;
    let after = Memory::read(pid)?;
    drop(running);
    let mut system_calls = f64::NAN;
    if counts && calls::can_count() {
        let mut running = load.start(&split.load_cpus, server.address())?;
        let (report, calls) = calls::count(pid, || running.run())?;
        system_calls = calls.map_or(f64::NAN, |calls| calls as f64 / report.answered as f64);
    }
    Ok(Measured {
        report,
        usage,
        memory: [before, after],
        connections: load.connections,
        load_spins: load.spin,
        system_calls,
        switches,
    })
}

/// The echo servers of a study.
pub(super) struct EchoServers {
    pub(super) subjects: Vec<Subject>,
    /// The program of each subject; `None` if it is missing.
    programs: Vec<Option<Program>>,
    quiet_wait: Duration,
}

/// The task of an echo server.
pub(super) struct Task {
    pub(super) split: CpuSplit,
    pub(super) workers: usize,
    pub(super) compute_us: u64,
    pub(super) load: Load,
}

impl Task {
    /// Returns a task for one worker, without work.
    pub(super) fn new(split: &CpuSplit, load: Load) -> Task {
        Task {
            split: split.clone(),
            workers: 1,
            compute_us: 0,
            load,
        }
    }
}

impl EchoServers {
    /// Takes the first `ours` of [`OURS`], and builds the peers that are measured.
    pub(super) fn new(measuring: &Measuring, ours: usize) -> Result<EchoServers> {
        let own = OURS[..ours].iter();
        let own: Result<Vec<_>> = own.map(|(name, prefix)| peers::own(name, prefix)).collect();
        let (subjects, programs) = peers::compared(own?, &PEERS, measuring);
        Ok(EchoServers {
            subjects,
            programs,
            quiet_wait: measuring.quiet_wait(),
        })
    }

    /// Starts a server and measures it. Each round has a server of its own, so that a calibration
    /// that was wrong at its start affects one round only.
    pub(super) fn measure(&self, subject: usize, task: &Task, counts: bool) -> Result<Measured> {
        let program = self.programs[subject]
            .as_ref()
            .context("the program is missing")?;
        let name = &self.subjects[subject].name;
        let has_threads = name.ends_with("threads");
        limits::check(u64::from(task.load.connections), has_threads)?;
        if task.compute_us > 0 {
            // A server calibrates its work when it starts, which needs a quiet machine too.
            wait_until_quiet(None, self.quiet_wait)?;
        }
        let (any_port, workers) = ("0", task.workers.to_string());
        let arguments = ["echo", any_port, &workers, &task.compute_us.to_string()];
        let server = Server::start_peer(program, &task.split.server_cpus, &arguments)
            .with_context(|| format!("start {name}"))?;
        measure(&server, &task.split, &task.load, self.quiet_wait, counts)
    }
}
