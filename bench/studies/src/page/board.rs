//! The targets with their verdicts: a line for each, its worst point, and all its points on demand.

use super::html::escape;
use super::table::ratio_text;
use crate::measure::stats::Ratio;
use crate::targets::{Goal, Judged, Outcome, Target, Verdict};

/// Of the drawing of an interval, in pixels.
const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 16.0;
/// The drawing reaches from two thirds of the bound to one and a half of it: a difference of 5 % is seen, and what is
/// beyond ends in an arrow.
const REACH: f64 = 1.5;

pub(super) fn draw(verdicts: &[Verdict]) -> String {
    let count = |outcome| {
        verdicts
            .iter()
            .filter(|verdict| verdict.outcome == outcome)
            .count()
    };
    let counts = [Outcome::Met, Outcome::Missed, Outcome::NotMeasured].map(|outcome| {
        format!(
            "<span class=\"badge {}\">{} {}</span>",
            class(outcome),
            count(outcome),
            outcome.name()
        )
    });
    let rows: String = verdicts.iter().map(row).collect();
    format!(
        "<p class=\"counts\">Of {} targets: {}</p><div class=\"board\">{rows}</div>",
        verdicts.len(),
        counts.join(" ")
    )
}

fn row(verdict: &Verdict) -> String {
    let target = verdict.target;
    let badge = badge(verdict.outcome);
    let what = escape(target.what);
    let Some(worst) = verdict.worst() else {
        return format!(
            "<div class=\"target\"><span class=\"what\">{what}</span>{badge}\
             <span class=\"d worst\">no such figures in these results</span></div>"
        );
    };
    let measured = verdict
        .points
        .iter()
        .filter(|judged| judged.ratio.is_some())
        .count();
    let lead = if measured > 1 { "worst: " } else { "" };
    let summary = format!(
        "<span class=\"what\">{what}</span>{badge}{}<span class=\"worst\">{lead}{}</span>",
        interval(worst.ratio, target.goal),
        figure(worst, target, true)
    );
    if verdict.points.len() == 1 {
        return format!("<div class=\"target\">{summary}</div>");
    }
    let points: String = verdict
        .points
        .iter()
        .map(|judged| point(judged, target))
        .collect();
    format!(
        "<details class=\"target\"><summary>{summary}</summary>\
         <div class=\"scroll\"><table><tbody>{points}</tbody></table></div></details>"
    )
}

fn point(judged: &Judged, target: &Target) -> String {
    format!(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
        escape(&judged.point),
        badge(judged.outcome),
        interval(judged.ratio, target.goal),
        figure(judged, target, false)
    )
}

fn figure(judged: &Judged, target: &Target, with_point: bool) -> String {
    let mut text = match judged.ratio {
        Some(ratio) => format!(
            "{} <b>{}</b> {}",
            escape(&judged.between),
            shown(ratio, target.unit()),
            target.unit()
        ),
        None => String::new(),
    };
    if with_point {
        text.push_str(&format!(" at {}", escape(&judged.point)));
    }
    if !judged.note.is_empty() {
        text.push_str(&format!(
            " <span class=\"d\">{}</span>",
            escape(&judged.note)
        ));
    }
    text
}

/// To the third decimal, as a bound may lie close by; figures with a unit as anywhere.
fn shown(ratio: Ratio, unit: &str) -> String {
    let Ratio {
        median, low, high, ..
    } = ratio;
    match unit {
        "" => format!("{median:.3} [{low:.3}..{high:.3}]"),
        _ => ratio_text(ratio),
    }
}

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Met => "met",
        Outcome::Missed => "missed",
        Outcome::NotMeasured => "unknown",
    }
}

fn badge(outcome: Outcome) -> String {
    format!(
        "<span class=\"badge {}\">{}</span>",
        class(outcome),
        outcome.name()
    )
}

/// The interval beside the bound, on a logarithmic axis; the wrong side is shaded.
fn interval(ratio: Option<Ratio>, goal: Goal) -> String {
    let Some(ratio) = ratio else {
        return "<span class=\"interval\"></span>".to_owned();
    };
    let place = |value: f64| {
        let share = (value / goal.bound()).ln() / REACH.ln();
        (share.clamp(-1.0, 1.0) + 1.0) / 2.0 * (WIDTH - 8.0) + 4.0
    };
    let (middle, half) = (HEIGHT / 2.0, WIDTH / 2.0);
    let wrong = if goal.wants_less() { half } else { 0.0 };
    let arrow = |value: f64| match value / goal.bound() {
        far if far > REACH => format!("M{:.1} {:.1}l4 3l-4 3z", WIDTH - 5.0, middle - 3.0),
        near if near < 1.0 / REACH => format!("M5 {:.1}l-4 3l4 3z", middle - 3.0),
        _ => String::new(),
    };
    format!(
        "<svg class=\"interval\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" aria-hidden=\"true\">\
         <path class=\"wrong\" d=\"M{wrong:.1} 0h{half:.1}v{HEIGHT}h-{half:.1}z\"/><path class=\"bound\" d=\"M{half:.1} 0v{HEIGHT}\"/>\
         <path class=\"range\" d=\"M{:.1} {middle:.1}H{:.1}\"/><path class=\"dot\" d=\"M{:.1} {:.1}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0 -5 0{}{}\"/></svg>",
        place(ratio.low),
        place(ratio.high),
        place(ratio.median) - 2.5,
        middle,
        arrow(ratio.low),
        arrow(ratio.high)
    )
}
