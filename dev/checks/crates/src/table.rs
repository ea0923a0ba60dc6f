//! The table: each use in a process of its own, with a time limit.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::mode::Mode;
use crate::services;
use crate::trial::Report;
use crate::uses::{Group, Use};

/// A use that has not ended after this time hangs: each takes less than 2 s.
const LIMIT: Duration = Duration::from_secs(10);

/// How often the parent looks whether a trial has ended.
const POLL: Duration = Duration::from_millis(5);

/// A pause of a ticking fiber from which on a use stops other fibers. The waits of the uses are
/// twice as long.
const PAUSE_MS_MIN: u128 = 50;

/// A pause of a ticking thread from which on the machine is too busy for a trial, which then is
/// repeated.
const BUSY_MS_MIN: u128 = 20;

/// How many disturbed runs of a trial are repeated.
const DISTURBED_MAX: usize = 5;

/// The trials of a table.
pub(crate) struct Plan {
    pub(crate) modes: Vec<Mode>,
    pub(crate) workers: Vec<usize>,
    pub(crate) uses: Vec<&'static Use>,
    pub(crate) copies: usize,
    /// How often a trial has to end right, at least once.
    pub(crate) times: usize,
}

/// The result of one trial.
pub(crate) enum Verdict {
    Ended(Report),
    Hangs,
    Dies(ExitStatus),
}

/// The results of a trial that ran several times.
struct Trials {
    worst: Verdict,
    /// The number of runs, of which only the last one may have failed.
    runs: usize,
}

/// Runs the trials of a plan and prints the table. Returns `true` if all trials in the
/// default mode end right.
pub(crate) fn run(plan: &Plan) -> Result<bool, String> {
    let mut reasons = Vec::new();
    let mut counts = vec![0; plan.columns().count()];
    let mut total = 0;
    let mut all_right = true;
    // Kept until all trials have ended, as several uses share a server.
    let mut running = Vec::new();
    for group in Group::ALL {
        let items = plan.uses.iter().filter(|item| item.group == group);
        if items.clone().next().is_none() {
            continue;
        }
        println!("| {} |{}", group.title(), plan.heading());
        println!("| --- |{}", " --- |".repeat(counts.len()));
        for item in items {
            match item.service.map(services::provide).transpose() {
                Ok(service) => running.extend(service),
                Err(absent) => {
                    println!("| {} |{}", item.name, " not run |".repeat(counts.len()));
                    reasons.push(format!("{}: {absent}", item.name));
                    continue;
                }
            }
            total += 1;
            print!("| {} |", item.name);
            let all_trials = plan.row(item).map_err(|error| error.to_string())?;
            // The columns with each reason.
            let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
            let columns = plan.columns().zip(&mut counts);
            for (((mode, workers), count), trials) in columns.zip(all_trials) {
                print!(" {} |", trials.cell());
                let verdict = trials.worst;
                *count += usize::from(verdict.is_right());
                all_right &= verdict.is_right() || mode != Mode::Default;
                if let Some(reason) = verdict.reason() {
                    let columns = failures.entry(reason).or_default();
                    columns.push(format!("{mode} {workers}"));
                }
            }
            println!();
            let reason = |(reason, columns): (String, Vec<String>)| {
                format!("{}, {}: {reason}", item.name, columns.join(", "))
            };
            reasons.extend(failures.into_iter().map(reason));
        }
        println!();
    }
    let counts = plan.columns().zip(counts);
    let counts = counts.map(|((mode, workers), count)| format!("{mode} {workers}: {count}"));
    let counts: Vec<String> = counts.collect();
    println!("Of {total} uses, these end right and pause no other fiber for {PAUSE_MS_MIN} ms:");
    println!("{}.\n", counts.join(", "));
    for reason in reasons {
        println!("- {reason}");
    }
    Ok(all_right)
}

impl Plan {
    fn columns(&self) -> impl Iterator<Item = (Mode, usize)> {
        let of = |mode| self.workers.iter().map(move |&workers| (mode, workers));
        self.modes.iter().copied().flat_map(of)
    }

    /// Runs the trials of one use: all at once if they may hang, as a trial that hangs takes time
    /// but no CPU.
    fn row(&self, item: &Use) -> io::Result<Vec<Trials>> {
        let program = env::current_exe()?;
        let trial = |(mode, workers)| {
            let run = || attempt(&program, item, mode, workers, self.copies, LIMIT);
            repeat(self.times, run)
        };
        if item.group != Group::ForFibers {
            return self.columns().map(trial).collect();
        }
        thread::scope(|scope| {
            let started = self
                .columns()
                .map(|column| scope.spawn(move || trial(column)));
            let started: Vec<_> = started.collect();
            let results = started.into_iter().map(|it| it.join());
            results
                .map(|it| it.expect("a trial does not panic"))
                .collect()
        })
    }

    fn heading(&self) -> String {
        let cells = self
            .columns()
            .map(|(mode, workers)| format!(" {mode} {workers} |"));
        cells.collect()
    }
}

impl Report {
    fn pauses(&self) -> bool {
        self.failure.is_none() && self.pause_ms >= PAUSE_MS_MIN
    }

    /// Returns `true` if the machine was too busy to blame the use for a pause.
    fn is_disturbed(&self) -> bool {
        self.pauses() && self.thread_pause_ms >= BUSY_MS_MIN
    }
}

impl Trials {
    fn cell(&self) -> String {
        let cell = self.worst.cell();
        if self.worst.is_right() || self.runs == 1 {
            cell
        } else {
            format!("{cell} (run {})", self.runs)
        }
    }
}

impl Verdict {
    fn pause_ms(&self) -> u128 {
        match self {
            Verdict::Ended(report) => report.pause_ms,
            Verdict::Hangs | Verdict::Dies(_) => 0,
        }
    }

    fn is_disturbed(&self) -> bool {
        matches!(self, Verdict::Ended(report) if report.is_disturbed())
    }

    pub(crate) fn cell(&self) -> String {
        match self {
            Verdict::Hangs => "hangs".to_owned(),
            Verdict::Dies(_) => "dies".to_owned(),
            Verdict::Ended(report) if report.failure.is_some() => "wrong".to_owned(),
            Verdict::Ended(report) if report.pauses() => format!("pauses {} ms", report.pause_ms),
            Verdict::Ended(report) => format!("ok, {} ms", report.pause_ms),
        }
    }

    fn is_right(&self) -> bool {
        matches!(self, Verdict::Ended(report) if report.failure.is_none() && !report.pauses())
    }

    /// Returns a reason that the table does not show.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Verdict::Ended(report) => report.failure.clone(),
            Verdict::Dies(status) => match status.signal() {
                Some(signal) => Some(format!("signal {signal}")),
                None => Some(status.to_string()),
            },
            Verdict::Hangs => None,
        }
    }
}

/// Runs a trial again until it fails, at most `times` times. Runs that other programs disturbed do
/// not count.
fn repeat(times: usize, mut run: impl FnMut() -> io::Result<Verdict>) -> io::Result<Trials> {
    let mut worst = None;
    let (mut runs, mut disturbed) = (0, 0);
    while runs < times {
        let verdict = run()?;
        if verdict.is_disturbed() && disturbed < DISTURBED_MAX {
            disturbed += 1;
            continue;
        }
        runs += 1;
        if !verdict.is_right() {
            worst = Some(verdict);
            break;
        }
        if worst
            .as_ref()
            .is_none_or(|worst| verdict.pause_ms() > worst.pause_ms())
        {
            worst = Some(verdict);
        }
    }
    let worst = worst.expect("a trial runs at least once");
    Ok(Trials { worst, runs })
}

/// Runs one trial by this program.
pub(crate) fn attempt(
    program: &Path,
    item: &Use,
    mode: Mode,
    workers: usize,
    copies: usize,
    limit: Duration,
) -> io::Result<Verdict> {
    let mut command = Command::new(program);
    command.args(["run", item.name, "--mode", &mode.to_string()]);
    command.args(["--workers", &workers.to_string()]);
    command.args(["--copies", &copies.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // Reports of stalls, and messages of panics: the command `run` shows them.
    command.stderr(Stdio::null());
    if let Some(service) = item.service {
        command.env(service.variable(), service.directory());
    }
    let mut child = command.spawn()?;
    let Some(status) = wait(&mut child, limit)? else {
        child.kill()?;
        child.wait()?;
        return Ok(Verdict::Hangs);
    };
    let mut text = String::new();
    let mut output = child.stdout.take().expect("its output is a pipe");
    output.read_to_string(&mut text)?;
    Ok(match text.parse() {
        Ok(report) => Verdict::Ended(report),
        Err(_) => Verdict::Dies(status),
    })
}

/// Waits until a child has ended, or the limit is over.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(POLL);
    }
    Ok(None)
}
