//! How many calls may be made in addition.

use std::sync::{Arc, Mutex};

use crate::lock;

/// Number of additional calls that a budget saves, unless it is told otherwise.
const SAVED_MAX: f64 = 100.0;

/// Bounds additional calls, such as retries, to a share of the calls: each call adds the share, and each
/// additional one takes one. So a dependency that is down gets little more load than one that is up.
///
/// It is empty at first. Clones share it: those of one dependency belong together.
///
/// ```
/// use uthread_resilience::Budget;
///
/// let budget = Budget::new(0.5);
/// budget.add();
/// assert!(!budget.take());
/// budget.add();
/// assert!(budget.take() && !budget.take());
/// ```
#[derive(Debug, Clone)]
pub struct Budget {
    share: f64,
    max: f64,
    left: Arc<Mutex<f64>>,
}

impl Budget {
    /// Creates a budget of `share` additional calls for each call, of which it saves 100 at most. See the
    /// example of [`Budget`].
    ///
    /// # Panics
    ///
    /// Panics if `share` is negative or no number.
    #[must_use]
    pub fn new(share: f64) -> Budget {
        assert!(share >= 0.0, "a budget cannot be {share}");
        Budget {
            share,
            max: SAVED_MAX,
            left: Arc::default(),
        }
    }

    /// Saves `max` additional calls at most: so many may be made in one moment after a quiet time.
    ///
    /// ```
    /// use uthread_resilience::Budget;
    ///
    /// let budget = Budget::new(1.0).save(2.0);
    /// (0..1000).for_each(|_| budget.add());
    /// assert_eq!((0..1000).filter(|_| budget.take()).count(), 2);
    /// ```
    #[must_use]
    pub fn save(mut self, max: f64) -> Budget {
        self.max = max;
        self
    }

    /// Adds the share for a call. See the example of [`Budget`].
    pub fn add(&self) {
        let mut left = lock(&self.left);
        *left = (*left + self.share).min(self.max);
    }

    /// Takes an additional call; returns `false` if there is none. See the example of [`Budget`].
    #[must_use]
    pub fn take(&self) -> bool {
        let mut left = lock(&self.left);
        let has_one = *left >= 1.0;
        if has_one {
            *left -= 1.0;
        }
        has_one
    }
}
