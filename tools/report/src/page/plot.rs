//! A plot as a drawing: lines, or single points.

use maud::Markup;
use plotters::prelude::*;

use super::axis::Axis;
use super::looks::{Look, Looks};
use super::picture::{Line, Names, Picture, SMALL, WHOLE};
use crate::plot::{Curve, Plot, Scale};

/// Radius of a point, of which a plot has thousands.
const POINT: i32 = 1;

/// The drawings of a plot.
pub(super) struct Plots {
    /// All curves.
    pub(super) all: Markup,
    /// Each set of points by itself, as points of several sets lie on one another.
    pub(super) each: Vec<(String, Markup)>,
}

/// Draws a plot, or returns `None` if it has no points.
pub(super) fn draw(plot: &Plot, looks: &Looks) -> Option<Plots> {
    let curves = plot.curves.iter().enumerate();
    let curves: Vec<(&Curve, Look)> = curves
        .filter(|(_, curve)| !curve.points.is_empty())
        .map(|(index, curve)| (curve, looks.of_curve(&curve.name, index)))
        .collect();
    curves.first()?;
    let mut each = Vec::new();
    if plot.is_scatter && curves.len() > 1 {
        for curve in &curves {
            let alone = Picture {
                size: SMALL,
                names: Names::Nowhere,
                lines: vec![line(plot, *curve)],
                ..picture(plot, &curves)
            };
            each.push((curve.0.name.clone(), alone.draw()));
        }
    }
    let all = picture(plot, &curves).draw();
    Some(Plots { all, each })
}

fn picture<'a>(plot: &'a Plot, curves: &[(&'a Curve, Look)]) -> Picture<'a> {
    let points = || curves.iter().flat_map(|(curve, _)| &curve.points);
    let xs: Vec<f64> = points().map(|&(x, _)| x).collect();
    let ys: Vec<f64> = points().map(|&(_, y)| y).collect();
    Picture {
        size: WHOLE,
        x: Axis::of_values(&xs, plot.x.is_log),
        y: Axis::of_values(&ys, plot.y.is_log),
        below: words(&plot.x),
        lines: curves.iter().map(|curve| line(plot, *curve)).collect(),
        // The points of a set have no end.
        names: match plot.is_scatter {
            true => Names::Listed,
            false => Names::AtEnds,
        },
    }
}

fn line<'a>(plot: &'a Plot, (curve, look): (&'a Curve, Look)) -> Line<'a> {
    let points = &curve.points;
    Line {
        name: curve.name.clone(),
        look: Some(look),
        title: curve.name.clone(),
        end: points.last().copied().unwrap_or_default(),
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
}

/// Returns the name of an axis in words.
pub(super) fn words(scale: &Scale) -> String {
    let logarithmic = if scale.is_log { ", logarithmic" } else { "" };
    format!("{}{logarithmic}", scale.name)
}
