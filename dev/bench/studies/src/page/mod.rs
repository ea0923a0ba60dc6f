//! The page of the benchmarks: targets and method before the studies.

mod board;

use maud::{PreEscaped, html};
use uthread_report::page::{Page, Section, counts, draw as draw_page};
use uthread_report::results::Results;

use crate::targets::Verdict;

const TITLE: &str = "Where uthread stands";
const LEAD: &str = "User-level threads for Rust beside other runtimes, servers and the bare kernel: the same work, on one machine, in \
                    interleaved rounds. What could not be measured is named, not guessed.";
/// How the figures came about, for readers who doubt them.
const METHOD: &str = include_str!("method.html");

pub(crate) fn draw(results: &Results, verdicts: &[Verdict]) -> String {
    let section = |id, title, body| Section { id, title, body };
    let method = html! { (counts(results)) (PreEscaped(METHOD)) };
    let page = Page {
        title: TITLE,
        lead: LEAD,
        command: "uthread-bench",
        sections: vec![
            section("targets", "Targets", board::draw(verdicts)),
            section("method", "Method", method),
        ],
    };
    draw_page(&page, results)
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;
    use uthread_report::measure::quiet::{OTHERS_SHARE_MAX, QUIET_FOR};
    use uthread_report::measure::stats::PAIRS_FOR_A_VERDICT;
    use uthread_report::study::FAILURES_MAX;

    use super::*;
    use crate::sample::committed;
    use crate::targets;

    #[test]
    fn the_text_has_the_numbers_of_the_program() {
        let share = format!("under {:.0} %", OTHERS_SHARE_MAX * 100.0);
        let quiet = format!("for {} ms", QUIET_FOR.as_millis());
        let pairs = format!("fewer than {PAIRS_FOR_A_VERDICT} pairs");
        let failures = format!("failed in {FAILURES_MAX} rounds");
        for words in [share, quiet, pairs, failures] {
            assert!(METHOD.contains(&words), "{words}");
        }
    }

    #[test]
    fn targets_and_method_are_drawn() {
        let mut results = committed();
        // Ratios take time.
        let panels = results
            .studies
            .iter_mut()
            .flat_map(|study| &mut study.panels);
        let cells = panels.flat_map(|panel| panel.rounds.iter_mut().flatten());
        cells.for_each(|cell| cell.truncate(1));
        let verdicts = targets::judge(&results);
        let page = draw(&results, &verdicts);
        let body = page.strip_prefix("<!doctype html>\n").unwrap();
        let document = Document::parse(body).unwrap();
        let section = |id| {
            let mut nodes = document.descendants();
            nodes.find(|node| node.attribute("id") == Some(id)).unwrap()
        };
        let of_class = |class| {
            let nodes = section("targets").descendants();
            nodes
                .filter(|node| node.attribute("class") == Some(class))
                .count()
        };
        assert_eq!(of_class("target"), verdicts.len());
        assert!(
            section("method")
                .descendants()
                .any(|node| node.has_tag_name("li"))
        );
    }
}
