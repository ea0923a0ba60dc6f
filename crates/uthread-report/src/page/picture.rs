//! A drawing of lines: axes, one group for each line, and names beside their ends.
//!
//! Each line is drawn into a group of its own, with its name and figures as the title that a
//! browser shows, so that the style sheet can hide it or the others.

use std::error::Error;
use std::ops::Range;

use maud::{Markup, PreEscaped, html};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::axis::Axis;
use super::looks::{DIM, GRID, INK, Look};

pub(super) type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;
pub(super) type Drawn<T = ()> = Result<T, Box<dyn Error>>;
/// Pixels from the left and from above.
type Pixel = (i32, i32);

/// Four fifths of the size are the height of the text, in units of [`Size`].
const FONT: (&str, i32) = ("sans-serif", 15);
/// Width of a wide letter.
const LETTER: i32 = 7;
/// Height of a line of text.
const ROW: i32 = 17;
/// Length of the sample of a line before its name, and of the way from a line's end to its name.
const SAMPLE: i32 = 22;
const AXIS_BELOW: i32 = 40;
const AXIS_LEFT: i32 = 50;

/// Size in units that are pixels on a phone.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub(super) width: i32,
    pub(super) height: i32,
}

/// A chart with names beside it.
pub(super) const WHOLE: Size = Size {
    width: 420,
    height: 260,
};

/// Size of one of many small charts, with its name above it.
pub(super) const SMALL: Size = Size {
    width: 230,
    height: 150,
};

/// A line, or a set of points.
pub(super) struct Line<'a> {
    pub(super) name: String,
    /// A rule that is no subject has none.
    pub(super) look: Option<Look>,
    /// The words that a browser shows at the line.
    pub(super) title: String,
    /// Draws it.
    pub(super) draw: Box<dyn Fn(&mut Chart<'_>) -> Drawn + 'a>,
    /// The place of its end, beside which its name stands.
    pub(super) end: (f64, f64),
}

/// Both axes, and the name of the horizontal one.
#[derive(Clone)]
pub(super) struct Axes {
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) below: String,
}

/// Axes with lines, of which the first is drawn above all.
pub(super) struct Picture<'a> {
    pub(super) size: Size,
    pub(super) axes: Axes,
    pub(super) lines: Vec<Line<'a>>,
    pub(super) names: Names,
}

/// The place of the names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Each at the end of its line, or as near as the others leave room.
    AtEnds,
    /// In a list below the axes, with samples.
    Listed,
    Nowhere,
}

impl Line<'_> {
    fn class(&self) -> String {
        self.look.map_or_else(String::new, Look::class)
    }
}

impl Picture<'_> {
    pub(super) fn draw(&self) -> Markup {
        let drawn = self.try_draw();
        drawn.expect("drawing into a string does not fail")
    }

    fn try_draw(&self) -> Drawn<Markup> {
        let Size { width, height } = self.size();
        let axes = self.layer(&self.axes.x, |chart| mesh(chart, &self.axes))?;
        let mut groups = Vec::new();
        for (index, line) in self.lines.iter().enumerate().rev() {
            let drawn = self.layer(&self.axis_of(index), &line.draw)?;
            groups.push((line.class(), &line.title, drawn));
        }
        let mut names = Vec::new();
        for (line, row) in self.lines.iter().zip(self.rows()?) {
            let drawn = layer(self.size(), |root| self.draw_name(root, line, row))?;
            names.push((line.class(), drawn));
        }
        Ok(html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) {
                (PreEscaped(axes))
                @for (class, title, drawn) in groups {
                    g class=(format!("line {class}")) { title { (title) } (PreEscaped(drawn)) }
                }
                @for (class, drawn) in names { g class=(class) { (PreEscaped(drawn)) } }
            }
        })
    }

    /// Returns the place of the names, which are below where they would take the room of the lines.
    fn names(&self) -> Names {
        let is_wide = self.names_width() > self.size.width * 2 / 5;
        match self.names {
            Names::AtEnds if is_wide => Names::Listed,
            names => names,
        }
    }

    fn size(&self) -> Size {
        let rows = self.lines.len() as i32 * ROW;
        let height = self.size.height;
        let height = match self.names() {
            Names::Nowhere => height,
            Names::AtEnds => height.max(rows + AXIS_BELOW + 12),
            Names::Listed => height + rows,
        };
        Size {
            height,
            ..self.size
        }
    }

    fn names_width(&self) -> i32 {
        let widest = self.lines.iter().map(|line| line.name.chars().count());
        widest.max().unwrap_or(0) as i32 * LETTER + SAMPLE + 6
    }

    /// Returns the horizontal axis of a line, beside whose whiskers are those of the others. A rule
    /// has none.
    fn axis_of(&self, index: usize) -> Axis {
        let is_subject = |line: &&Line<'_>| line.look.is_some();
        if self.lines[index].look.is_none() {
            return self.axes.x.clone();
        }
        let before = self.lines[..index].iter().filter(is_subject).count();
        let all = self.lines.iter().filter(is_subject).count();
        self.axes.x.of_line(before, all)
    }

    /// Draws something on the axes, and returns it without the drawing around it.
    fn layer(&self, x: &Axis, draw: impl FnOnce(&mut Chart<'_>) -> Drawn) -> Drawn<String> {
        layer(self.size(), |root| draw(&mut self.chart(root, x)?))
    }

    fn chart<'a>(&self, root: &Drawing<'a>, x: &Axis) -> Drawn<Chart<'a>> {
        let Size { width, .. } = self.size;
        let (area, _) = match self.names() {
            Names::Nowhere => root.split_horizontally(width),
            Names::AtEnds => root.split_horizontally(width - self.names_width()),
            Names::Listed => root.split_vertically(self.size.height),
        };
        let chart = ChartBuilder::on(&area)
            .margin(6)
            .x_label_area_size(AXIS_BELOW)
            .y_label_area_size(AXIS_LEFT)
            .build_cartesian_2d(x.clone(), self.axes.y.clone())?;
        Ok(chart)
    }

    /// Returns the rows of the names: in the order of the ends, and none above another.
    fn rows(&self) -> Drawn<Vec<(i32, Pixel)>> {
        let mut ends = Vec::new();
        layer(self.size(), |root| {
            for (index, line) in self.lines.iter().enumerate() {
                let chart = self.chart(root, &self.axis_of(index))?;
                ends.push(chart.backend_coord(&line.end));
            }
            Ok(())
        })?;
        let rows = match self.names() {
            Names::Nowhere => Vec::new(),
            Names::Listed => {
                let first = self.size.height + ROW / 2;
                (0..ends.len() as i32)
                    .map(|row| first + row * ROW)
                    .collect()
            }
            Names::AtEnds => {
                let wanted: Vec<i32> = ends.iter().map(|(_, y)| *y).collect();
                // Not beside the axis below the lines, which the way to a name would cross.
                spread(&wanted, 8..self.size().height - AXIS_BELOW)
            }
        };
        Ok(rows.into_iter().zip(ends).collect())
    }

    fn draw_name(&self, root: &Drawing<'_>, line: &Line<'_>, (row, end): (i32, Pixel)) -> Drawn {
        let left = match self.names() {
            Names::AtEnds => self.size.width - self.names_width(),
            Names::Listed | Names::Nowhere => AXIS_LEFT,
        };
        let (style, colour) = match line.look {
            Some(look) => (look.line(), look.colour()),
            None => (DIM.stroke_width(1), DIM),
        };
        if self.names() == Names::AtEnds {
            let places = [
                (end.0 + 4, end.1),
                (left + 4, row),
                (left + SAMPLE - 4, row),
            ];
            let thin = colour.mix(0.5).stroke_width(1);
            root.draw(&PathElement::new(places, thin))?;
        } else {
            let sample = [(left, row), (left + SAMPLE - 6, row)];
            match line.look.and_then(Look::dashes) {
                Some((dash, gap)) => {
                    root.draw(&DashedPathElement::new(sample, dash, gap, style))?;
                }
                None => root.draw(&PathElement::new(sample, style))?,
            }
        }
        let style = text(
            colour,
            HPos::Left,
            line.look.is_some_and(|look| look.is_ours),
        );
        root.draw(&Text::new(line.name.clone(), (left + SAMPLE, row), style))?;
        Ok(())
    }
}

/// Connects points by the line of a look.
pub(super) fn draw_line(
    chart: &mut Chart<'_>,
    look: Look,
    points: impl IntoIterator<Item = (f64, f64), IntoIter: Clone>,
) -> Drawn {
    let points = points.into_iter();
    match look.dashes() {
        Some((dash, gap)) => {
            chart.draw_series(DashedLineSeries::new(points, dash, gap, look.line()))?
        }
        None => chart.draw_series(LineSeries::new(points, look.line()))?,
    };
    Ok(())
}

/// Draws into a drawing of this size, and returns the elements in it.
fn layer(size: Size, draw: impl FnOnce(&Drawing<'_>) -> Drawn) -> Drawn<String> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, (size.width as u32, size.height as u32));
    let root = root.into_drawing_area();
    draw(&root)?;
    root.present()?;
    drop(root);
    let start = svg.find('>').map_or(0, |end| end + 1);
    let end = svg.rfind("</svg>").unwrap_or(svg.len());
    Ok(svg[start..end].trim().to_owned())
}

fn text(colour: &'static RGBColor, hpos: HPos, is_bold: bool) -> TextStyle<'static> {
    let weight = if is_bold {
        FontStyle::Bold
    } else {
        FontStyle::Normal
    };
    let style = TextStyle::from(FONT.into_font().style(weight)).color(colour);
    style.pos(Pos::new(hpos, VPos::Center))
}

fn mesh(chart: &mut Chart<'_>, axes: &Axes) -> Drawn {
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(DIM)
        .label_style(text(DIM, HPos::Center, false))
        .axis_desc_style(text(INK, HPos::Center, false))
        .x_desc(&axes.below)
        .x_label_formatter(&|at| axes.x.label(*at))
        .y_label_formatter(&|at| axes.y.label(*at))
        .draw()?;
    Ok(())
}

/// Moves places apart to at least a row from each other, within a range that is large enough, as
/// little as their order permits.
fn spread(wanted: &[i32], range: Range<i32>) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&index| wanted[index]);
    let mut rows = vec![0; wanted.len()];
    let mut least = range.start;
    for &index in &order {
        rows[index] = wanted[index].max(least);
        least = rows[index] + ROW;
    }
    let mut most = range.end;
    for &index in order.iter().rev() {
        rows[index] = rows[index].min(most);
        most = rows[index] - ROW;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_apart_and_near_their_lines() {
        assert_eq!(spread(&[50, 100], 0..200), [50, 100]);
        assert_eq!(spread(&[100, 100, 98], 0..200), [115, 132, 98]);
        assert_eq!(spread(&[200, 200, 10], 0..200), [183, 200, 10]);
        assert_eq!(spread(&[], 0..10), [0_i32; 0]);
    }
}
