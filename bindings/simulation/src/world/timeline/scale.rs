//! Where a time is in a picture: to the right of earlier ones. A time in which nothing happens is cut short.

use std::time::Duration;

/// The usual distance between two events, of which three of four are less.
const USUAL: f64 = 14.0;

/// The distance of events at nearly the same time: they can still be told apart.
const SHORTEST: f64 = 2.5;

/// The longest distance.
const LONGEST: f64 = 70.0;

#[derive(Debug)]
pub(super) struct Scale {
    /// Times and their places, in order.
    points: Vec<(Duration, f64)>,
    /// The places around a time that is cut short, and that.
    pub(super) cuts: Vec<(f64, f64, Duration)>,
}

impl Scale {
    /// Places these times from `left` on.
    pub(super) fn new(mut times: Vec<Duration>, left: f64) -> Scale {
        times.sort_unstable();
        times.dedup();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        let mut sorted: Vec<_> = gaps.clone().collect();
        sorted.sort_unstable();
        let usual = sorted
            .get(sorted.len() * 3 / 4)
            .copied()
            .unwrap_or(Duration::ZERO);
        let mut at = left;
        let mut points: Vec<_> = times
            .first()
            .map(|first| (*first, at))
            .into_iter()
            .collect();
        let mut cuts = Vec::new();
        for (gap, time) in gaps.zip(times.iter().skip(1)) {
            let distance = USUAL * gap.as_secs_f64() / usual.as_secs_f64();
            let next = at + distance.clamp(SHORTEST, LONGEST);
            if distance > LONGEST {
                cuts.push((at, next, gap));
            }
            points.push((*time, next));
            at = next;
        }
        Scale { points, cuts }
    }

    /// Returns the place of a time, which is at most those of the first and the last one.
    pub(super) fn place(&self, time: Duration) -> f64 {
        let after = self.points.partition_point(|(point, _)| *point <= time);
        let before = self.points.get(after.wrapping_sub(1));
        match (before, self.points.get(after)) {
            (Some((start, left)), Some((end, right))) => {
                let part = (time - *start).as_secs_f64() / (*end - *start).as_secs_f64();
                left + part * (right - left)
            }
            (Some((_, place)), None) | (None, Some((_, place))) => *place,
            (None, None) => 0.0,
        }
    }

    /// Returns the times with their places, in order.
    pub(super) fn points(&self) -> &[(Duration, f64)] {
        &self.points
    }

    /// Returns the place of the last time.
    pub(super) fn right(&self) -> f64 {
        self.points.last().map_or(0.0, |(_, place)| *place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_is_cut_short_and_all_are_in_order() {
        let ms = Duration::from_millis(1);
        let times = vec![5 * ms, ms, 2 * ms, 3 * ms, 3 * ms, 4 * ms, 4000 * ms];
        let scale = Scale::new(times, 100.0);
        assert_eq!(scale.place(Duration::ZERO), 100.0);
        assert_eq!(scale.place(2 * ms), 100.0 + USUAL);
        assert_eq!(scale.place(5 * ms / 2), 100.0 + 1.5 * USUAL);
        assert_eq!(scale.right(), 100.0 + 4.0 * USUAL + LONGEST);
        assert_eq!(scale.place(9000 * ms), scale.right());
        assert_eq!(scale.cuts, [(156.0, 226.0, 3995 * ms)]);
        assert!(scale.points().is_sorted_by(|one, other| one.1 < other.1));
        assert_eq!(Scale::new(Vec::new(), 1.0).place(ms), 0.0);
        assert_eq!(Scale::new(vec![ms], 1.0).place(ms), 1.0);
    }
}
