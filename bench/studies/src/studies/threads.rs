//! More and more fibers, beside threads of the system and other runtimes: what does creating them cost, in time and
//! memory, and what does yielding among them?
//!
//! Every figure is taken by a process of its own; `bench/peers/README.md` tells what each command measures.

use std::hint::black_box;

use anyhow::{Context, Result, ensure};

use super::printed::printed;
use crate::measure::kernel::KernelMemory;
use crate::measure::quiet::Window;
use crate::measure::rounds::Taken;
use crate::peers::{self, Program};
use crate::place::Place;
use crate::results::{self, Better, Metric, Panel, Point, Subject};
use crate::servers::pinned;
use crate::study::{Cell, Measuring, Study};

const PEERS: [&str; 4] = ["tokio", "go", "may", "threads"];
const CREATED: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
const YIELDING: [u32; 4] = [2, 100, 10_000, 1_000_000];
/// Over all fibers: some tenths of a second for the fastest, seconds for threads of the system.
const YIELDS: u32 = 4_000_000;
/// A million fibers of the slowest peer take some seconds.
const SECONDS_EACH: f64 = 2.0;

/// One after the other: some tenths of a second of fibers, and of threads of the system.
const SPAWNS: u32 = 1_000_000;
const SPAWNS_OF_THREADS: u32 = 20_000;

/// Of one that was created: its page of stack, and what the system and the runtime keep of it.
const CREATED_BYTES: u64 = 6 * 1024;

/// Places of the panels.
const CREATE: usize = 0;
const YIELD: usize = 1;

pub(crate) fn study(measuring: &Measuring) -> Result<Box<dyn Study>> {
    let mut subjects = vec![Subject::ours("uthread")];
    let mut programs = vec![Some(peers::own("uthread", &["own"])?)];
    for (subject, program) in peers::asked(&PEERS, measuring) {
        subjects.push(subject);
        programs.push(program);
    }
    Ok(Box::new(Threads {
        programs,
        place: Place::apart_or_shared(1)?,
        measuring: measuring.clone(),
        plan: plan(subjects),
    }))
}

struct Threads {
    /// `None` for one that is missing.
    programs: Vec<Option<Program>>,
    place: Place,
    measuring: Measuring,
    plan: results::Study,
}

fn plan(subjects: Vec<Subject>) -> results::Study {
    let points = |counts: &[u32]| {
        counts
            .iter()
            .map(|&count| Point::number(f64::from(count)))
            .collect()
    };
    let time = Metric::new("time", "ns", Better::Less).drawn();
    let memory = Metric::new("memory", "B", Better::Less).drawn();
    let panels = vec![
        Panel::new(
            "created, all alive at once",
            "fibers",
            points(&CREATED),
            vec![time.clone(), memory],
        ),
        Panel::new(
            "yielding in turn",
            "fibers",
            points(&YIELDING),
            vec![time.clone()],
        ),
        Panel::new(
            "spawned and joined, one after the other",
            "",
            vec![Point::name("one")],
            vec![time],
        ),
    ];
    results::Study {
        name: "threads".to_owned(),
        title: "Creating and yielding".to_owned(),
        question: "So many fibers (tasks, goroutines, threads) are created, and all are alive before the first may end: \
            how long until the last has begun, and by how much has the process grown? And how long is it from one to the \
            next where so many do nothing but yield?"
            .to_owned(),
        facts: Vec::new(),
        notes: vec![
            "Before each creation as much memory is used and given back: no figure has the time in which the host of a \
             virtual machine finds it its first pages."
                .to_owned(),
            "One worker, on one CPU. A fiber has a stack from when it begins, at least one page of it in memory; a task \
             of Tokio has none."
                .to_owned(),
            "Whatever a peer's own limit is, or the machine's, ends its row.".to_owned(),
        ],
        subjects,
        panels,
    }
}

impl Study for Threads {
    fn plan(&self) -> &results::Study {
        &self.plan
    }

    fn measure(&mut self, cell: Cell) -> Result<Taken> {
        let program = self.programs[cell.subject]
            .as_ref()
            .context("it is missing")?;
        let arguments = match cell.panel {
            CREATE => vec!["create".to_owned(), CREATED[cell.point].to_string()],
            YIELD => {
                let fibers = YIELDING[cell.point].to_string();
                vec!["yield".to_owned(), fibers, YIELDS.to_string()]
            }
            _ => {
                let is_system = program.name == "threads";
                let count = if is_system { SPAWNS_OF_THREADS } else { SPAWNS };
                vec!["spawn".to_owned(), count.to_string()]
            }
        };
        if cell.panel == CREATE {
            use_memory(u64::from(CREATED[cell.point]) * CREATED_BYTES)?;
        }
        let window = Window::open(None, self.measuring.quiet_wait())?;
        let mut command = pinned(&self.place.server_cpus, &program.path);
        command.args(program.prefix).args(arguments);
        let figures = numbers(&printed(&mut command)?)?;
        let usage = window.close()?;
        let expected = self.plan.panels[cell.panel].metrics.len();
        ensure!(figures.len() == expected, "it printed {figures:?}");
        Ok(Taken { figures, usage })
    }

    fn seconds_each(&self) -> f64 {
        SECONDS_EACH
    }
}

/// A virtual machine may have to be given, and its host to clear, each page that it never used: several microseconds, which
/// whoever comes first would pay. The free pages used last are used next.
fn use_memory(bytes: u64) -> Result<()> {
    let bytes = bytes.min(KernelMemory::read()?.available / 2);
    drop(black_box(vec![1_u8; usize::try_from(bytes)?]));
    Ok(())
}

fn numbers(text: &str) -> Result<Vec<f64>> {
    let words = text.split_ascii_whitespace();
    let numbers: Result<Vec<f64>, _> = words.map(str::parse).collect();
    numbers.with_context(|| format!("it printed {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_prints_numbers() {
        assert_eq!(numbers("1.5 20\n").unwrap(), [1.5, 20.0]);
        let error = numbers("1.5 many\n").unwrap_err().to_string();
        assert!(error.contains("many"), "{error}");
    }
}
