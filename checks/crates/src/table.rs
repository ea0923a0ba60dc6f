//! The table: each use in a process of its own, with a time limit.

use std::env;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
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

/// A pause of a ticking fiber from which on a use stops other fibers. The waits of the uses are twice as long.
const PAUSE_MS_MIN: u128 = 50;

/// The trials of a table.
pub(crate) struct Plan {
    pub(crate) modes: Vec<Mode>,
    pub(crate) workers: Vec<usize>,
    pub(crate) uses: Vec<&'static Use>,
}

/// The result of one trial.
enum Verdict {
    Ended(Report),
    Hangs,
    Dies(ExitStatus),
}

/// Runs the trials of a plan and prints the table. Returns `true` if all trials with own thread-local storage end right.
pub(crate) fn run(plan: &Plan) -> Result<bool, String> {
    let mut reasons = Vec::new();
    let mut counts = vec![0; plan.columns().count()];
    let mut total = 0;
    let mut all_right = true;
    for group in Group::ALL {
        println!("| {} |{}", group.title(), plan.heading());
        println!("| --- |{}", " --- |".repeat(counts.len()));
        for item in plan.uses.iter().filter(|item| item.group == group) {
            // Kept until the trials of the use have ended.
            let _service = match item.service.map(services::provide).transpose() {
                Ok(service) => service,
                Err(absent) => {
                    println!("| {} |{}", item.name, " not run |".repeat(counts.len()));
                    reasons.push(format!("{}: {absent}", item.name));
                    continue;
                }
            };
            total += 1;
            print!("| {} |", item.name);
            for ((mode, workers), count) in plan.columns().zip(&mut counts) {
                let verdict = attempt(item, mode, workers).map_err(|error| error.to_string())?;
                print!(" {} |", verdict.cell());
                *count += usize::from(verdict.is_right());
                all_right &= verdict.is_right() || mode != Mode::OwnTls;
                let reason = verdict.reason();
                reasons.extend(reason.map(|it| format!("{}, {mode} {workers}: {it}", item.name)));
            }
            println!();
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

    fn heading(&self) -> String {
        let cells = self
            .columns()
            .map(|(mode, workers)| format!(" {mode} {workers} |"));
        cells.collect()
    }
}

impl Verdict {
    fn cell(&self) -> String {
        match self {
            Verdict::Hangs => "hangs".to_owned(),
            Verdict::Dies(_) => "dies".to_owned(),
            Verdict::Ended(report) if report.failure.is_some() => "wrong".to_owned(),
            Verdict::Ended(report) if report.pause_ms >= PAUSE_MS_MIN => {
                format!("pauses {} ms", report.pause_ms)
            }
            Verdict::Ended(report) => format!("ok, {} ms", report.pause_ms),
        }
    }

    fn is_right(&self) -> bool {
        matches!(self, Verdict::Ended(Report { failure: None, pause_ms, .. }) if *pause_ms < PAUSE_MS_MIN)
    }

    /// Returns a reason that the table does not show.
    fn reason(&self) -> Option<String> {
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

/// Runs one trial.
fn attempt(item: &Use, mode: Mode, workers: usize) -> io::Result<Verdict> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["run", item.name, "--mode", &mode.to_string()]);
    command.args(["--workers", &workers.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // Reports of stalls, and messages of panics: the command `run` shows them.
    command.stderr(Stdio::null());
    if let Some(service) = item.service {
        command.env(service.variable(), service.directory());
    }
    let mut child = command.spawn()?;
    let Some(status) = wait(&mut child)? else {
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
fn wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(POLL);
    }
    Ok(None)
}
