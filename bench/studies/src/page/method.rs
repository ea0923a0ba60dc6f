//! How the figures came about, in words for who doubts them.

use crate::measure::quiet::{OTHERS_SHARE_MAX, QUIET_FOR};
use crate::measure::rounds::ATTEMPTS_MAX;
use crate::measure::stats::PAIRS_FOR_A_VERDICT;
use crate::results::{Results, Round, grouped};
use crate::study::FAILURES_MAX;

pub(super) fn draw(results: &Results) -> String {
    let share = OTHERS_SHARE_MAX * 100.0;
    let quiet = QUIET_FOR.as_millis();
    let again = ATTEMPTS_MAX - 1;
    format!(
        "{}<ul>\n\
         <li><b>In quiet.</b> A measurement begins when other processes have used under {share:.0} % of a CPU for {quiet} ms, \
         or right after one that nobody disturbed. If they, or the hypervisor, used more while it ran, it is taken again, at most \
         {again} times; what stays disturbed is counted in the tables.</li>\n\
         <li><b>In turn.</b> Each round measures every subject once, and each starts one subject further, so that what drifts \
         reaches all alike. By default there are 7 rounds.</li>\n\
         <li><b>In pairs.</b> A figure is the median of its rounds; the whiskers in the charts reach from the least to the most. A ratio \
         is the median of the ratios within the rounds, in brackets its 95 % interval by bootstrap. Where that spans 1 there is <em>no \
         difference</em>; with fewer than {PAIRS_FOR_A_VERDICT} pairs there are <em>too few rounds to tell</em>.</li>\n\
         <li><b>CPU per operation</b> is that of the server's whole tree of processes and threads, with the kernel's threads that work \
         for it. It tells more than the rate where the load, and not the server, is what limits; where the load itself \
         was saturated, that is said.</li>\n\
         <li><b>Latency</b> of an open loop counts from the time at which a message was due to be sent, also where it could not be sent \
         then. That of a closed loop looks better than users would find it: a server that stalls is asked less.</li>\n\
         <li><b>Targets</b>: <em>no worse</em> is met unless the whole interval lies on the wrong side of the bound, <em>at least</em>, \
         <em>at most</em> and <em>under</em> when the median reaches it. A target holds at each of its points, and the worst one \
         is shown: the drawing has the bound in its middle, the wrong side shaded, and reaches from two thirds to one and a half of it.</li>\n\
         <li><b>Gaps.</b> What could not be measured is not drawn: a line ends, a bar is missing, and the table has the \
         reason. Who failed in {FAILURES_MAX} rounds at a point is not tried there again.</li>\n</ul>\n",
        counts(results)
    )
}

/// How much was measured, and how much of it is in doubt.
fn counts(results: &Results) -> String {
    let panels = results.studies.iter().flat_map(|study| &study.panels);
    let cells: Vec<&Vec<Round>> = panels
        .flat_map(|panel| panel.rounds.iter().flatten())
        .filter(|cell| !cell.is_empty())
        .collect();
    let rounds = || cells.iter().map(|cell| cell.len());
    let (Some(least), Some(most)) = (rounds().min(), rounds().max()) else {
        return "<p>Nothing has been measured.</p>".to_owned();
    };
    let count = |is_one: fn(&Round) -> bool| {
        let all = cells.iter().flat_map(|cell| cell.iter());
        grouped(all.filter(|round| is_one(round)).count() as f64)
    };
    let range = if least == most {
        format!("{most}")
    } else {
        format!("{least} to {most}")
    };
    format!(
        "<p>{} measurements in {range} rounds; {} were disturbed by other processes, {} failed.</p>\n",
        count(|_| true),
        count(Round::is_disturbed),
        count(|round| matches!(round, Round::Cannot(_)))
    )
}
