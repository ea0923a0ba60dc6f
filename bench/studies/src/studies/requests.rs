//! One request to the kernel by each technique: what it costs, and how often it enters the kernel.
//!
//! Every figure comes from a process of its own; `bench/peers/README.md` describes the techniques.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Window;
use uthread_report::program::output;
use uthread_report::results::{self, Better, Metric, Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use super::programs::numbers;
use crate::alone::Measuring;
use crate::measure::calls::{self, Switches};
use crate::peers::{self, Program};

/// Our subjects, by name and number of fibers. The others are compared with the first.
const OURS: [(&str, &str); 2] = [("uthread", "32"), ("uthread alone", "1")];
/// The other subjects, by name and command.
const TECHNIQUES: [(&str, &str); 6] = [
    ("blocking", "blocking"),
    ("epoll", "epoll"),
    ("POSIX AIO", "posix-aio"),
    ("Linux AIO", "linux-aio"),
    ("io_uring", "ring"),
    ("io_uring batched", "ring-batched"),
];

/// The cheapest technique takes a fifth of a second for so many, the others some seconds.
const REQUESTS: u32 = 1_000_000;
/// Requests of POSIX AIO, which cost twenty times as much.
const REQUESTS_OF_THREADS: u32 = 50_000;
/// Requests of a run in which calls are counted, which is slower.
const COUNTED: u32 = 20_000;
/// Mean of the techniques, with the wait for a quiet machine.
const SECONDS_EACH: f64 = 1.5;

pub(crate) fn study(measuring: &Measuring) -> Result<Study> {
    let own = peers::own("uthread", &["--driver", "uring", "requests"])?;
    let (peer, program) = peers::find("requests");
    let ours = OURS.map(|(name, fibers)| (Subject::ours(name), Some(technique(&own, fibers))));
    let others = TECHNIQUES.map(|(name, command)| {
        let subject = Subject::peer(name, None, peer.missing.clone());
        let program = program.as_ref();
        (subject, program.map(|program| technique(program, command)))
    });
    let (subjects, techniques): (_, Vec<_>) = ours.into_iter().chain(others).unzip();
    let quiet_wait = measuring.quiet_wait();
    let measure = move |cell: Cell| {
        let technique = techniques[cell.subject].as_ref();
        let technique = technique.context("it is missing")?;
        let window = Window::open(None, quiet_wait)?;
        let text = output(&mut technique.start(technique.requests()))?;
        let usage = window.close()?;
        let mut figures = costs(&text)?;
        figures.extend(match cell.round {
            0 => technique.count()?,
            _ => [f64::NAN; 2],
        });
        Ok(Taken { figures, usage })
    };
    Ok(Study::new(plan(subjects), SECONDS_EACH, measure))
}

/// A program, and its argument for the technique.
struct Technique {
    program: Program,
    command: String,
}

fn technique(program: &Program, command: &str) -> Technique {
    Technique {
        program: program.clone(),
        command: command.to_owned(),
    }
}

fn plan(subjects: Vec<Subject>) -> results::Study {
    let each = |name: &str, unit: &str| Metric::new(name, unit, Better::Less).drawn();
    let metrics = vec![
        each("time", "ns"),
        each("CPU", "ns"),
        each("system calls", "per request"),
        each("switches", "per request"),
    ];
    let points = vec![Point::name("8 bytes of an eventfd")];
    let panels = vec![Panel::new("", "read", points, metrics)];
    super::plan("requests", Vec::new(), subjects, panels)
}

impl Technique {
    fn requests(&self) -> u32 {
        match self.command.as_str() {
            "posix-aio" => REQUESTS_OF_THREADS,
            _ => REQUESTS,
        }
    }

    fn start(&self, requests: u32) -> Command {
        let mut command = Command::new(&self.program.path);
        command
            .args(self.program.prefix)
            .args([&self.command, &requests.to_string()]);
        command
    }

    /// Counts the system calls and switches of a request between the two lines that the program
    /// waits for.
    fn count(&self) -> Result<[f64; 2]> {
        let mut command = self.start(COUNTED);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = command.spawn().context("run the program")?;
        let (to, from) = (program.stdin.take(), program.stdout.take());
        let (mut to, from) = (to.context("a pipe")?, from.context("a pipe")?);
        let mut lines = BufReader::new(from).lines();
        lines.next().context("it is not ready")??;
        let before = Switches::read(program.id())?;
        let (cost, calls) = calls::count(program.id(), || {
            to.write_all(b"\n")?;
            Ok(lines.next().context("it has ended")??)
        })?;
        let switches = Switches::read(program.id())?.since(&before);
        costs(&cost)?;
        drop(to);
        let status = program.wait()?;
        ensure!(status.success(), "{}: {status}", self.command);
        let each = |count: u64| count as f64 / f64::from(COUNTED);
        Ok([calls.map_or(f64::NAN, each), each(switches)])
    }
}

/// Parses time and CPU time of a request from the last line.
fn costs(text: &str) -> Result<Vec<f64>> {
    let costs = numbers(text)?;
    ensure!(costs.len() == 2, "it printed {text:?}");
    Ok(costs)
}
