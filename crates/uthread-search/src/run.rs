//! Runs a search: queues what the user names, and prints the totals at the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use grep_printer::Stats;
use serde_json::json;
use uthread::thread::Scope;

use crate::plan::{Mode, Totals};
use crate::search::Search;
use crate::task::{Target, Task};
use crate::{order, progress, reader};

/// How a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Something was found.
    Found,
    /// Nothing was found.
    NothingFound,
    /// Something could not be read or written, or the options are wrong.
    Failed,
}

/// Searches and prints what is found.
pub(crate) fn run(search: &Search<'_>) -> Outcome {
    if search.plan.matcher.is_some() {
        uthread::scope(|scope| {
            let _progress = progress::show(scope, search);
            uthread::scope(|readers| begin(search, readers));
        });
        let has_searched = search.files.load(Ordering::Relaxed) > 0;
        if search.plan.is_path_implicit && search.plan.mode != Mode::Path && !has_searched {
            search.output.fail(
                "no file was searched: ignore files, globs, types or other options exclude all",
            );
        }
    }
    if !search.output.is_interrupted() && search.plan.matcher.is_some() {
        print_totals(search);
    }
    match search.has_match.load(Ordering::Relaxed) {
        _ if search.output.has_failed() && !search.is_answered() => Outcome::Failed,
        // A reader that closes stdout has seen enough, which is no failure.
        found if found || search.output.is_closed() => Outcome::Found,
        _ => Outcome::NothingFound,
    }
}

/// Queues what the user names.
fn begin<'scope>(search: &'scope Search<'_>, scope: &'scope Scope<'scope, '_>) {
    match search.plan.order {
        Some(wanted) => order::walk(search, wanted, |task| reader::add_task(search, scope, task)),
        None => {
            let task = |root| Task::new(Target::Named(Arc::clone(root)), None);
            let (endless, others): (Vec<_>, Vec<_>) =
                search.roots.iter().partition(|root| root.is_endless);
            for root in endless {
                reader::add_task(search, scope, task(root));
            }
            // The newest task is taken first.
            let tasks = others.into_iter().rev().map(task).collect();
            reader::add(search, scope, Vec::new(), tasks);
        }
    }
    search.queue.leave();
}

fn print_totals(search: &Search<'_>) {
    let totals = search.totals();
    let text = match search.plan.print.totals {
        Totals::None => return,
        Totals::Text => text_of(&totals, search.start),
        Totals::Json => json_of(&totals, search.start),
    };
    search.output.print_as_is(text.as_bytes());
}

/// Returns the totals in ripgrep's text form.
fn text_of(totals: &Stats, start: Instant) -> String {
    format!(
        "\n{} matches\n{} matched lines\n{} files contained matches\n{} files searched\n{} bytes printed\n\
         {} bytes searched\n{:.6} seconds spent searching\n{:.6} seconds total\n",
        totals.matches(),
        totals.matched_lines(),
        totals.searches_with_match(),
        totals.searches(),
        totals.bytes_printed(),
        totals.bytes_searched(),
        totals.elapsed().as_secs_f64(),
        start.elapsed().as_secs_f64(),
    )
}

/// Returns the totals in ripgrep's JSON form, which ends the lines of the results.
fn json_of(totals: &Stats, start: Instant) -> String {
    let elapsed = start.elapsed();
    let summary = json!({
        "type": "summary",
        "data": {
            "elapsed_total": {
                "secs": elapsed.as_secs(),
                "nanos": elapsed.subsec_nanos(),
                "human": format!("{:.6}s", elapsed.as_secs_f64()),
            },
            "stats": totals,
        },
    });
    format!("{summary}\n")
}
