//! A plot as a drawing: lines, or single points.

use maud::Markup;
use plotters::prelude::*;

use super::axis::Axis;
use super::looks::Looks;
use super::picture::{Line, Names, Picture, WHOLE};
use crate::plot::{Plot, Scale};

/// Radius of a point, of which a plot has thousands.
const POINT: i32 = 1;

/// Draws a plot, or returns `None` if it has no points.
pub(super) fn draw(plot: &Plot, looks: &Looks) -> Option<Markup> {
    let drawn = plot.curves.iter().enumerate();
    let drawn: Vec<_> = drawn
        .filter(|(_, curve)| !curve.points.is_empty())
        .collect();
    drawn.first()?;
    let points = || drawn.iter().flat_map(|(_, curve)| &curve.points);
    let xs: Vec<f64> = points().map(|&(x, _)| x).collect();
    let ys: Vec<f64> = points().map(|&(_, y)| y).collect();
    let lines = drawn.iter().map(|&(index, curve)| {
        let look = looks.of_curve(&curve.name, index);
        let points = &curve.points;
        Line {
            name: curve.name.clone(),
            look: Some(look),
            title: curve.name.clone(),
            end: points[points.len() - 1],
            draw: Box::new(move |chart| {
                let points = points.iter().copied();
                if plot.is_scatter {
                    let style = look.colour().filled();
                    chart.draw_series(points.map(|point| Circle::new(point, POINT, style)))?;
                } else if let Some((dash, gap)) = look.dashes() {
                    chart.draw_series(DashedLineSeries::new(points, dash, gap, look.line()))?;
                } else {
                    chart.draw_series(LineSeries::new(points, look.line()))?;
                }
                Ok(())
            }),
        }
    });
    let picture = Picture {
        size: WHOLE,
        x: Axis::of_values(&xs, plot.x.is_log),
        y: Axis::of_values(&ys, plot.y.is_log),
        below: words(&plot.x),
        lines: lines.collect(),
        // The points of a set have no end.
        names: match plot.is_scatter {
            true => Names::Listed,
            false => Names::AtEnds,
        },
    };
    Some(picture.draw())
}

/// Returns the name of an axis in words.
pub(super) fn words(scale: &Scale) -> String {
    let logarithmic = if scale.is_log { ", logarithmic" } else { "" };
    format!("{}{logarithmic}", scale.name)
}
