//! A bar for each subject at each point, with its figure as a number, in the order given.
//!
//! Where the figures span too much for bars, a mark on a logarithmic axis stands for each: a bar has to begin at zero.

use super::chart::{Chart, LETTER_WIDTH, Series, WIDTH, limit_name, width};
use super::html::escape;
use super::scale::{Scale, Tick};
use crate::results::significant;

const TOP: f64 = 24.0;
const ROW: f64 = 15.0;
const BAR: f64 = 8.0;
/// The point's name above its rows, and the space before it.
const HEADING: f64 = 19.0;
/// Between a row's name, its bar and its number.
const SPACE: f64 = 6.0;
/// What fits beside the point's name.
const LIMIT_LETTERS_MAX: usize = 40;
/// The ticks of a logarithmic axis, below all.
const AXIS: f64 = 18.0;

struct Plot {
    x: Scale,
    left: f64,
    right: f64,
}

pub(super) fn draw(chart: &Chart<'_>) -> String {
    let names = chart
        .series
        .iter()
        .map(|series| width(&series.subject.name));
    let left = names.fold(0.0, f64::max) + SPACE;
    let numbers = chart
        .medians()
        .into_iter()
        .map(|median| width(&significant(median)));
    let right = WIDTH - numbers.fold(0.0, f64::max) - SPACE;
    let x = Scale::of_figures(&chart.medians(), &chart.extremes(), (left, right));
    let plot = Plot { x, left, right };
    let (mut rows, mut y) = (String::new(), TOP);
    for point in 0..chart.panel.points.len() {
        rows.push_str(&format!(
            "<text class=\"h\" x=\"0\" y=\"{:.1}\">{}</text>",
            y + 12.0,
            escape(&chart.panel.place(point))
        ));
        y += HEADING;
        let height = chart.series.len() as f64 * ROW;
        rows.push_str(&plot.limits(chart, point, (y, height)));
        for series in &chart.series {
            rows.push_str(&plot.row(chart, series, point, y + ROW / 2.0));
            y += ROW;
        }
        y += ROW / 2.0;
    }
    let axis = if plot.x.is_log() {
        plot.axis(y)
    } else {
        String::new()
    };
    let height = y + if plot.x.is_log() { AXIS } else { 0.0 };
    chart.open(height) + &axis + &rows + "</svg>"
}

impl Plot {
    fn row(&self, chart: &Chart<'_>, series: &Series<'_>, point: usize, y: f64) -> String {
        let baseline = y + 3.5;
        let text = |class, x: f64, text: &str| {
            format!(
                "<text class=\"{class}\" x=\"{x:.1}\" y=\"{baseline:.1}\">{}</text>",
                escape(text)
            )
        };
        let name = text("b", self.left - SPACE, &series.subject.name);
        let Some(summary) = series.figures[point] else {
            let failures = chart.panel.failures(point, series.index);
            let absence = if failures.is_empty() {
                "not taken"
            } else {
                "cannot"
            };
            return format!(
                "<g class=\"{}\">{name}{}</g>",
                series.look.class,
                text("n d", self.left, absence)
            );
        };
        let (low, high) = (self.x.place(summary.min), self.x.place(summary.max));
        let end = self.x.place(summary.median);
        let shape = if self.x.is_log() {
            series.look.mark_at(end, y)
        } else {
            let zero = self.x.place(0.0);
            format!("M{zero:.1} {:.1}H{end:.1}v{BAR}H{zero:.1}z", y - BAR / 2.0)
        };
        format!(
            "<g class=\"{}\">{name}<path class=\"m\" d=\"{shape}\">{}</path>\
             <path class=\"v\" d=\"M{low:.1} {y:.1}H{high:.1}\"/>{}</g>",
            series.look.class,
            chart.hint(series, point, summary),
            text("n", self.right + SPACE, &significant(summary.median))
        )
    }

    fn limits(&self, chart: &Chart<'_>, point: usize, (y, height): (f64, f64)) -> String {
        let limits = chart.limits().filter_map(|limit| {
            let x = self.x.place(*limit.figures.get(point)?);
            let name = limit_name(limit, LIMIT_LETTERS_MAX);
            // Right-aligned where it would leave the drawing.
            let anchor = if x + name.len() as f64 * LETTER_WIDTH > WIDTH {
                "end"
            } else {
                "start"
            };
            Some(format!(
                "<path class=\"limit\" d=\"M{x:.1} {:.1}v{:.1}\"><title>{}</title></path>\
                 <text class=\"d\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                y - 3.0,
                height + 3.0,
                escape(&limit.name),
                y - 6.0,
                escape(&name)
            ))
        });
        limits.collect()
    }

    fn axis(&self, y: f64) -> String {
        let tick = |Tick { value, text }| {
            let x = self.x.place(value);
            format!(
                "<path class=\"grid\" d=\"M{x:.1} {TOP:.1}V{y:.1}\"/>\
                 <text class=\"x\" x=\"{x:.1}\" y=\"{:.1}\">{text}</text>",
                y + 12.0
            )
        };
        self.x.ticks().into_iter().map(tick).collect()
    }
}
