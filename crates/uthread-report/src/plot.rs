//! Drawings of single points as data: distributions, and the order of events.

use serde::{Deserialize, Serialize};

/// A drawing of points that are no figures of a panel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Its heading.
    pub title: String,
    /// The horizontal axis.
    pub x: Scale,
    /// The vertical axis.
    pub y: Scale,
    /// `true` if the points are not connected.
    pub is_scatter: bool,
    /// Sets of points.
    pub curves: Vec<Curve>,
}

/// An axis of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// The quantity, with its unit.
    pub name: String,
    /// `true` if it is logarithmic; all values are above zero then.
    pub is_log: bool,
}

/// A set of points with a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Its name; that of a subject gives it the look of the subject.
    pub name: String,
    /// Positions on both axes. One whose second number is no number leaves a gap in the line.
    pub points: Vec<(f64, f64)>,
}
