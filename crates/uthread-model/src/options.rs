//! The options of `uthread model`, and what it prints and writes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use uthread_report::file::write_whole;
use uthread_report::results::Facts;
use uthread_report::{Unavailable, check_said, facts, machine, say};

use crate::load::Load;
use crate::mode::Mode;
use crate::plan::Plan;
use crate::reality::Reality;
use crate::scenario::{CONCURRENCY_MAX, Fibers, Scenario, Threads};
use crate::simulated::Simulated;
use crate::simulation::simulate;
use crate::values::parse_duration;
use crate::{json, page, stories, table};

/// Scenarios to simulate, and where the results go.
#[derive(Clone, Debug, clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub struct Options {
    #[command(subcommand)]
    command: Option<Command>,

    /// Ready-made scenarios, and files that end with .toml
    #[arg(required = true, value_name = "SCENARIO")]
    scenarios: Vec<PathBuf>,

    #[command(flatten)]
    reality: Reality,

    #[command(flatten)]
    output: Output,

    #[command(flatten, next_help_heading = "Options of sync, async and plan")]
    load: Load,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Simulate a service with a pool of threads
    Sync {
        /// Number of threads
        #[arg(short, long, default_value_t = 50, value_name = "N",
            value_parser = clap::value_parser!(u64).range(1..=CONCURRENCY_MAX))]
        threads: u64,
        /// Time for which each request has the task queue of the pool alone [default: 0s]
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        queue_cost: Option<Duration>,
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        reality: Reality,
        #[command(flatten)]
        output: Output,
    },
    /// Simulate a service with a fiber for each request
    Async {
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        reality: Reality,
        #[command(flatten)]
        output: Output,
    },
    /// Search for the fewest threads whose p99 is within a bound
    Plan {
        /// Bound on the 99th percentile of latencies, such as 100ms
        #[arg(long, value_name = "TIME", value_parser = parse_duration)]
        p99: Duration,
        /// A ready-made scenario, or a file that ends with .toml, in place of the options of a load
        scenario: Option<PathBuf>,
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        output: Output,
    },
    /// List the ready-made scenarios
    List,
    /// Print a ready-made scenario, to start one of your own from
    Print {
        /// Name of the scenario
        scenario: String,
    },
}

// Without a doc comment, which would replace the description of the subcommands.
#[derive(Clone, Debug, clap::Args)]
struct Output {
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Also write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Simulates the scenarios and runs them for real if the options ask for it; prints the results,
/// and writes JSON and page if the options ask for them.
///
/// # Errors
///
/// [`Unavailable`] if a scenario is unknown or wrong, a file of it cannot be read, or it cannot run
/// for real. Any other error if results cannot be written.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let output = |given: &Output| given.or(&options.output);
    let load = |given: &Load| given.or(&options.load);
    let reality = |given: &Reality| given.or(options.reality);
    match &options.command {
        None => {
            options.check_no_load("a scenario")?;
            let found = options.scenarios.iter().map(|path| {
                let scenario = find(path).map_err(unavailable)?;
                simulated(path.display().to_string(), scenario, options.reality)
            });
            options
                .output
                .write(&found.collect::<anyhow::Result<Vec<_>>>()?)
        }
        Some(Command::Sync {
            threads,
            queue_cost,
            load: given,
            reality: asked,
            output: wanted,
        }) => {
            let load = load(given);
            let mut scenario = load.scenario();
            let mut pool = Threads::new(*threads);
            let mut command = format!("sync --threads {threads} {load}");
            if let Some(cost) = *queue_cost {
                pool.queue_cost = cost;
                command += &format!(" --queue-cost {}", humantime::format_duration(cost));
            }
            scenario.sync = Some(pool);
            output(wanted).write(&[simulated(command, scenario, reality(asked))?])
        }
        Some(Command::Async {
            load: given,
            reality: asked,
            output: wanted,
        }) => {
            let load = load(given);
            let mut scenario = load.scenario();
            scenario.fibers = Some(Fibers::default());
            let command = format!("async {load}");
            output(wanted).write(&[simulated(command, scenario, reality(asked))?])
        }
        Some(Command::Plan {
            p99,
            scenario,
            load: given,
            output: wanted,
        }) => {
            options.check_no_reality("plan")?;
            plan(*p99, scenario.as_deref(), &load(given), &output(wanted))
        }
        Some(Command::List) => {
            options.check_no_load("list")?;
            options.check_no_reality("list")?;
            for (name, scenario) in stories::all() {
                say!("{name:29}  {}", scenario.about);
            }
            Ok(check_said()?)
        }
        Some(Command::Print { scenario }) => {
            options.check_no_load("print")?;
            options.check_no_reality("print")?;
            let text = stories::text(scenario).map_err(unavailable)?;
            say!("{}", text.trim_end());
            Ok(check_said()?)
        }
    }
}

/// Searches for the fewest threads for a scenario, or for a load.
fn plan(p99: Duration, path: Option<&Path>, load: &Load, output: &Output) -> anyhow::Result<()> {
    let (scenario, described) = match path {
        None => (load.scenario(), load.to_string()),
        Some(path) => {
            check_no_load(load, "a scenario")?;
            (find(path).map_err(unavailable)?, path.display().to_string())
        }
    };
    let plan = Plan::new(&scenario, p99).map_err(unavailable)?;
    let bound = humantime::format_duration(p99);
    output.write_plan(&plan, &scenario, &format!("plan --p99 {bound} {described}"))
}

fn find(path: &Path) -> anyhow::Result<Scenario> {
    if path.extension() == Some(OsStr::new("toml")) {
        Scenario::read(path)
    } else {
        stories::find(&path.to_string_lossy())
    }
}

fn simulated(command: String, scenario: Scenario, reality: Reality) -> anyhow::Result<Simulated> {
    let modes = [
        scenario.sync.map(|_| Mode::Sync),
        scenario.fibers.map(|_| Mode::Async),
    ];
    let outcomes = modes
        .into_iter()
        .flatten()
        .map(|mode| simulate(&scenario, mode));
    let outcomes = outcomes
        .collect::<anyhow::Result<Vec<_>>>()
        .map_err(unavailable)?;
    let (real, missing) = reality.run(&scenario, &outcomes).map_err(unavailable)?;
    Ok(Simulated {
        command: format!("{command}{reality}"),
        scenario,
        outcomes,
        real,
        missing,
    })
}

/// Refuses options of a load where there is none.
fn check_no_load(load: &Load, place: &str) -> anyhow::Result<()> {
    match load.first_given() {
        None => Ok(()),
        Some(option) => Err(unavailable(anyhow!(
            "{option} is an option of sync, async and plan, and not of {place}"
        ))),
    }
}

fn unavailable(error: anyhow::Error) -> anyhow::Error {
    Unavailable(format!("{error:#}")).into()
}

impl Options {
    fn check_no_load(&self, place: &str) -> anyhow::Result<()> {
        check_no_load(&self.load, place)
    }

    /// Refuses options of real runs where there is none.
    fn check_no_reality(&self, place: &str) -> anyhow::Result<()> {
        match self.reality.first_given() {
            None => Ok(()),
            Some(option) => Err(unavailable(anyhow!(
                "{option} is an option of sync, async and scenarios, and not of {place}"
            ))),
        }
    }
}

impl Output {
    /// Returns the options, and those of `outer` where these are absent.
    fn or(&self, outer: &Output) -> Output {
        Output {
            json: self.json.clone().or_else(|| outer.json.clone()),
            html: self.html.clone().or_else(|| outer.html.clone()),
        }
    }

    fn write(&self, all: &[Simulated]) -> anyhow::Result<()> {
        for simulated in all {
            say!("{}", table::text(simulated));
        }
        if let Some(path) = &self.json {
            write(path, &(json::text(all)? + "\n"))?;
        }
        if let Some(path) = &self.html {
            let is_real = all.iter().any(|simulated| !simulated.real.is_empty());
            write(path, &page::draw(all, &facts_of_page(is_real)))?;
        }
        Ok(check_said()?)
    }
}

impl Output {
    fn write_plan(&self, plan: &Plan, scenario: &Scenario, command: &str) -> anyhow::Result<()> {
        let title = Some(scenario.name.as_str()).filter(|name| !name.is_empty());
        let title = title.unwrap_or(command);
        say!("{title}\n\n{}\n{}", plan.text(), plan.verdict());
        if let Some(path) = &self.json {
            write(path, &(serde_json::to_string(plan)? + "\n"))?;
        }
        if let Some(path) = &self.html {
            let mut facts = facts_of_page(false);
            facts.push(("seed".to_owned(), scenario.seed.to_string()));
            write(path, &plan.page(title, command, &facts))?;
        }
        Ok(check_said()?)
    }
}

/// Returns date, version and command, and the machine if anything ran on it in real time.
fn facts_of_page(is_real: bool) -> Facts {
    let mut facts = facts::of_today(&facts::of_run(env!("CARGO_PKG_VERSION")));
    if is_real {
        facts.extend(machine::facts());
    }
    facts
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    write_whole(path, text.as_bytes()).with_context(|| format!("write {}", path.display()))
}
