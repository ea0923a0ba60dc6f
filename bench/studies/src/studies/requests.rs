//! One request to the kernel by each technique: EMPER's table of what they cost, and how often they enter the kernel.
//!
//! Every figure is taken by a process of its own; `bench/peers/README.md` tells what each technique does.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::printed::printed;
use crate::measure::calls::{self, Count, Counted};
use crate::measure::quiet::Window;
use crate::measure::rounds::Taken;
use crate::peers::{self, Program};
use crate::results::{self, Better, Metric, Panel, Point, Subject};
use crate::study::{Cell, Measuring, Study};

/// Ours, by name and number of fibers: the first is what the others stand beside.
const OURS: [(&str, &str); 2] = [("uthread", "32"), ("uthread alone", "1")];
/// The others, by name and command.
const TECHNIQUES: [(&str, &str); 6] = [
    ("blocking", "blocking"),
    ("epoll", "epoll"),
    ("POSIX AIO", "posix-aio"),
    ("Linux AIO", "linux-aio"),
    ("io_uring", "ring"),
    ("io_uring batched", "ring-batched"),
];

/// In a second, of the cheapest; the others take some seconds.
const REQUESTS: u32 = 1_000_000;
/// Of POSIX AIO, whose requests cost some twenty times as much.
const REQUESTS_OF_THREADS: u32 = 50_000;
/// Which is slower, and needs fewer: each call is counted.
const COUNTED: u32 = 20_000;
/// The average of the techniques, with the wait for quiet.
const SECONDS_EACH: f64 = 1.5;

pub(crate) fn study(measuring: &Measuring) -> Result<Box<dyn Study>> {
    let own = peers::own("uthread", &["own", "--driver", "uring", "requests"])?;
    let (peer, program) = peers::find("requests").into_parts();
    let ours = OURS.map(|(name, fibers)| (Subject::ours(name), Some(technique(&own, fibers))));
    let others = TECHNIQUES.map(|(name, command)| {
        let subject = Subject::peer(name, None, peer.missing.clone());
        let program = program.as_ref();
        (subject, program.map(|program| technique(program, command)))
    });
    let (subjects, techniques) = ours.into_iter().chain(others).unzip();
    Ok(Box::new(Requests {
        techniques,
        measuring: measuring.clone(),
        plan: plan(subjects),
    }))
}

struct Requests {
    /// `None` for one that is missing.
    techniques: Vec<Option<Technique>>,
    measuring: Measuring,
    plan: results::Study,
}

/// A program, and what chooses the technique.
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
    results::Study {
        name: "requests".to_owned(),
        title: "One request by each technique".to_owned(),
        question: "What does it cost to ask the kernel for something, where the answer is there at once?".to_owned(),
        facts: Vec::new(),
        notes: vec![
            "A request reads an eventfd that always has something, so that no technique waits. A program that only reads such \
             a descriptor is best off with blocking calls: the others are for those that would wait."
                .to_owned(),
            "uthread: each of 32 fibers reads, again and again, and what they ask for in a round reaches the kernel by one \
             call; \"alone\" is one fiber, whose requests have a call each. Batched: 32 requests by a call."
                .to_owned(),
            "POSIX AIO is glibc's, which has a thread do it, by a pread that the eventfd refuses and a read. Calls and switches \
             of the whole process are counted in a run of their own, once."
                .to_owned(),
        ],
        subjects,
        panels: vec![Panel::new("", "read", points, metrics)],
    }
}

impl Study for Requests {
    fn plan(&self) -> &results::Study {
        &self.plan
    }

    fn measure(&mut self, cell: Cell) -> Result<Taken> {
        let technique = self.techniques[cell.subject].as_ref();
        let technique = technique.context("it is missing")?;
        let window = Window::open(None, self.measuring.quiet_wait())?;
        let text = printed(&mut technique.start(technique.requests()))?;
        let usage = window.close()?;
        let mut figures = costs(&text)?.to_vec();
        figures.extend(match cell.round {
            0 => per_request(&technique.count()?),
            _ => [f64::NAN; 2],
        });
        Ok(Taken { figures, usage })
    }

    fn seconds_each(&self) -> f64 {
        SECONDS_EACH
    }
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

/// The last two numbers it printed: time and CPU time of a request.
fn costs(text: &str) -> Result<[f64; 2]> {
    let last = text.lines().next_back().unwrap_or_default();
    let costs: Result<Vec<f64>, _> = last.split_ascii_whitespace().map(str::parse).collect();
    let costs = costs.ok().and_then(|costs| costs.try_into().ok());
    costs.with_context(|| format!("it printed {text:?}"))
}

/// System calls and switches; `NAN` for what was not counted here.
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
