//! The axes of charts and plots.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

const TICKS: usize = 6;
/// Points that span more than this have a logarithmic axis.
const POINTS_SPAN_MAX: f64 = 100.0;
/// Ratio of figures above which the axis is logarithmic: on a linear one, a thirtieth of the height
/// can no longer be read.
const FIGURES_SPAN_MAX: f64 = 30.0;

/// A linear or logarithmic axis with its ticks.
#[derive(Clone)]
pub(super) struct Axis {
    pub(super) is_log: bool,
    range: Range<f64>,
    ticks: Vec<f64>,
    /// The share of its length that is kept free at both ends, so that marks do not touch them.
    margin: f64,
}

impl Axis {
    /// Reaches from the first to the last point, which are also its ticks.
    pub(super) fn of_points(values: &[f64]) -> Axis {
        let (low, high) = extent(values);
        Axis {
            is_log: low > 0.0 && high / low > POINTS_SPAN_MAX,
            range: low..high,
            ticks: values.to_vec(),
            margin: 0.03,
        }
    }

    /// Includes `all` figures, and zero on a linear axis. The span of the medians decides which one
    /// it is.
    pub(super) fn of_figures(medians: &[f64], all: &[f64]) -> Axis {
        let (low, high) = extent(all);
        let (least, most) = extent(medians);
        let is_log = low > 0.0 && most / least >= FIGURES_SPAN_MAX;
        let range = if is_log {
            10_f64.powf(low.log10().floor())..high * 1.1
        } else {
            low.min(0.0)..if high > 0.0 { high * 1.03 } else { 1.0 }
        };
        Axis {
            is_log,
            ticks: ticks(&range, is_log),
            range,
            margin: 0.0,
        }
    }

    /// Includes all these values, and zero on a linear axis.
    pub(super) fn of_values(values: &[f64], is_log: bool) -> Axis {
        let (low, high) = extent(values);
        // A single value has no extent.
        let range = if is_log {
            low * 0.95..high * 1.05
        } else {
            low.min(0.0)..if high > 0.0 { high * 1.03 } else { 1.0 }
        };
        Axis {
            is_log,
            ticks: ticks(&range, is_log),
            range,
            margin: 0.01,
        }
    }

    fn at(&self, value: f64) -> f64 {
        if self.is_log { value.log10() } else { value }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let (low, high) = (self.at(self.range.start), self.at(self.range.end));
        let share = (self.at(*value) - low) / (high - low);
        let share = self.margin + share * (1.0 - 2.0 * self.margin);
        first + (share * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

fn ticks(range: &Range<f64>, is_log: bool) -> Vec<f64> {
    if is_log {
        LogCoord::<f64>::from(range.clone().log_scale()).key_points(TICKS)
    } else {
        RangedCoordf64::from(range.clone()).key_points(TICKS)
    }
}

fn extent(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

/// Shortens a tick's number: 250, 15k, 1.5M.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        millions if millions >= 1e6 => (value / 1e6, "M"),
        thousands if thousands >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_begins_at_zero_unless_the_medians_span_much() {
        let check = |medians: &[f64], all: &[f64], is_log, low: f64| {
            let axis = Axis::of_figures(medians, &[medians, all].concat());
            assert_eq!(
                (axis.is_log, axis.range.start),
                (is_log, low),
                "{medians:?}"
            );
            assert!((2..=10).contains(&axis.ticks.len()), "{:?}", axis.ticks);
        };
        check(&[7.0, 14.0], &[], false, 0.0);
        check(&[-1.0, 3.0], &[], false, -1.0);
        check(&[2.0, 90.0], &[1.5], true, 1.0);
        // A single round does not decide for all, and a logarithmic axis has no zero.
        check(&[1.0, 2.0], &[40.0], false, 0.0);
        check(&[0.0, 3_000.0], &[], false, 0.0);
        let numbers = [0.0, 0.05, 250.0, 15_000.0, 1_500_000.0];
        assert_eq!(numbers.map(short), ["0", "0.05", "250", "15k", "1.5M"]);
    }
}
