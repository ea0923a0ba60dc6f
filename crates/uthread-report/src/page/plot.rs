//! A plot as a drawing: lines, or single points.

use maud::Markup;
use plotters::prelude::*;

use super::axis::Axis;
use super::looks::{Look, Looks};
use super::picture::{Axes, Chart, Drawn, Line, Names, Picture, SMALL, WHOLE, draw_line};
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
    let axes = axes(plot, &curves);
    let mut each = Vec::new();
    if plot.is_scatter && curves.len() > 1 {
        for curve in &curves {
            let alone = Picture {
                size: SMALL,
                axes: axes.clone(),
                lines: vec![line(plot, *curve)],
                names: Names::Nowhere,
            };
            each.push((curve.0.name.clone(), alone.draw()));
        }
    }
    let all = Picture {
        size: WHOLE,
        axes,
        lines: curves.iter().map(|curve| line(plot, *curve)).collect(),
        // The points of a set have no end.
        names: if plot.is_scatter {
            Names::Listed
        } else {
            Names::AtEnds
        },
    };
    let all = all.draw();
    Some(Plots { all, each })
}

fn axes(plot: &Plot, curves: &[(&Curve, Look)]) -> Axes {
    let points = || curves.iter().flat_map(|(curve, _)| &curve.points);
    let xs: Vec<f64> = points().map(|&(x, _)| x).collect();
    let ys: Vec<f64> = points().map(|&(_, y)| y).collect();
    Axes {
        x: Axis::of_values(&xs, plot.x.is_log),
        y: Axis::of_values(&ys, plot.y.is_log),
        below: words(&plot.x),
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
            let style = look.colour().filled();
            let draw_points = |chart: &mut Chart<'_>, points: &[(f64, f64)]| -> Drawn {
                let circles = points.iter().map(|&point| Circle::new(point, POINT, style));
                chart.draw_series(circles)?;
                Ok(())
            };
            if plot.is_scatter {
                return draw_points(chart, points);
            }
            for unbroken in points.split(|(_, y)| y.is_nan()) {
                match unbroken {
                    [] => {}
                    [_] => draw_points(chart, unbroken)?,
                    _ => draw_line(chart, look, unbroken.iter().copied())?,
                }
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
