//! Percentiles of latencies over time, in a bounded number of windows: their length doubles when
//! the time exceeds them.

use hdrhistogram::Histogram;

/// Maximum number of windows: as many as a line needs, with a histogram each.
const WINDOWS_MAX: usize = 64;
/// The first length of a window in nanoseconds.
const LENGTH_MIN: u64 = 100_000_000;
/// A percentile differs from the true one by less than a hundredth of it, which a plot does not
/// show.
const DIGITS: u8 = 2;
/// The percentiles of each window.
pub(crate) const PERCENTS: [f64; 3] = [50.0, 90.0, 99.0];

/// The middle of a window, and the latencies at [`PERCENTS`] if requests have succeeded in it, in
/// seconds.
pub(crate) type Window = (f64, Option<[f64; PERCENTS.len()]>);

/// Latencies by the times at which requests succeed.
pub(crate) struct Timeline {
    length: u64,
    windows: Vec<Histogram<u32>>,
}

impl Timeline {
    pub(crate) fn new() -> Timeline {
        Timeline {
            length: LENGTH_MIN,
            windows: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, now: u64, latency: u64) {
        while now / self.length >= WINDOWS_MAX as u64 {
            self.double();
        }
        let index = (now / self.length) as usize;
        while self.windows.len() <= index {
            self.windows.push(empty());
        }
        let window = &mut self.windows[index];
        window.record(latency).expect("the histogram grows");
    }

    fn double(&mut self) {
        let mut merged = Vec::with_capacity(WINDOWS_MAX);
        let mut windows = std::mem::take(&mut self.windows).into_iter();
        while let Some(mut window) = windows.next() {
            if let Some(second) = windows.next() {
                window.add(second).expect("the histogram grows");
            }
            merged.push(window);
        }
        self.windows = merged;
        self.length *= 2;
    }

    /// Returns the windows up to the last in which requests have succeeded.
    pub(crate) fn windows(&self) -> Vec<Window> {
        let length = self.length as f64 / 1e9;
        let windows = self.windows.iter().zip(0_u32..);
        let window = |(window, index): (&Histogram<u32>, u32)| {
            let at = |percent: f64| window.value_at_quantile(percent / 100.0) as f64 / 1e9;
            let latencies = (!window.is_empty()).then(|| PERCENTS.map(at));
            ((f64::from(index) + 0.5) * length, latencies)
        };
        windows.map(window).collect()
    }
}

fn empty() -> Histogram<u32> {
    Histogram::new(DIGITS).expect("two digits are possible")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_their_window_however_long_it_takes() {
        let mut timeline = Timeline::new();
        let second = 1_000_000_000;
        for index in 0..100 {
            timeline.add(50_000_000, (index + 1) * 1_000_000);
        }
        let [(middle, Some(latencies))] = timeline.windows()[..] else {
            panic!("one window")
        };
        assert_eq!(middle, 0.05);
        for (found, expected) in latencies.into_iter().zip([0.05, 0.09, 0.099]) {
            assert!((found / expected - 1.0_f64).abs() < 0.01, "{found}");
        }
        timeline.add(1000 * second, 2 * second);
        let windows = timeline.windows();
        let known = windows.iter();
        let known = known.filter_map(|(middle, latencies)| Some((middle, (*latencies)?[0])));
        let [(first, _), (last, latency)] = known.collect::<Vec<_>>()[..] else {
            panic!("two windows have latencies, and those between them none")
        };
        assert!(*first < 20.0 && (last - 1000.0).abs() < 20.0 && windows.len() > 2);
        assert!((latency - 2.0).abs() < 0.02, "{windows:?}");
    }
}
