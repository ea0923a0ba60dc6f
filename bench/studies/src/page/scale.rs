//! From figures to places in a drawing, and the ticks that tell which is which.
//!
//! A linear axis begins at zero, so that heights compare as figures do. Where the figures span too much for that, the
//! axis is logarithmic, and nothing is drawn from its foot.

use crate::results::grouped;

/// Points whose largest is over two decades from the smallest would crowd at one end of a linear axis.
const SPAN_OF_POINTS: f64 = 100.0;
/// On a linear axis of some 200 units, a thirtieth is no longer told from nothing.
const SPAN_OF_FIGURES: f64 = 30.0;
/// More lines than that are a grid, and no help.
const TICKS_MAX: f64 = 6.0;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    is_log: bool,
    low: f64,
    high: f64,
    /// Where `low` and `high` are drawn.
    ends: (f64, f64),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) text: String,
}

impl Scale {
    /// Of points: from the first to the last of them, and no further.
    pub(super) fn of_points(values: &[f64], ends: (f64, f64)) -> Scale {
        let (low, high) = extent(values.iter().copied()).unwrap_or((0.0, 1.0));
        let is_log = low > 0.0 && high / low > SPAN_OF_POINTS;
        // One value alone stands in the middle.
        let half = if low == high { 0.5 } else { 0.0 };
        Scale {
            is_log,
            low: low - half,
            high: high + half,
            ends,
        }
    }

    /// Of figures: `medians` decide which scale suits, and it reaches around `all`.
    pub(super) fn of_figures(medians: &[f64], all: &[f64], ends: (f64, f64)) -> Scale {
        let all = || medians.iter().chain(all).copied();
        let (low, high) = extent(all()).unwrap_or((0.0, 1.0));
        let of_medians = extent(medians.iter().copied()).unwrap_or((low, high));
        if low > 0.0 && of_medians.1 / of_medians.0 >= SPAN_OF_FIGURES {
            return Scale {
                is_log: true,
                low: tick_below(low),
                high: tick_above(high),
                ends,
            };
        }
        let (low, high) = (low.min(0.0), high.max(0.0));
        let high = if low == high { 1.0 } else { high };
        let step = step_of(high - low);
        Scale {
            is_log: false,
            low: (low / step + 1e-9).floor() * step,
            high,
            ends,
        }
    }

    pub(super) fn is_log(&self) -> bool {
        self.is_log
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.ends.0 + share * (self.ends.1 - self.ends.0)
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        if self.is_log {
            self.log_ticks()
        } else {
            self.linear_ticks()
        }
    }

    fn linear_ticks(&self) -> Vec<Tick> {
        let step = step_of(self.high - self.low);
        let decimals = (-step.log10() - 1e-9).ceil().max(0.0) as usize;
        let first = (self.low / step).round();
        let last = (self.high / step + 1e-9).floor();
        let values = (0..=(last - first) as u32).map(|index| (first + f64::from(index)) * step);
        let text = |value: f64| match decimals {
            0 => grouped(value),
            _ => format!("{value:.decimals$}"),
        };
        let tick = |value| Tick {
            value,
            text: text(value),
        };
        values.map(tick).collect()
    }

    /// At 1, 2 and 5 of each decade, or at 1 alone where these would be too many.
    fn log_ticks(&self) -> Vec<Tick> {
        let mut ticks = Vec::new();
        let mut value = self.low;
        while value <= self.high * (1.0 + 1e-9) {
            ticks.push(value);
            value = next_tick(value);
        }
        if ticks.len() as f64 > TICKS_MAX + 1.0 {
            ticks.retain(|tick| mantissa(*tick) == 1);
        }
        let text = |value: f64| match value {
            whole if whole >= 0.999_999 => grouped(whole),
            part => format!("{part:.0$}", (-part.log10() - 1e-9).ceil() as usize),
        };
        let tick = |value| Tick {
            value,
            text: text(value),
        };
        ticks.into_iter().map(tick).collect()
    }
}

/// The smallest and the largest; none of nothing.
fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |extent, value| match extent {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

/// 1, 2 or 5 of a decade, so that at most [`TICKS_MAX`] steps make up the span.
fn step_of(span: f64) -> f64 {
    let decade = 10_f64.powf((span / TICKS_MAX).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    let fits = |step: &f64| span / step <= TICKS_MAX + 1e-9;
    steps.into_iter().find(fits).unwrap_or(steps[3])
}

/// The last logarithmic tick that is not above the value.
fn tick_below(value: f64) -> f64 {
    let mut tick = 10_f64.powf(value.log10().floor() - 1.0);
    while next_tick(tick) <= value * (1.0 + 1e-9) {
        tick = next_tick(tick);
    }
    tick
}

/// The first that is not below it.
fn tick_above(value: f64) -> f64 {
    match tick_below(value) {
        tick if tick < value * (1.0 - 1e-9) => next_tick(tick),
        tick => tick,
    }
}

fn next_tick(tick: f64) -> f64 {
    match mantissa(tick) {
        2 => tick * 2.5,
        _ => tick * 2.0,
    }
}

/// 1, 2 or 5.
fn mantissa(tick: f64) -> u32 {
    (tick / 10_f64.powf((tick.log10() + 1e-9).floor())).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: (f64, f64) = (0.0, 100.0);

    fn texts(scale: &Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn points_over_two_decades_are_logarithmic() {
        let check = |values: &[f64], is_log, middle: f64, place: f64| {
            let scale = Scale::of_points(values, ENDS);
            assert_eq!(scale.is_log(), is_log, "{values:?}");
            assert!((scale.place(middle) - place).abs() < 1e-6, "{values:?}");
        };
        check(&[1.0, 10.0, 10_000.0], true, 100.0, 50.0);
        check(&[1.0, 100.0], false, 50.5, 50.0);
        check(&[0.0, 10_000.0], false, 5_000.0, 50.0);
        check(&[1.0, 2.0], false, 2.0, 100.0);
        check(&[8.0], false, 8.0, 50.0);
        check(&[], false, 0.5, 50.0);
    }

    #[test]
    fn figures_begin_at_zero_unless_they_span_much() {
        let check = |medians: &[f64], all: &[f64], expected: &[&str]| {
            assert_eq!(texts(&Scale::of_figures(medians, all, ENDS)), expected);
        };
        check(&[7.0, 14.0], &[], &["0", "5", "10"]);
        check(&[0.2, 0.5], &[0.61], &["0.0", "0.2", "0.4", "0.6"]);
        check(
            &[1e5, 3e5],
            &[],
            &[
                "0", "50,000", "100,000", "150,000", "200,000", "250,000", "300,000",
            ],
        );
        check(&[0.0], &[], &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        check(&[], &[], &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        check(&[-1.0, 3.0], &[], &["-1", "0", "1", "2", "3"]);
        check(
            &[1.0, 30.0],
            &[0.9],
            &["0.5", "1", "2", "5", "10", "20", "50"],
        );
        check(&[30.0, 9e4], &[], &["100", "1,000", "10,000", "100,000"]);
        check(
            &[0.03, 1.0],
            &[],
            &["0.02", "0.05", "0.1", "0.2", "0.5", "1"],
        );
        // One round that went astray does not decide for all.
        check(&[1.0, 2.0], &[40.0], &["0", "10", "20", "30", "40"]);
        // Nothing of a zero can be drawn on a logarithmic axis.
        check(
            &[0.0, 3_000.0],
            &[],
            &["0", "500", "1,000", "1,500", "2,000", "2,500", "3,000"],
        );
    }

    #[test]
    fn every_figure_lies_within_the_axis() {
        for exponent in -6..9 {
            for mantissa in [1.0, 1.3, 2.0, 4.9, 5.0, 9.99] {
                for span in [1.0, 3.0, 29.0, 31.0, 4_000.0] {
                    let low = mantissa * 10_f64.powi(exponent);
                    let (figures, all) = ([low, low * span], [low * 0.9, low * span * 1.1]);
                    let scale = Scale::of_figures(&figures, &all, (200.0, 0.0));
                    for figure in figures.into_iter().chain(all) {
                        let place = scale.place(figure);
                        assert!((-1e-6..=200.0 + 1e-6).contains(&place), "{low} x {span}");
                    }
                    let ticks = scale.ticks();
                    let apart = ticks.windows(2).all(|pair| pair[0].text != pair[1].text);
                    assert!((2..=16).contains(&ticks.len()) && apart, "{ticks:?}");
                }
            }
        }
    }
}
