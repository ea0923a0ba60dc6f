//! One request to the kernel by each technique: what it costs, and how often it enters the kernel.
//!
//! Every figure comes from a process of its own; `bench/peers/README.md` describes the techniques.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::programs::{numbers, output};
use crate::measure::Taken;
use crate::measure::calls::{self, Count, Counted};
use crate::measure::quiet::Window;
use crate::peers::{self, Program};
use crate::results::{self, Better, Metric, Panel, Point, Subject};
use crate::study::{Cell, Measuring, Study};

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
    let own = peers::own("uthread", &["own", "--driver", "uring", "requests"])?;
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
            0 => per_request(&technique.count()?),
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
    let notes = [
        "A request reads an eventfd that always has something, so that no technique waits. For such a descriptor alone, blocking \
         calls are best; the other techniques are for programs that would wait.",
        "uthread: 32 fibers read again and again, and the requests of a round reach the kernel by one call; \"alone\" is one \
         fiber, whose requests have a call each. Batched: 32 requests by a call.",
        "POSIX AIO is glibc's, which uses a thread: a pread that the eventfd refuses, and a read. Calls and switches of the \
         whole process are counted once, in a run of their own.",
    ];
    results::Study::new(
        [
            "requests",
            "One request by each technique",
            "What does a request to the kernel cost that can be answered at once?",
        ],
        notes.map(str::to_owned).to_vec(),
        subjects,
        vec![Panel::new("", "read", points, metrics)],
    )
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

    /// Counts the calls between the two lines that the program waits for.
    fn count(&self) -> Result<Counted> {
        let mut program = self
            .start(COUNTED)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("run {}", self.program.path.display()))?;
        let (to, from) = (program.stdin.take(), program.stdout.take());
        let (mut to, from) = (to.context("a pipe")?, from.context("a pipe")?);
        let mut lines = BufReader::new(from).lines();
        lines.next().context("it is not ready")??;
        let (cost, counted) = calls::count(program.id(), || {
            to.write_all(b"\n")?;
            Ok(lines.next().context("it has ended")??)
        })?;
        costs(&cost)?;
        drop(to);
        let status = program.wait()?;
        ensure!(status.success(), "{}: {status}", self.command);
        Ok(counted)
    }
}

/// Parses time and CPU time of a request from the last line.
fn costs(text: &str) -> Result<Vec<f64>> {
    let costs = numbers(text)?;
    ensure!(costs.len() == 2, "it printed {text:?}");
    Ok(costs)
}

/// Returns system calls and switches; `NAN` where they were not counted.
fn per_request(counted: &Counted) -> [f64; 2] {
    let each = |count: u64| count as f64 / f64::from(COUNTED);
    let system_calls = match counted.system_calls {
        Count::Known(count) => each(count),
        Count::Unknown(_) => f64::NAN,
    };
    [system_calls, each(counted.switches)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costs_are_the_two_numbers_of_the_last_line() {
        assert_eq!(costs("ready\n206.0 205.7\n").unwrap(), [206.0, 205.7]);
        for broken in ["", "ready\n", "206.0\n", "1 2 3\n", "1 two\n"] {
            assert!(costs(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn what_was_not_counted_is_no_figure() {
        let counted = |system_calls| Counted {
            system_calls,
            switches: u64::from(COUNTED) / 2,
        };
        let known = counted(Count::Known(3 * u64::from(COUNTED)));
        assert_eq!(per_request(&known), [3.0, 0.5]);
        let [calls, switches] = per_request(&counted(Count::Unknown("no right".to_owned())));
        assert!(calls.is_nan() && switches == 0.5);
    }
}
