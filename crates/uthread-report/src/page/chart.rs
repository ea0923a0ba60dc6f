//! One metric of a panel: its figures, the ratios to the first subject, and each subject beside the
//! first; lines where the points are numbers, else bars.
//!
//! A linear axis of figures begins at zero. A missing figure leaves a gap.

use maud::{Markup, html};
use plotters::prelude::*;

use super::axis::{Axis, short};
use super::looks::{DIM, Look, Looks, hex};
use super::picture::{Axes, Chart, Drawn, Line, Names, Picture, SMALL, WHOLE, draw_line};
use crate::measure::stats::{Ratio, Summary};
use crate::results::{Limit, Panel, Point, Subject, grouped, significant};

/// Maximum number of lines in one chart; beyond it, small charts show each beside the first.
const LINES_MAX: usize = 6;

/// A subject's name, look and figures, one for each point.
struct Series<'a> {
    name: &'a str,
    look: Look,
    figures: Vec<Option<Summary>>,
}

impl Series<'_> {
    fn known(&self) -> impl DoubleEndedIterator<Item = &Summary> {
        self.figures.iter().flatten()
    }
}

/// A figure for each point, that is no subject's: a bound, or the first subject's ratio to itself.
struct Rule {
    name: String,
    figures: Vec<f64>,
}

/// The drawings of a metric.
pub(super) struct Charts {
    /// The figures.
    pub(super) figures: Markup,
    /// The ratios to the first subject, if there are others.
    pub(super) ratios: Option<Markup>,
    /// A small chart for each subject beside the first one, if there are many.
    pub(super) each: Vec<(String, Markup)>,
}

/// Draws a metric, or returns `None` where there is no figure at all.
pub(super) fn draw(
    panel: &Panel,
    metric: usize,
    subjects: &[Subject],
    looks: &Looks,
) -> Option<Charts> {
    let present = (0..subjects.len()).filter(|index| panel.takes_part(*index));
    let present: Vec<usize> = present.collect();
    let figures = series(panel, subjects, looks, &present, |point, index| {
        panel.summary(point, index, metric)
    });
    figures.iter().find_map(|series| series.known().next())?;
    let Some(values) = values(panel).filter(|values| values.len() > 1) else {
        return Some(Charts {
            figures: bars(panel, &figures),
            ratios: None,
            each: Vec::new(),
        });
    };
    let limits = panel.limits.iter().filter(|limit| limit.metric == metric);
    let limits: Vec<Rule> = limits.map(Rule::from).collect();
    let others: Vec<usize> = present.into_iter().filter(|&index| index > 0).collect();
    let ratios = series(panel, subjects, looks, &others, |point, index| {
        panel.ratio(point, metric, (index, 0)).map(Summary::from)
    });
    let one = [Rule {
        name: format!("{} = 1", subjects[0].name),
        figures: vec![1.0; values.len()],
    }];
    let has_ratios = ratios.iter().any(|series| series.known().next().is_some());
    Some(Charts {
        figures: picture(panel, &figures, &limits, &values, Names::AtEnds).draw(),
        ratios: has_ratios.then(|| picture(panel, &ratios, &one, &values, Names::AtEnds).draw()),
        each: match figures.len() {
            ..=LINES_MAX => Vec::new(),
            _ => each(panel, &figures, &values),
        },
    })
}

/// Draws the first metric of a panel by percentile. The names are below, as the labels need the
/// width.
pub(super) fn draw_percentiles(
    panel: &Panel,
    subjects: &[Subject],
    looks: &Looks,
) -> Option<Markup> {
    let present = (0..subjects.len()).filter(|index| panel.takes_part(*index));
    let present: Vec<usize> = present.collect();
    let figures = series(panel, subjects, looks, &present, |point, index| {
        panel.summary(point, index, 0)
    });
    let picture = picture(panel, &figures, &[], &values(panel)?, Names::Listed).draw();
    Some(picture)
}

/// Returns the series of these subjects; `figure`: that of a point and a subject.
fn series<'a>(
    panel: &Panel,
    subjects: &'a [Subject],
    looks: &Looks,
    of: &[usize],
    figure: impl Fn(usize, usize) -> Option<Summary>,
) -> Vec<Series<'a>> {
    let series = of.iter().map(|&index| Series {
        name: &subjects[index].name,
        look: looks.of_subject(&subjects[index].name),
        figures: (0..panel.points.len())
            .map(|point| figure(point, index))
            .collect(),
    });
    series.collect()
}

/// Returns the positions of the points, or `None` if they are names.
fn values(panel: &Panel) -> Option<Vec<f64>> {
    panel.points.iter().map(|point| point.value).collect()
}

/// Draws each series beside the first one, all on the same axes.
fn each(panel: &Panel, series: &[Series<'_>], values: &[f64]) -> Vec<(String, Markup)> {
    let others = series[1..].iter();
    let known = others.filter(|series| series.known().next().is_some());
    let axes = axes(panel, series, &[], values);
    let drawn = known.map(|other| {
        let pair = [other, &series[0]];
        let lines = pair.into_iter().filter_map(|one| line(panel, one, values));
        let small = Picture {
            size: SMALL,
            axes: axes.clone(),
            lines: lines.collect(),
            names: Names::Nowhere,
        };
        (other.name.to_owned(), small.draw())
    });
    drawn.collect()
}

fn medians(series: &[Series<'_>]) -> Vec<f64> {
    let known = series.iter().flat_map(Series::known);
    known.map(|summary| summary.median).collect()
}

fn ends(series: &[Series<'_>]) -> Vec<f64> {
    let known = series.iter().flat_map(Series::known);
    known
        .flat_map(|summary| [summary.min, summary.max])
        .collect()
}

/// Returns axes with room for all figures.
fn axes(panel: &Panel, series: &[Series<'_>], rules: &[Rule], values: &[f64]) -> Axes {
    let x = Axis::of_points(values);
    let scale = if x.is_log { ", logarithmic" } else { "" };
    let mut all = ends(series);
    all.extend(rules.iter().flat_map(|rule| &rule.figures));
    Axes {
        below: format!("{}{scale}", panel.axis),
        x: x.labelled(panel.points.iter().map(tick_label).collect()),
        y: Axis::of_figures(&medians(series), &all),
    }
}

/// Returns the words at the tick of a point: its label, which is shortened if it is its number.
fn tick_label(point: &Point) -> String {
    let number = point.value.filter(|value| point.label == grouped(*value));
    number.map_or_else(|| point.label.clone(), short)
}

fn picture<'a>(
    panel: &Panel,
    series: &'a [Series<'a>],
    rules: &'a [Rule],
    values: &'a [f64],
    names: Names,
) -> Picture<'a> {
    let lines = series
        .iter()
        .filter_map(|series| line(panel, series, values));
    let mut lines: Vec<Line<'a>> = lines.collect();
    // Ours are drawn above the others.
    lines.sort_by_key(|line| !line.look.is_some_and(|look| look.is_ours));
    lines.extend(rules.iter().map(|rule| rule.line(values)));
    Picture {
        size: WHOLE,
        axes: axes(panel, series, rules, values),
        lines,
        names,
    }
}

impl From<&Limit> for Rule {
    fn from(limit: &Limit) -> Rule {
        Rule {
            name: limit.name.clone(),
            figures: limit.figures.clone(),
        }
    }
}

impl Rule {
    fn line<'a>(&'a self, values: &'a [f64]) -> Line<'a> {
        let places = || values.iter().copied().zip(self.figures.iter().copied());
        Line {
            name: self.name.clone(),
            look: None,
            title: self.name.clone(),
            end: places().next_back().unwrap_or_default(),
            draw: Box::new(move |chart| {
                let style = DIM.stroke_width(1);
                chart.draw_series(DashedLineSeries::new(places(), 2, 3, style))?;
                Ok(())
            }),
        }
    }
}

/// The median of the ratios, with the ends of their interval.
impl From<Ratio> for Summary {
    fn from(ratio: Ratio) -> Summary {
        Summary {
            median: ratio.median,
            min: ratio.low,
            max: ratio.high,
        }
    }
}

/// Returns the line of a subject with its whiskers; `None` without a figure. Its name is marked if
/// it ends before the last point.
fn line<'a>(panel: &Panel, series: &'a Series<'a>, values: &'a [f64]) -> Option<Line<'a>> {
    let places = values.iter().copied().zip(&series.figures);
    let (at, last) = places
        .filter_map(|(at, figure)| Some((at, figure.as_ref()?)))
        .next_back()?;
    let mark = match series.figures.last() {
        Some(None) => " \u{2020}",
        _ => "",
    };
    let figures = series.figures.iter().enumerate();
    let figures: Vec<String> = figures
        .filter_map(|(point, figure)| {
            let median = significant(figure.as_ref()?.median);
            Some(format!("{}: {median}", panel.place(point)))
        })
        .collect();
    Some(Line {
        name: format!("{}{mark}", series.name),
        look: Some(series.look),
        title: format!("{}\n{}", series.name, figures.join("\n")),
        end: (at, last.median),
        draw: Box::new(move |chart| draw_series(chart, series, values)),
    })
}

fn draw_series(
    chart: &mut Chart<'_>,
    Series { look, figures, .. }: &Series<'_>,
    values: &[f64],
) -> Drawn {
    let places: Vec<_> = values.iter().zip(figures).collect();
    for unbroken in places.split(|(_, figure)| figure.is_none()) {
        let known = unbroken
            .iter()
            .filter_map(|&(at, figure)| Some((*at, (*figure)?)));
        let line: Vec<(f64, f64)> = known
            .clone()
            .map(|(at, figure)| (at, figure.median))
            .collect();
        let whisker = look.colour().mix(0.45).stroke_width(1);
        for (at, Summary { median, min, max }) in known {
            let ends = vec![(at, min), (at, max)];
            chart.draw_series([PathElement::new(ends, whisker)])?;
            chart.draw_series([Circle::new((at, median), 2, look.colour().filled())])?;
        }
        draw_line(chart, *look, line)?;
    }
    Ok(())
}

/// Lays out a bar for each subject at each point, with its figure as a number.
fn bars(panel: &Panel, series: &[Series<'_>]) -> Markup {
    let most = medians(series)
        .into_iter()
        .fold(f64::MIN_POSITIVE, f64::max);
    let bar = |series: &Series<'_>, median: f64| {
        let (colour, share) = (hex(series.look.colour()), median / most * 100.0);
        html! { i data-fill=(colour) style=(format!("width:{share:.1}%;background:{colour}")) {} }
    };
    html! {
        div .bars {
            @for point in 0..panel.points.len() {
                b { (panel.place(point)) }
                @for series in series {
                    @let class = series.look.class();
                    span class=(if series.look.is_ours { format!("ours {class}") } else { class.clone() }) { (series.name) }
                    @match series.figures[point] {
                        Some(Summary { median, .. }) => {
                            div class=(class) { (bar(series, median)) }
                            span class=(format!("n {class}")) { (significant(median)) }
                        },
                        None => span class=(format!("d {class}")) { "no figure" },
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_that_is_no_plain_number_keeps_its_label() {
        let point = |label: &str, value| Point {
            label: label.to_owned(),
            value: Some(value),
        };
        let points = vec![point("5 %", 5.0), Point::number(15e3), point("99.9", 3e4)];
        let values: Vec<f64> = points.iter().filter_map(|point| point.value).collect();
        let axes = axes(&Panel::new("", "", points, Vec::new()), &[], &[], &values);
        let labels = [5.0, 15e3, 3e4, 7.0].map(|tick| axes.x.label(tick));
        assert_eq!(labels, ["5 %", "15k", "99.9", "7"]);
    }
}
