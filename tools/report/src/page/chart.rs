//! One metric of a panel as a drawing: lines where the points are numbers, else bars.
//!
//! A linear axis of figures begins at zero. A missing figure leaves a gap.

use std::collections::HashMap;
use std::error::Error;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::{Axis, short};
use crate::measure::stats::Summary;
use crate::results::{Limit, Panel, Results, Subject, significant};

pub(super) type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;
pub(super) type Drawn = Result<(), Box<dyn Error>>;

/// Size in units that are pixels on a phone.
pub(super) const WIDTH: i32 = 400;
const PLOT_HEIGHT: i32 = 230;
/// Width of a wide letter.
const LETTER: i32 = 6;
const FONT: (&str, i32) = ("sans-serif", 11);
/// Height of a line of text.
const ROW: i32 = 14;
/// Length of the sample of a line before its name.
const SAMPLE: i32 = 24;

/// Colours of the light theme with those of the dark one. The SVG has the light ones, and the style sheet replaces them.
const COLOURS: [(RGBColor, &str); 12] = [
    (RGBColor(0x1b, 0x1d, 0x20), "#e6e4de"),
    (RGBColor(0x66, 0x6b, 0x73), "#9aa0a8"),
    (RGBColor(0xec, 0xea, 0xe4), "#24272d"),
    (RGBColor(0x0b, 0x57, 0xd0), "#7cb2ff"),
    (RGBColor(0xc2, 0x57, 0x0c), "#f0883e"),
    (RGBColor(0x00, 0x87, 0x5f), "#3fc99a"),
    (RGBColor(0xa8, 0x32, 0x79), "#ea86c0"),
    (RGBColor(0x8a, 0x6d, 0x00), "#d9b326"),
    (RGBColor(0x5b, 0x4a, 0x9c), "#b3a3f0"),
    (RGBColor(0x7a, 0x52, 0x30), "#c79a6f"),
    (RGBColor(0x51, 0x56, 0x5e), "#a9afb8"),
    (RGBColor(0x9a, 0x92, 0x00), "#cfc74a"),
];
const INK: usize = 0;
const DIM: usize = 1;
const GRID: usize = 2;
const OURS: usize = 3;
const PEERS: usize = 4;

/// Returns the style sheet's part for the dark theme.
pub(super) fn dark_style() -> String {
    let rule = |(RGBColor(r, g, b), dark): (RGBColor, &str)| {
        let light = format!("#{r:02X}{g:02X}{b:02X}");
        format!(
            "figure [stroke=\"{light}\"]{{stroke:{dark}}}figure [fill=\"{light}\"]{{fill:{dark}}}"
        )
    };
    let rules: String = COLOURS.map(rule).concat();
    format!("@media (prefers-color-scheme:dark){{@media screen{{{rules}}}}}")
}

/// The look of a subject on the whole page: ours have one colour and different dashes, peers colours of their own.
#[derive(Clone, Copy)]
pub(super) struct Look {
    is_ours: bool,
    index: usize,
}

pub(super) struct Looks(HashMap<String, Look>);

impl Looks {
    pub(super) fn of(results: &Results) -> Looks {
        let mut looks = HashMap::new();
        let mut counts = [0, 0];
        for subject in results.studies.iter().flat_map(|study| &study.subjects) {
            looks.entry(subject.name.clone()).or_insert_with(|| {
                let count = &mut counts[usize::from(subject.is_ours)];
                *count += 1;
                Look {
                    is_ours: subject.is_ours,
                    index: *count - 1,
                }
            });
        }
        Looks(looks)
    }

    /// Returns the look of a curve: that of the subject of this name, or else of the peer with this index.
    pub(super) fn of_curve(&self, name: &str, index: usize) -> Look {
        let other = Look {
            is_ours: false,
            index,
        };
        self.0.get(name).copied().unwrap_or(other)
    }
}

impl Look {
    pub(super) fn colour(self) -> RGBColor {
        let peer = PEERS + self.index % (COLOURS.len() - PEERS);
        COLOURS[if self.is_ours { OURS } else { peer }].0
    }

    pub(super) fn line(self) -> ShapeStyle {
        let width = match (self.is_ours, self.index) {
            (true, 0) => 3,
            (true, _) => 2,
            _ => 1,
        };
        self.colour().stroke_width(width)
    }

    /// Returns the lengths of dashes and gaps.
    pub(super) fn dashes(self) -> Option<(u32, u32)> {
        let dashes = [(6, 3), (2, 3), (9, 4), (4, 2)];
        (self.is_ours && self.index > 0).then(|| dashes[(self.index - 1) % dashes.len()])
    }
}

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

/// Draws a metric, or returns `None` where there is no figure at all.
pub(super) fn draw(
    panel: &Panel,
    metric: usize,
    subjects: &[Subject],
    looks: &Looks,
) -> Option<Markup> {
    let mut series = Vec::new();
    for (index, subject) in subjects.iter().enumerate() {
        let points = 0..panel.points.len();
        let figures = points
            .map(|point| panel.summary(point, index, metric))
            .collect();
        series.push(Series {
            name: &subject.name,
            look: looks.0[&subject.name],
            figures,
        });
    }
    let has_part = (0..subjects.len()).map(|index| panel.takes_part(index));
    let mut has_part: Vec<bool> = has_part.rev().collect();
    series.retain(|_| has_part.pop() == Some(true));
    series.iter().find_map(|series| series.known().next())?;
    let values: Option<Vec<f64>> = panel.points.iter().map(|point| point.value).collect();
    let Some(values) = values.filter(|values| values.len() > 1) else {
        return Some(bars(panel, &series));
    };
    let mut svg = String::new();
    let drawn = lines(&mut svg, panel, metric, &series, &values);
    drawn.expect("drawing into a string does not fail");
    Some(PreEscaped(svg))
}

fn text(colour: usize, hpos: HPos) -> TextStyle<'static> {
    let style = TextStyle::from(FONT.into_font()).color(&COLOURS[colour].0);
    style.pos(Pos::new(hpos, VPos::Center))
}

fn width(text: &str) -> i32 {
    text.chars().count() as i32 * LETTER
}

/// A line's last figure, by which names are ordered, its name and its look; a limit has none.
pub(super) type Name = (f64, String, Option<Look>);

fn lines(
    svg: &mut String,
    panel: &Panel,
    metric: usize,
    series: &[Series],
    values: &[f64],
) -> Drawn {
    let limits = panel.limits.iter().filter(|limit| limit.metric == metric);
    let limits: Vec<&Limit> = limits.collect();
    let known = || series.iter().flat_map(Series::known);
    let medians: Vec<f64> = known().map(|summary| summary.median).collect();
    let ends = known().flat_map(|summary| [summary.min, summary.max]);
    let all: Vec<f64> = ends
        .chain(limits.iter().flat_map(|limit| limit.figures.clone()))
        .collect();
    let mut names: Vec<Name> = series.iter().filter_map(name_of).collect();
    names.extend(
        limits
            .iter()
            .map(|limit| (limit.figures[values.len() - 1], limit.name.clone(), None)),
    );
    names.sort_by(|a, b| b.0.total_cmp(&a.0));
    let x = Axis::of_points(values);
    let scale = if x.is_log { ", logarithmic" } else { "" };
    let below = format!("{}{scale}", panel.axis);
    let root = SVGBackend::with_string(svg, size(&names)).into_drawing_area();
    let (left, right) = root.split_horizontally(WIDTH - legend_width(&names));
    let mut chart = mesh(&left, x, Axis::of_figures(&medians, &all), below)?;
    for limit in limits {
        let places = values.iter().copied().zip(limit.figures.clone());
        let style = COLOURS[DIM].0.stroke_width(1);
        chart.draw_series(DashedLineSeries::new(places, 2, 3, style))?;
    }
    draw_series(&mut chart, series, values)?;
    legend(&right, &names)?;
    root.present()?;
    Ok(())
}

/// Returns the size of a drawing with these names beside it.
pub(super) fn size(names: &[Name]) -> (u32, u32) {
    let height = PLOT_HEIGHT.max(names.len() as i32 * ROW + 40);
    (WIDTH as u32, height as u32)
}

pub(super) fn legend_width(names: &[Name]) -> i32 {
    let widest = names.iter().map(|(_, name, _)| width(name)).max();
    widest.unwrap_or(0) + SAMPLE + 8
}

/// Draws both axes; `below` is the name of the horizontal one.
pub(super) fn mesh<'a>(
    area: &Drawing<'a>,
    x: Axis,
    y: Axis,
    below: String,
) -> Result<Chart<'a>, Box<dyn Error>> {
    let mut chart = ChartBuilder::on(area)
        .margin(6)
        .x_label_area_size(34)
        .y_label_area_size(42)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(COLOURS[GRID].0)
        .axis_style(COLOURS[DIM].0)
        .label_style(text(DIM, HPos::Center))
        .x_desc(below)
        .x_label_formatter(&|at| short(*at))
        .y_label_formatter(&|at| short(*at))
        .draw()?;
    Ok(chart)
}

/// Draws the lines with their whiskers: ours above the peers, and the first above all.
fn draw_series(chart: &mut Chart<'_>, series: &[Series], values: &[f64]) -> Drawn {
    let (ours, peers): (Vec<_>, Vec<_>) = series.iter().partition(|series| series.look.is_ours);
    for Series { figures, look, .. } in peers.into_iter().rev().chain(ours.into_iter().rev()) {
        let places: Vec<_> = values.iter().zip(figures).collect();
        for unbroken in places.split(|(_, figure)| figure.is_none()) {
            let known = unbroken
                .iter()
                .filter_map(|&(at, figure)| Some((*at, (*figure)?)));
            let line: Vec<(f64, f64)> = known
                .clone()
                .map(|(at, figure)| (at, figure.median))
                .collect();
            match look.dashes() {
                Some((dash, gap)) => {
                    chart.draw_series(DashedLineSeries::new(line, dash, gap, look.line()))?
                }
                None => chart.draw_series(LineSeries::new(line, look.line()))?,
            };
            let bar = |(at, Summary { median, min, max })| {
                ErrorBar::new_vertical(at, min, median, max, look.colour().filled(), 5)
            };
            chart.draw_series(known.map(bar))?;
        }
    }
    Ok(())
}

/// Writes the names, each with a sample of its line.
pub(super) fn legend(area: &Drawing<'_>, names: &[Name]) -> Drawn {
    for (name, row) in names.iter().zip(0..) {
        legend_line(area, name, 12 + row * ROW)?;
    }
    Ok(())
}

fn legend_line(area: &Drawing<'_>, (_, name, look): &Name, y: i32) -> Drawn {
    let (style, colour) = match look {
        Some(look) => (look.line(), if look.is_ours { OURS } else { INK }),
        None => (COLOURS[DIM].0.stroke_width(1), DIM),
    };
    let sample = vec![(0, y), (SAMPLE - 6, y)];
    match look.map_or(Some((2, 3)), Look::dashes) {
        Some((dash, gap)) => area.draw(&DashedPathElement::new(sample, dash, gap, style))?,
        None => area.draw(&PathElement::new(sample, style))?,
    }
    area.draw(&Text::new(
        name.clone(),
        (SAMPLE, y),
        text(colour, HPos::Left),
    ))?;
    Ok(())
}

/// Returns the last figure and the name, marked if the line ends before the last point.
fn name_of(series: &Series) -> Option<Name> {
    let last = series.known().next_back()?;
    let ends_early = series.figures.last() == Some(&None);
    let mark = if ends_early { " \u{2020}" } else { "" };
    Some((
        last.median,
        format!("{}{mark}", series.name),
        Some(series.look),
    ))
}

/// Lays out a bar for each subject at each point, with its figure as a number.
fn bars(panel: &Panel, series: &[Series]) -> Markup {
    let most = series
        .iter()
        .flat_map(Series::known)
        .map(|figure| figure.median);
    let most = most.fold(f64::MIN_POSITIVE, f64::max);
    let bar = |series: &Series, median: f64| {
        let (RGBColor(r, g, b), share) = (series.look.colour(), median / most * 100.0);
        format!("width:{share:.1}%;background:rgb({r} {g} {b})")
    };
    html! {
        div .bars {
            @for point in 0..panel.points.len() {
                b { (panel.place(point)) }
                @for series in series {
                    span .ours[series.look.is_ours] { (series.name) }
                    @match series.figures[point] {
                        Some(Summary { median, .. }) => {
                            div { div style=(bar(series, median)) {} }
                            span .n { (significant(median)) }
                        },
                        None => span .d { "no figure" },
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Study;

    #[test]
    fn a_subject_looks_the_same_in_all_studies() {
        let study = |subjects| Study::new(["", "", ""], vec![], subjects, vec![]);
        let [a, b] = ["a", "b"].map(|name| Subject::peer(name, None, None));
        let [one, two] = ["one", "two"].map(Subject::ours);
        let first = study(vec![one.clone(), a.clone()]);
        let results = Results {
            studies: vec![first, study(vec![b, a, two, one])],
            ..Results::default()
        };
        let looks = Looks::of(&results);
        let drawn = |name| (looks.0[name].colour(), looks.0[name].dashes());
        assert_eq!(drawn("one"), (COLOURS[OURS].0, None));
        assert_eq!(drawn("two"), (COLOURS[OURS].0, Some((6, 3))));
        assert_eq!(drawn("a").0, COLOURS[PEERS].0);
        assert_eq!(drawn("b").0, COLOURS[PEERS + 1].0);
    }
}
