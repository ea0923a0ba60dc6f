//! The distribution of a worker's scheduling delays.

use std::ops::Add;
use std::time::Duration;

use crate::sched::shared::delays::{self, BOUNDS, BUCKETS};

/// The distribution of scheduling delays: how long a fiber that becomes ready waits until it runs.
///
/// Empty unless [`Builder::sample_delays`](crate::runtime::Builder::sample_delays) asks for it,
/// which tells what is sampled.
///
/// ```
/// use std::time::Duration;
/// use uthread::{sleep, yield_now};
///
/// let builder = uthread::Runtime::builder().workers(1);
/// let runtime = builder.sample_delays(Duration::from_millis(1)).build()?;
/// runtime.run(|| {
///     let waits = uthread::spawn(|| (0..3).for_each(|_| yield_now()));
///     // Keeps the worker, so that others wait for it.
///     (0..3).for_each(|_| {
///         std::thread::sleep(Duration::from_millis(10));
///         yield_now();
///     });
///     waits.join().unwrap();
///     sleep(Duration::from_millis(1)); // The worker looks for probes.
/// });
/// let delays = runtime.metrics().total().delays;
/// println!("{} samples, {:?} on average, at most {:?}", delays.count, delays.mean(), delays.max);
/// for (bound, count) in delays.buckets() {
///     println!("up to {bound:?}: {count}");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delays {
    /// Number of samples.
    pub count: u64,
    /// Sum of the samples.
    pub total: Duration,
    /// Longest sample.
    pub max: Duration,
    buckets: [u64; BUCKETS],
}

impl Delays {
    pub(super) fn read(delays: &delays::Delays) -> Delays {
        let buckets = delays.buckets.each_ref().map(|bucket| bucket.get());
        Delays {
            count: buckets.iter().sum(),
            total: Duration::from_nanos(delays.total_ns.get()),
            max: Duration::from_nanos(delays.max_ns.get()),
            buckets,
        }
    }

    /// Returns the mean of the samples. `None` if there are none.
    ///
    /// ```
    /// assert_eq!(uthread::runtime::Delays::default().mean(), None);
    /// ```
    #[must_use]
    pub fn mean(&self) -> Option<Duration> {
        let mean_ns = self.total.as_nanos().checked_div(self.count.into())?;
        Some(Duration::from_nanos(mean_ns as u64))
    }

    /// Returns the buckets of a histogram, in order: the upper bound of each, and the number of
    /// samples above the previous bound and not above this one. The bounds are 10, 25, 50, 100, 250
    /// and 500 microseconds, 1, 2.5, 5, 10, 25, 50, 100, 250 and 500 milliseconds, and a second.
    /// The last bucket has no bound; its bound is [`Duration::MAX`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let buckets: Vec<_> = uthread::runtime::Delays::default().buckets().collect();
    /// assert_eq!(buckets[0], (Duration::from_micros(10), 0));
    /// assert_eq!(buckets.last(), Some(&(Duration::MAX, 0)));
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + use<> {
        let bounds = BOUNDS.into_iter().chain([Duration::MAX]);
        bounds.zip(self.buckets)
    }
}

impl Add for Delays {
    type Output = Delays;

    fn add(self, other: Delays) -> Delays {
        Delays {
            count: self.count + other.count,
            total: self.total + other.total,
            max: self.max.max(other.max),
            buckets: std::array::from_fn(|index| self.buckets[index] + other.buckets[index]),
        }
    }
}
