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

/// The middle of a window, and the latencies at [`PERCENTS`], in seconds.
pub(crate) type Window = (f64, [f64; PERCENTS.len()]);

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

    /// Returns the windows in which requests have succeeded.
    pub(crate) fn windows(&self) -> Vec<Window> {
        let length = self.length as f64 / 1e9;
        let windows = self.windows.iter().zip(0_u32..);
        let windows = windows.filter(|(window, _)| !window.is_empty());
        let window = |(window, index): (&Histogram<u32>, u32)| {
            let at = |percent: f64| window.value_at_quantile(percent / 100.0) as f64 / 1e9;
            ((f64::from(index) + 0.5) * length, PERCENTS.map(at))
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
        let [(middle, latencies)] = timeline.windows()[..] else {
            panic!("one window")
        };
        assert_eq!(middle, 0.05);
        for (found, expected) in latencies.into_iter().zip([0.05, 0.09, 0.099]) {
            assert!((found / expected - 1.0_f64).abs() < 0.01, "{found}");
        }
        timeline.add(1000 * second, 2 * second);
        let windows = timeline.windows();
        assert_eq!(windows.len(), 2);
        assert!(windows[0].0 < 20.0 && (windows[1].0 - 1000.0).abs() < 20.0);
        assert!((windows[1].1[0] - 2.0).abs() < 0.02, "{windows:?}");
    }
}
