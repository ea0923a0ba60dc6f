//! Reports of the workers of a new runtime, which its builder waits for.
//!
//! A channel of `std` would do the same, with the code of all its kinds.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The reports of workers that have started, or failed to.
#[derive(Default)]
pub(super) struct Starts {
    reports: Mutex<Vec<io::Result<String>>>,
    reported: Condvar,
}

impl Starts {
    /// Waits for the reports of `count` workers. Returns the different descriptions of their
    /// drivers.
    ///
    /// # Errors
    ///
    /// The first error that a worker has reported.
    pub(super) fn wait(&self, count: usize) -> io::Result<Vec<String>> {
        let mut details = Vec::new();
        for _ in 0..count {
            let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
            let reports = self
                .reported
                .wait_while(reports, |reports| reports.is_empty());
            let report = reports.unwrap_or_else(PoisonError::into_inner).pop();
            if let Some(description) = report.transpose()?
                && !details.contains(&description)
            {
                details.push(description);
            }
        }
        Ok(details)
    }
}

/// Sends the report of one worker when it is dropped.
pub(super) struct Reporter {
    starts: Arc<Starts>,
    report: Option<io::Result<String>>,
}

impl Reporter {
    pub(super) fn new(starts: &Arc<Starts>) -> Reporter {
        Reporter {
            starts: Arc::clone(starts),
            report: None,
        }
    }

    /// Sends the report.
    pub(super) fn send(mut self, report: io::Result<String>) {
        self.report = Some(report);
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        let panicked = || Err(io::Error::other("a worker panicked while it started"));
        let report = self.report.take().unwrap_or_else(panicked);
        let reports = &self.starts.reports;
        let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.push(report);
        self.starts.reported.notify_one();
    }
}
