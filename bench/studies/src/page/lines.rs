//! A line for each subject over the points, with thin whiskers from the least to the most of its rounds.
//!
//! Each line is named at its end. The names are in the order of the ends, moved apart where they would overlap, and
//! have their line's mark before them; the drawing is as high as they need.

use super::chart::{Chart, Series, WIDTH, limit_name, width};
use super::html::escape;
use super::labels;
use super::scale::{Scale, Tick};

/// Above the plot: the title. Below: the points' labels and what they are.
const TOP: f64 = 24.0;
const BOTTOM: f64 = 34.0;
/// A line of text below that.
const REMARK: f64 = 16.0;
const PLOT_HEIGHT_MIN: f64 = 220.0;
/// From one name to the next: a line of text.
const NAME_STEP: f64 = 12.5;
/// From the plot to the names: the sample of the line.
const SAMPLE: f64 = 22.0;
/// A longer name of a limit would leave no room for the plot.
const LIMIT_LETTERS_MAX: usize = 20;
/// So that marks at the ends do not touch the axis.
const INSET: f64 = 8.0;

struct Plot {
    left: f64,
    right: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
}

/// What a line is called at its end.
struct Name {
    class: String,
    text: String,
    sample: String,
    wanted: f64,
}

pub(super) fn draw(chart: &Chart<'_>, values: &[f64]) -> String {
    let drawn = chart
        .series
        .iter()
        .filter(|series| series.figures.iter().any(Option::is_some));
    let drawn: Vec<&Series<'_>> = drawn.collect();
    let plot = Plot::new(chart, &drawn, values);
    let ends_early = drawn
        .iter()
        .any(|series| series.figures.last() == Some(&None));
    let remark = if ends_early { REMARK } else { 0.0 };
    let mut svg = chart.open(plot.bottom + BOTTOM + remark);
    svg.push_str(&plot.axes(chart, values));
    if ends_early {
        svg.push_str(&format!(
            "<text class=\"d\" x=\"0\" y=\"{:.1}\">\u{2020} ends before the last point; the reason is under All figures</text>",
            plot.bottom + BOTTOM + REMARK - 4.0
        ));
    }
    for limit in chart.limits() {
        let places = limit.figures.iter().zip(values);
        let places = places.map(|(&figure, &value)| Some(plot.place(value, figure)));
        let path = path(places);
        svg.push_str(&format!(
            "<path class=\"limit\" d=\"{path}\"><title>{}</title></path>",
            escape(&limit.name)
        ));
    }
    // Ours above the peers, the first above all.
    for series in drawn.iter().rev().filter(|series| !series.subject.is_ours) {
        svg.push_str(&plot.line(chart, series, values));
    }
    for series in drawn.iter().rev().filter(|series| series.subject.is_ours) {
        svg.push_str(&plot.line(chart, series, values));
    }
    svg.push_str(&plot.names(chart, &drawn));
    svg + "</svg>"
}

impl Plot {
    fn new(chart: &Chart<'_>, drawn: &[&Series<'_>], values: &[f64]) -> Plot {
        let names = drawn.iter().map(|series| width(&name_of(series)));
        let limits = chart
            .limits()
            .map(|limit| width(&limit_name(limit, LIMIT_LETTERS_MAX)));
        let widest = names.chain(limits).fold(0.0, f64::max);
        let count = drawn.len() + chart.limits().count();
        let height = PLOT_HEIGHT_MIN.max(count as f64 * NAME_STEP);
        let bottom = TOP + height;
        let y = Scale::of_figures(&chart.medians(), &chart.extremes(), (bottom, TOP));
        let ticks = y.ticks().into_iter().map(|tick| width(&tick.text));
        let left = ticks.fold(0.0, f64::max) + 6.0;
        let right = WIDTH - widest - SAMPLE - 2.0;
        let x = Scale::of_points(values, (left + INSET, right - INSET));
        Plot {
            left,
            right,
            bottom,
            x,
            y,
        }
    }

    fn place(&self, value: f64, figure: f64) -> (f64, f64) {
        (self.x.place(value), self.y.place(figure))
    }

    fn axes(&self, chart: &Chart<'_>, values: &[f64]) -> String {
        let Plot {
            left,
            right,
            bottom,
            ..
        } = *self;
        let mut svg = String::new();
        for Tick { value, text } in self.y.ticks() {
            let y = self.y.place(value);
            svg.push_str(&format!(
                "<path class=\"grid\" d=\"M{left:.1} {y:.1}H{right:.1}\"/>\
                 <text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{text}</text>",
                left - 5.0,
                y + 3.5
            ));
        }
        let labels = chart.panel.points.iter().zip(values);
        let labels: Vec<(f64, &str)> = labels
            .map(|(point, &value)| (self.x.place(value), point.label.as_str()))
            .collect();
        // The ends tell the range, so they have precedence.
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_by_key(|&index| index != 0 && index + 1 != labels.len());
        let widths: Vec<(f64, f64)> = order
            .iter()
            .map(|&index| (labels[index].0, width(labels[index].1)))
            .collect();
        let stays = labels::thin(&widths, 3.0);
        for (&index, stays) in order.iter().zip(stays) {
            let (x, label) = labels[index];
            svg.push_str(&format!(
                "<path class=\"axis\" d=\"M{x:.1} {bottom:.1}v4\"/>"
            ));
            if stays {
                let y = bottom + 14.5;
                svg.push_str(&format!(
                    "<text class=\"x\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                    escape(label)
                ));
            }
        }
        let scale = if self.x.is_log() { ", logarithmic" } else { "" };
        svg + &format!(
            "<path class=\"axis\" d=\"M{left:.1} {bottom:.1}H{right:.1}\"/>\
             <text class=\"x d\" x=\"{:.1}\" y=\"{:.1}\">{}{scale}</text>",
            (left + right) / 2.0,
            bottom + 28.0,
            escape(&chart.panel.axis)
        )
    }

    fn line(&self, chart: &Chart<'_>, series: &Series<'_>, values: &[f64]) -> String {
        let figures = || series.figures.iter().zip(values);
        let line =
            path(figures().map(|(summary, &value)| Some(self.place(value, (*summary)?.median))));
        let (mut whiskers, mut marks) = (String::new(), String::new());
        for ((summary, &value), point) in figures().zip(0..) {
            let Some(summary) = *summary else { continue };
            let (x, y) = self.place(value, summary.median);
            let (low, high) = (self.y.place(summary.min), self.y.place(summary.max));
            whiskers.push_str(&format!("M{x:.1} {low:.1}V{high:.1}"));
            marks.push_str(&format!(
                "<path class=\"m\" d=\"{}\">{}</path>",
                series.look.mark_at(x, y),
                chart.hint(series, point, summary)
            ));
        }
        format!(
            "<g class=\"{}\"><path class=\"w\" d=\"{whiskers}\"/><path class=\"l\"{} d=\"{line}\"/>{marks}</g>",
            series.look.class,
            series.look.dash_attribute()
        )
    }

    fn names(&self, chart: &Chart<'_>, drawn: &[&Series<'_>]) -> String {
        let series = drawn.iter().filter_map(|series| {
            let last = series.figures.iter().flatten().next_back()?;
            let mark = series.look.mark_at(self.right + 10.0, 0.0);
            Some(Name {
                class: series.look.class.clone(),
                text: name_of(series),
                sample: format!(
                    "<path class=\"l\"{} d=\"M{:.1} 0h16\"/><path class=\"m\" d=\"{mark}\"/>",
                    series.look.dash_attribute(),
                    self.right + 2.0
                ),
                wanted: self.y.place(last.median),
            })
        });
        let limits = chart.limits().filter_map(|limit| {
            Some(Name {
                class: "d".to_owned(),
                text: limit_name(limit, LIMIT_LETTERS_MAX),
                sample: format!(
                    "<path class=\"limit\" d=\"M{:.1} 0h16\"/>",
                    self.right + 2.0
                ),
                wanted: self.y.place(*limit.figures.last()?),
            })
        });
        let names: Vec<Name> = series.chain(limits).collect();
        let wanted: Vec<f64> = names.iter().map(|name| name.wanted).collect();
        let room = (TOP + NAME_STEP / 2.0, self.bottom - NAME_STEP / 2.0);
        let places = labels::spread(&wanted, NAME_STEP, room);
        let text = |(name, place): (&Name, f64)| {
            format!(
                "<g class=\"{}\" transform=\"translate(0 {place:.1})\">{}<text class=\"n\" x=\"{:.1}\" y=\"3.5\">{}</text></g>",
                name.class,
                name.sample,
                self.right + SAMPLE,
                escape(&name.text)
            )
        };
        names.iter().zip(places).map(text).collect()
    }
}

/// Whose line ends before the last point is told apart from whose line reaches it.
fn name_of(series: &Series<'_>) -> String {
    match series.figures.last() {
        Some(None) => format!("{} \u{2020}", series.subject.name),
        _ => series.subject.name.clone(),
    }
}

/// The data of a path through the places; what is not there is a gap.
fn path(places: impl Iterator<Item = Option<(f64, f64)>>) -> String {
    let (mut path, mut command) = (String::new(), 'M');
    for place in places {
        match place {
            Some((x, y)) => {
                path.push_str(&format!("{command}{x:.1} {y:.1}"));
                command = 'L';
            }
            None => command = 'M',
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_leaves_a_gap() {
        let check = |places: &[Option<(f64, f64)>], expected: &str| {
            assert_eq!(path(places.iter().copied()), expected);
        };
        check(&[], "");
        check(&[None, Some((1.0, 2.0))], "M1.0 2.0");
        check(
            &[
                Some((1.0, 2.0)),
                Some((3.0, 4.0)),
                None,
                Some((5.0, 0.0)),
                Some((6.0, 0.04)),
            ],
            "M1.0 2.0L3.0 4.0M5.0 0.0L6.0 0.0",
        );
    }
}
