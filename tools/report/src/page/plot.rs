//! A plot as a drawing: lines, or single points.

use maud::{Markup, PreEscaped};
use plotters::prelude::*;

use super::axis::Axis;
use super::chart::{Drawn, Look, Looks, Name, WIDTH, legend, legend_width, mesh, size};
use crate::plot::{Curve, Plot, Scale};

/// Radius of a point, of which a plot has thousands.
const POINT: i32 = 1;

/// Draws a plot, or returns `None` if it has no points.
pub(super) fn draw(plot: &Plot, looks: &Looks) -> Option<Markup> {
    plot.curves.iter().find(|curve| !curve.points.is_empty())?;
    let curves = plot.curves.iter().enumerate();
    let curves: Vec<(&Curve, Look)> = curves
        .map(|(index, curve)| (curve, looks.of_curve(&curve.name, index)))
        .collect();
    let mut svg = String::new();
    let drawn = draw_curves(&mut svg, plot, &curves);
    drawn.expect("drawing into a string does not fail");
    Some(PreEscaped(svg))
}

fn draw_curves(svg: &mut String, plot: &Plot, curves: &[(&Curve, Look)]) -> Drawn {
    let name = |(curve, look): &(&Curve, Look)| (0.0, curve.name.clone(), Some(*look));
    let names: Vec<Name> = curves.iter().map(name).collect();
    let points = || curves.iter().flat_map(|(curve, _)| curve.points.iter());
    let xs: Vec<f64> = points().map(|&(x, _)| x).collect();
    let ys: Vec<f64> = points().map(|&(_, y)| y).collect();
    let (x, y) = (
        Axis::of_values(&xs, plot.x.is_log),
        Axis::of_values(&ys, plot.y.is_log),
    );
    let root = SVGBackend::with_string(svg, size(&names)).into_drawing_area();
    let (left, right) = root.split_horizontally(WIDTH - legend_width(&names));
    let mut chart = mesh(&left, x, y, words(&plot.x))?;
    for (curve, look) in curves {
        let points = curve.points.iter().copied();
        if plot.is_scatter {
            let style = look.colour().filled();
            chart.draw_series(points.map(|point| Circle::new(point, POINT, style)))?;
        } else if let Some((dash, gap)) = look.dashes() {
            chart.draw_series(DashedLineSeries::new(points, dash, gap, look.line()))?;
        } else {
            chart.draw_series(LineSeries::new(points, look.line()))?;
        }
    }
    legend(&right, &names)?;
    root.present()?;
    Ok(())
}

/// Returns the name of an axis in words.
pub(super) fn words(scale: &Scale) -> String {
    let logarithmic = if scale.is_log { ", logarithmic" } else { "" };
    format!("{}{logarithmic}", scale.name)
}
