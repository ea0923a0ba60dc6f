//! Finds text in the files of directory trees: ripgrep's options, matchers and output, on
//! user-level threads.
//!
//! [`run`] does what `uthread search` does. Matching, ignore rules, file types and printing are
//! ripgrep's own crates. Walking, opening, reading and scheduling are done here, on fibers: readers
//! take directories and files from a common queue, and each waits for its own file only. The README
//! has the structure.

mod options;
mod plan;

mod run;
mod search;

mod interrupt;
mod order;
mod progress;
mod reader;

mod readers;
mod task;

mod contents;
mod descriptors;
mod directory;
mod entries;
mod filter;
mod idleness;
mod parts;
mod queue;

mod output;
mod page;
mod printer;
mod program;

use std::io::{IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use uthread::runtime::{Builder, Runtime};

pub use options::Options;
use output::Output;
use plan::Plan;
pub use run::Outcome;
use search::Search;

/// Searches as the options say, and prints to stdout and stderr.
///
/// # Errors
///
/// The options are wrong, the workers cannot start, or too few descriptors are left to search. What
/// happens later is reported while the search goes on.
///
/// ```
/// use clap::Parser;
/// use uthread_search::{Options, Outcome, run};
///
/// #[derive(Parser)]
/// struct CommandLine {
///     #[command(flatten)]
///     options: Options,
/// }
///
/// let search = |arguments: &[&str]| run(&CommandLine::parse_from(arguments).options);
/// assert_eq!(search(&["search", "--quiet", "user-level threads", "src"])?, Outcome::Found);
/// assert!(search(&["search", "(", "src"]).is_err());
/// # Ok::<(), anyhow::Error>(())
/// ```
pub fn run(options: &Options) -> anyhow::Result<Outcome> {
    run_on(options, |builder| {
        builder.build().context("cannot start the workers")
    })
}

/// Searches like [`run`] on the runtime that `start` returns. Never drops it: a process that has
/// searched ends, and ends sooner if it does not wait for its workers. Raises the limit of open
/// files of the process as far as that is allowed.
///
/// # Errors
///
/// The errors of [`run`] and of `start`.
///
/// ```
/// use clap::Parser;
/// use uthread::Driver;
/// use uthread_search::{Options, Outcome, run_on};
///
/// # #[derive(Parser)]
/// # struct CommandLine {
/// #     #[command(flatten)]
/// #     options: Options,
/// # }
/// let line = CommandLine::parse_from(["search", "--quiet", "user-level threads", "src"]);
/// let found = run_on(&line.options, |builder| Ok(builder.driver(Driver::Epoll).build()?))?;
/// assert_eq!(found, Outcome::Found);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub fn run_on(
    options: &Options,
    start: impl FnOnce(Builder) -> anyhow::Result<Runtime>,
) -> anyhow::Result<Outcome> {
    if options.pattern.pcre2_version {
        std::io::stdout().write_all(b"PCRE2 is not available in uthread search.\n")?;
        return Ok(Outcome::NothingFound);
    }
    if options.selection.type_list {
        return print_types(options);
    }
    let plan = Plan::new(options)?;
    let limit = descriptors::raise_limit();
    let output = Arc::new(Output::new(&plan.print));
    let has_terminal = plan.print.to_terminal || std::io::stderr().is_terminal();
    interrupt::catch(Arc::clone(&output), has_terminal).context("cannot catch signals")?;
    let available = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let workers = descriptors::workers(limit, plan.workers.unwrap_or_else(available));
    // A search computes for longer than a server may.
    let builder = Runtime::builder().workers(workers).stall_threshold(None);
    let runtime = ManuallyDrop::new(start(builder)?);
    let search = || Ok(run::run(&Search::new(&plan, workers, limit, &output)?));
    let outcome = runtime.run(search);
    while output.is_interrupted() {
        // Until the signal ends the process.
        thread::park();
    }
    outcome
}

fn print_types(options: &Options) -> anyhow::Result<Outcome> {
    let types = plan::types(options)?;
    let mut text = String::new();
    for definition in types.definitions() {
        text += &format!("{}: {}\n", definition.name(), definition.globs().join(", "));
    }
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Outcome::Found)
}
