//! Memory of fibers, threads, tasks and goroutines before, at and after a peak, by the depth of
//! stack that each uses.
//!
//! Every measurement has a process of its own, which waits at each stage (`dev/bench/peers/README.md`)
//! while its memory is read.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use procfs::process::Process;
use uthread_report::machine::allowed_cpus;
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Window;
use uthread_report::results::{Better, Metric, Panel, Point};
use uthread_report::study::{Cell, Study};

use super::plan;
use super::server_study::MIB;
use crate::alone::Measuring;
use crate::measure::memory::Memory;
use crate::peers::{self, Program};
use crate::servers::pinned;

/// Number of fibers, tasks or goroutines: enough that the runtime itself takes under a hundredth.
const TASKS: u32 = 10_000;
/// Number of OS threads. With fewer than a thousand, their kernel memory cannot be distinguished
/// from that of the rest of the machine.
const THREADS: u32 = 2_000;
/// Time at the peak, and after it, until memory is read again. A runtime may give some back when a
/// task has waited for a while; uthread looks once per second for fibers that have not run since
/// its previous look.
const REST: Duration = Duration::from_secs(3);
const SECONDS_EACH: f64 = 8.0;

/// The panels: title, command of the peers, and KiB of stack.
const PANELS: [(&str, &str, &[u32]); 2] = [
    (
        "stack used by calls that have returned before the wait",
        "memory",
        &[0, 1, 8, 64],
    ),
    ("stack in use during the wait", "memory-held", &[1, 8, 64]),
];

/// Compares the memory of uthread's fibers with that of threads of the system and of other
/// runtimes.
pub(crate) fn study(measuring: &Measuring) -> Result<Study> {
    let own = peers::own("uthread", &[])?;
    let (subjects, programs) = peers::compared(vec![own], &["tokio", "go", "threads"], measuring);
    let panels = PANELS
        .map(|(title, _, kib)| Panel::new(title, "KiB of stack", Point::numbers(kib), metrics()));
    let plan = plan("memory", Vec::new(), subjects, panels.to_vec());
    let quiet_wait = measuring.quiet_wait();
    let measure = move |cell: Cell| {
        let program = programs[cell.subject].as_ref().context("it is missing")?;
        let (_, command, kib) = PANELS[cell.panel];
        let window = Window::open(None, quiet_wait)?;
        let figures = peak(program, command, kib[cell.point])?;
        let usage = window.close()?;
        Ok(Taken { figures, usage })
    };
    Ok(Study::new(plan, SECONDS_EACH, measure))
}

fn metrics() -> Vec<Metric> {
    let each = |name: &str| Metric::new(name, "B each", Better::Less);
    vec![
        Metric::new("before", "MiB", Better::Less),
        each("resident").drawn(),
        each("resident after 3 s").drawn(),
        each("virtual").drawn(),
        each("kernel"),
        each("resident left").drawn(),
        each("virtual left").drawn(),
    ]
}

/// Runs a program through its peak. Returns the figures in the order of [`metrics`].
fn peak(program: &Program, command: &str, kib: u32) -> Result<Vec<f64>> {
    let count = match program.name.as_str() {
        "threads" => THREADS,
        _ => TASKS,
    };
    let mut run = Run::start(program, &[command, &count.to_string(), &kib.to_string()])?;
    run.reach("before")?;
    let before = run.read()?;
    run.proceed()?;
    run.reach("peak")?;
    let peak = run.read()?;
    thread::sleep(REST);
    let waited = run.read()?;
    run.proceed()?;
    run.reach("ended")?;
    thread::sleep(REST);
    let after = run.read()?;
    run.finish()?;
    Ok(figures(&[before, peak, waited, after], count))
}

/// Memory of a program at a stage.
#[derive(Clone, Copy)]
struct Reading {
    memory: Memory,
    virtual_bytes: u64,
}

/// Returns the figures of the readings before, at the peak, at its end and after it.
fn figures([before, peak, waited, after]: &[Reading; 4], count: u32) -> Vec<f64> {
    let growth = |now: &Reading| {
        let [resident, kernel, ..] = now.memory.since(&before.memory, count);
        let grown = now.virtual_bytes as f64 - before.virtual_bytes as f64;
        (resident, kernel, grown / f64::from(count))
    };
    let (at_peak, at_end, left) = (growth(peak), growth(waited), growth(after));
    vec![
        before.memory.rss as f64 / MIB,
        at_peak.0,
        at_end.0,
        at_peak.2,
        at_peak.1,
        left.0,
        left.2,
    ]
}

/// A program that waits at each stage. It proceeds to its end when it is dropped, as its standard
/// input ends.
struct Run {
    child: Child,
    to: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Run {
    fn start(program: &Program, words: &[&str]) -> Result<Run> {
        let mut command = pinned(&allowed_cpus()?, &program.path);
        command
            .args(program.prefix)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = command.spawn().context("run the program")?;
        let to = child.stdin.take().context("its stdin is not a pipe")?;
        let from = child.stdout.take().context("its stdout is not a pipe")?;
        let lines = BufReader::new(from).lines();
        Ok(Run { child, to, lines })
    }

    /// Waits until the program has reached this stage.
    fn reach(&mut self, stage: &str) -> Result<()> {
        let line = self.lines.next();
        let line = line.with_context(|| format!("it ended before the stage {stage:?}"))??;
        ensure!(line == stage, "it is at {line:?} instead of {stage:?}");
        Ok(())
    }

    fn read(&self) -> Result<Reading> {
        let pid = self.child.id();
        let process = Process::new(i32::try_from(pid)?)?;
        Ok(Reading {
            memory: Memory::read(pid)?,
            virtual_bytes: process.stat()?.vsize,
        })
    }

    fn proceed(&mut self) -> Result<()> {
        self.to.write_all(b"\n").context("write to the program")
    }

    fn finish(mut self) -> Result<()> {
        drop(self.to);
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Returns the shell as the program to run, with the arguments that make it run `script`.
    fn program(script: &str) -> (Program, Vec<String>) {
        let shell = Program {
            name: "shell".to_owned(),
            path: Path::new("sh").to_owned(),
            prefix: &[],
            version: None,
        };
        (shell, vec!["-c".to_owned(), script.to_owned()])
    }

    fn start(script: &str) -> Run {
        let (shell, words) = program(script);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Run::start(&shell, &words).unwrap()
    }

    #[test]
    fn a_program_is_read_while_it_waits_at_a_stage() {
        let mut run = start("echo before; read line; echo peak; read line");
        run.reach("before").unwrap();
        let reading = run.read().unwrap();
        assert!(reading.virtual_bytes > reading.memory.rss && reading.memory.rss > 0);
        run.proceed().unwrap();
        run.reach("peak").unwrap();
        assert!(
            run.child.try_wait().unwrap().is_none(),
            "the program ended while it waits"
        );
        run.proceed().unwrap();
        run.finish().unwrap();
    }

    #[test]
    fn a_program_that_fails_or_skips_a_stage_fails_the_measurement() {
        let error = start("echo peak").reach("before").unwrap_err().to_string();
        assert_eq!(error, "it is at \"peak\" instead of \"before\"");
        let error = start("exit 0").reach("before").unwrap_err().to_string();
        assert_eq!(error, "it ended before the stage \"before\"");
        let error = start("exit 3").finish().unwrap_err().to_string();
        assert_eq!(error, "exit status: 3");
    }

    #[test]
    fn figures_are_growth_for_each_task() {
        let reading = |rss: u64, virtual_bytes: u64| {
            let mut memory = Memory::default();
            memory.rss = rss;
            Reading {
                memory,
                virtual_bytes,
            }
        };
        let readings = [
            reading(1 << 20, 5_000),
            reading((1 << 20) + 3_000, 14_000),
            reading((1 << 20) + 2_000, 14_000),
            reading((1 << 20) - 1_000, 9_000),
        ];
        let figures = figures(&readings, 1_000);
        assert_eq!(figures, [1.0, 3.0, 2.0, 9.0, 0.0, -1.0, 4.0]);
        assert_eq!(figures.len(), metrics().len());
    }
}
