//! The axes of charts and plots.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

/// Number of ticks that an axis has about.
const TICKS: usize = 6;
/// Numbers of ticks of a logarithmic axis: a line between two alone does not show that it is one.
const LOG_TICKS_MIN: usize = 3;
const LOG_TICKS_MAX: usize = 9;
/// Ratio of the last to the first point above which the axis is logarithmic. Points that at least
/// double each time have a logarithmic one in any case.
const POINTS_SPAN_MAX: f64 = 100.0;
/// Pixels between the whiskers of two lines at the same point.
const WHISKERS_APART: f64 = 4.0;
/// Ratio of the medians from which on the axis is logarithmic: on a linear one, a thirtieth of the
/// height can no longer be read.
const FIGURES_SPAN_MAX: f64 = 30.0;
/// Factor from the greatest value to the end of a linear axis, so that its mark is inside.
const HEADROOM: f64 = 1.03;

/// A linear or logarithmic axis with its ticks.
#[derive(Clone)]
pub(super) struct Axis {
    pub(super) is_log: bool,
    range: Range<f64>,
    ticks: Vec<f64>,
    /// The words at the ticks; empty for their numbers.
    labels: Vec<String>,
    /// The share of its length that is kept free at both ends, so that marks do not touch them.
    margin: f64,
    /// The share of its length on which a point has room for the whiskers of all lines.
    room: f64,
    /// How many whiskers further than the point itself to draw, and of how many.
    aside: (f64, usize),
}

impl Axis {
    /// Returns an axis from the first to the last point, whose ticks are the points.
    pub(super) fn of_points(values: &[f64]) -> Axis {
        let (low, high) = extent(values);
        let doubles = values.len() > 2 && values.windows(2).all(|pair| pair[1] >= 2.0 * pair[0]);
        let mut axis = Axis {
            is_log: low > 0.0 && (doubles || high / low > POINTS_SPAN_MAX),
            ..Axis::of(low..high, values.to_vec(), 0.07)
        };
        let length = axis.scaled(high) - axis.scaled(low);
        let steps = values.windows(2);
        let steps = steps.map(|pair| (axis.scaled(pair[1]) - axis.scaled(pair[0])) / length);
        // Half of the way to the next point, and the margin of the outer ones.
        let half = steps.fold(1.0, f64::min) * (1.0 - 2.0 * axis.margin) / 2.0;
        axis.room = half.min(2.0 * axis.margin);
        axis
    }

    fn of(range: Range<f64>, ticks: Vec<f64>, margin: f64) -> Axis {
        Axis {
            is_log: false,
            range,
            ticks,
            labels: Vec::new(),
            margin,
            room: 0.0,
            aside: (0.0, 1),
        }
    }

    /// Returns the axis with these words at its ticks.
    pub(super) fn labelled(self, labels: Vec<String>) -> Axis {
        Axis { labels, ..self }
    }

    /// Returns the words at a tick.
    pub(super) fn label(&self, tick: f64) -> String {
        let index = self.ticks.iter().position(|known| *known == tick);
        let label = index.and_then(|index| self.labels.get(index));
        label.cloned().unwrap_or_else(|| short(tick))
    }

    /// Returns the axis for the line with this index among so many, whose whiskers at each point
    /// stand beside each other.
    pub(super) fn of_line(&self, index: usize, count: usize) -> Axis {
        Axis {
            aside: (index as f64 - (count as f64 - 1.0) / 2.0, count.max(1)),
            ..self.clone()
        }
    }

    /// Returns an axis that includes `all` figures, and zero if it is linear. It is logarithmic if
    /// the medians span much.
    pub(super) fn of_figures(medians: &[f64], all: &[f64]) -> Axis {
        let (low, high) = extent(all);
        let (least, most) = extent(medians);
        let is_log = low > 0.0 && most / least >= FIGURES_SPAN_MAX;
        let range = if is_log {
            10_f64.powf(low.log10().floor())..high * 1.1
        } else {
            linear_range(low, high)
        };
        let ticks = ticks(&range, is_log);
        Axis {
            is_log,
            ..Axis::of(range, ticks, 0.0)
        }
    }

    /// Returns an axis that includes all these values, and zero if it is linear.
    pub(super) fn of_values(values: &[f64], is_log: bool) -> Axis {
        let (low, high) = extent(values);
        // The axis has an extent even if there is a single value.
        let range = if is_log {
            low * 0.95..high * 1.05
        } else {
            linear_range(low, high)
        };
        let ticks = ticks(&range, is_log);
        Axis {
            is_log,
            ..Axis::of(range, ticks, 0.01)
        }
    }

    /// Returns the value, or its logarithm, which is proportional to the position on the axis.
    fn scaled(&self, value: f64) -> f64 {
        if self.is_log { value.log10() } else { value }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        let (low, high) = (self.scaled(self.range.start), self.scaled(self.range.end));
        let share = (self.scaled(*value) - low) / (high - low);
        let share = self.margin + share * (1.0 - 2.0 * self.margin);
        let length = f64::from(last - first);
        let (aside, count) = self.aside;
        let apart = WHISKERS_APART.min(self.room * length / count as f64);
        first + (share * length + aside * apart).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

fn ticks(range: &Range<f64>, is_log: bool) -> Vec<f64> {
    let linear = || RangedCoordf64::from(range.clone()).key_points(TICKS);
    if is_log {
        log_ticks(range).unwrap_or_else(linear)
    } else {
        linear()
    }
}

/// Returns the ticks of a logarithmic axis: powers of ten, or steps of 1, 2 and 5 if those are too
/// few. Returns `None` for a range so short that it needs the steps of a linear axis.
fn log_ticks(range: &Range<f64>) -> Option<Vec<f64>> {
    let (first, last) = (range.start.log10().floor(), range.end.log10().floor());
    let decades = first as i32..=last as i32;
    let of = |digits: &[f64], every: usize| {
        let decades = decades.clone().step_by(every);
        let ticks =
            decades.flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)));
        ticks
            .filter(|tick| range.contains(tick))
            .collect::<Vec<f64>>()
    };
    let mut found = [of(&[1.0], 1), of(&[1.0, 2.0, 5.0], 1)].into_iter();
    let enough = found.find(|ticks| ticks.len() >= LOG_TICKS_MIN)?;
    if enough.len() <= LOG_TICKS_MAX {
        return Some(enough);
    }
    Some(of(&[1.0], enough.len().div_ceil(TICKS)))
}

/// Returns the range of a linear axis, which includes zero.
fn linear_range(low: f64, high: f64) -> Range<f64> {
    let end = if high > 0.0 { high * HEADROOM } else { 1.0 };
    low.min(0.0)..end
}

/// Returns the minimum and the maximum.
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
        let check = |medians: &[f64], others: &[f64], is_log, low: f64| {
            let axis = Axis::of_figures(medians, &[medians, others].concat());
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
    }

    #[test]
    fn points_that_double_have_a_logarithmic_axis() {
        let check = |points: &[f64], is_log| {
            assert_eq!(Axis::of_points(points).is_log, is_log, "{points:?}");
        };
        check(&[1.0, 4.0, 16.0, 64.0], true);
        check(&[1.0, 2.0, 4.0], true);
        check(&[1.0, 10.0, 150.0, 200.0], true);
        check(&[10.0, 20.0, 30.0, 40.0], false);
        check(&[0.0, 1.0, 2.0], false);
        check(&[1.0, 2.0], false);
    }

    #[test]
    fn whiskers_at_a_point_do_not_overlap() {
        let check = |points: &[f64], lines: usize, pixels: i32| {
            let axis = Axis::of_points(points);
            let places = points.iter().flat_map(|point| {
                let of_line = |line| axis.of_line(line, lines).map(point, (50, 50 + pixels));
                (0..lines).map(of_line).collect::<Vec<i32>>()
            });
            let places: Vec<i32> = places.collect();
            assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
            assert!(
                places.iter().all(|x| (50..=50 + pixels).contains(x)),
                "{places:?}"
            );
            let apart = places[1] - places[0];
            assert!(f64::from(apart) <= WHISKERS_APART, "{apart}");
        };
        check(&[1.0, 4.0, 16.0, 64.0, 256.0], 3, 300);
        check(&[1.0, 4.0, 16.0, 64.0, 256.0], 14, 300);
        check(&[1.0, 2.0], 10, 200);
    }

    #[test]
    fn a_logarithmic_axis_has_enough_ticks() {
        let check = |range: Range<f64>, expected: &[f64]| {
            let found = ticks(&range, true).into_iter();
            // Powers of ten are not exact.
            let found = Vec::from_iter(found.map(|tick| format!("{tick:.6}")));
            let expected = Vec::from_iter(expected.iter().map(|tick| format!("{tick:.6}")));
            assert_eq!(found, expected, "{range:?}");
        };
        check(0.002..5.0, &[0.01, 0.1, 1.0]);
        check(0.057..2.1, &[0.1, 0.2, 0.5, 1.0, 2.0]);
        check(10.0..220.0, &[10.0, 20.0, 50.0, 100.0, 200.0]);
        check(21.0..48.0, &[25.0, 30.0, 35.0, 40.0, 45.0]);
        check(1e-4..1e9, &[1e-4, 1e-1, 1e2, 1e5, 1e8]);
    }

    #[test]
    fn the_numbers_of_ticks_are_short() {
        let numbers = [0.0, 0.05, 250.0, 15_000.0, 1_500_000.0];
        assert_eq!(numbers.map(short), ["0", "0.05", "250", "15k", "1.5M"]);
    }
}
