//! The counts of a real run, at real times, and the results that follow from them as from those of
//! a simulation.

use std::io;
use std::sync::Mutex;

use super::clock::Clock;
use super::lock;
use crate::outcome::{Measured, Outcome};
use crate::scenario::Scenario;
use crate::series::Series;
use crate::tally::Tally;

pub(super) struct Ledger {
    pub(super) clock: Clock,
    books: Mutex<Books>,
}

struct Books {
    tally: Tally,
    series: Series,
    /// The first error that is none of the scenario.
    error: Option<io::Error>,
}

impl Ledger {
    pub(super) fn new(clock: Clock) -> Ledger {
        let books = Books {
            tally: Tally::new(),
            series: Series::new(),
            error: None,
        };
        Ledger {
            clock,
            books: Mutex::new(books),
        }
    }

    /// Makes an entry now. Times never decrease from one entry to the next.
    pub(super) fn record<T>(&self, entry: impl FnOnce(u64, &mut Tally, &mut Series) -> T) -> T {
        let mut books = lock(&self.books);
        let books = &mut *books;
        entry(self.clock.now(), &mut books.tally, &mut books.series)
    }

    /// Notes an error that falsifies the results.
    pub(super) fn broke(&self, error: io::Error) {
        lock(&self.books).error.get_or_insert(error);
    }

    /// Computes the results.
    ///
    /// # Errors
    ///
    /// The first error that was noted.
    pub(super) fn outcome(
        self,
        scenario: &Scenario,
        simulated: &Outcome,
        measured: Measured,
    ) -> anyhow::Result<Outcome> {
        let books = self.books.into_inner();
        let mut books = books.unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(error) = books.error {
            return Err(error.into());
        }
        books.series.end(books.tally.end());
        let mut outcome = (books.tally).outcome(
            scenario,
            simulated.mode,
            books.series,
            simulated.times.clone(),
            Vec::new(),
        );
        outcome.service = format!("{}, real", measured.driver);
        outcome.measured = Some(measured);
        // Assumptions of the simulation, and nothing that was measured.
        outcome.bytes_each = 0;
        outcome.bytes = 0;
        Ok(outcome)
    }
}
