//! How the figures came about, for readers who doubt them: the text of `method.html`, and counts.

use maud::{Markup, PreEscaped, html};

use crate::results::{Results, Round, grouped};

const TEXT: &str = include_str!("method.html");

pub(super) fn draw(results: &Results) -> Markup {
    let panels = results.studies.iter().flat_map(|study| &study.panels);
    let rounds = panels.flat_map(|panel| panel.rounds.iter().flatten().flatten());
    let rounds: Vec<&Round> = rounds.collect();
    let count = |is_one: fn(&Round) -> bool| {
        grouped(rounds.iter().filter(|round| is_one(round)).count() as f64)
    };
    let failed = |round: &Round| matches!(round, Round::Cannot(_));
    html! {
        p {
            @if rounds.is_empty() {
                "Nothing has been measured."
            } @else {
                (count(|_| true)) " measurements; " (count(Round::is_disturbed))
                " were disturbed by other processes, " (count(failed)) " failed."
            }
        }
        (PreEscaped(TEXT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::quiet::{OTHERS_SHARE_MAX, QUIET_FOR};
    use crate::measure::stats::PAIRS_FOR_A_VERDICT;
    use crate::study::FAILURES_MAX;

    #[test]
    fn the_text_has_the_numbers_of_the_program() {
        let share = format!("under {:.0} %", OTHERS_SHARE_MAX * 100.0);
        let quiet = format!("for {} ms", QUIET_FOR.as_millis());
        let pairs = format!("fewer than {PAIRS_FOR_A_VERDICT} pairs");
        let failures = format!("failed in {FAILURES_MAX} rounds");
        for words in [share, quiet, pairs, failures] {
            assert!(TEXT.contains(&words), "{words}");
        }
    }
}
