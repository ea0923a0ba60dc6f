//! The uses, each a function that panics unless all is as expected.

mod blocking;
mod channels;
mod context;
mod deadlines;
mod futures;
mod in_block_on;
mod initializers;
mod locks;
mod pools;
mod tls;
mod waits;
mod web;

use std::fmt;
use std::panic;
use std::time::{Duration, Instant};

use uthread::sync::Barrier;

use crate::services::Service;

/// How long a use waits. Longer than any pause that counts, so that a wait that stops other fibers
/// shows.
const WAIT: Duration = Duration::from_millis(100);

/// How long a server may refuse clients after its start.
const READY: Duration = Duration::from_secs(5);

/// A part of the study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// The crate waits for another fiber of the runtime, or keeps context per thread while a fiber
    /// waits.
    ForFibers,
    /// The crate waits for the kernel, or computes.
    ByThemselves,
    /// The crate is async.
    InBlockOn,
}

/// A small program around one crate.
pub(crate) struct Use {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) group: Group,
    pub(crate) service: Option<Service>,
    pub(crate) run: fn(),
    /// `true` if it sets what a process can set once.
    is_single: bool,
}

impl Group {
    pub(crate) const ALL: [Group; 3] = [Group::ForFibers, Group::ByThemselves, Group::InBlockOn];

    /// Returns the heading of its column of uses.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Group::ForFibers => "waits for another fiber",
            Group::ByThemselves => "blocks by itself",
            Group::InBlockOn => "async, in `block_on`",
        }
    }
}

impl Use {
    const fn new(name: &'static str, title: &'static str, run: fn()) -> Use {
        Use {
            name,
            title,
            group: Group::ForFibers,
            service: None,
            run,
            is_single: false,
        }
    }

    /// Returns how many copies run at once of those that a user asks for.
    pub(crate) fn copies(&self, asked_for: usize) -> usize {
        if self.is_single { 1 } else { asked_for }
    }

    const fn single(mut self) -> Use {
        self.is_single = true;
        self
    }

    const fn by_itself(mut self) -> Use {
        self.group = Group::ByThemselves;
        self
    }

    const fn in_block_on(mut self) -> Use {
        self.group = Group::InBlockOn;
        self
    }

    const fn with(mut self, service: Service) -> Use {
        self.service = Some(service);
        self
    }
}

/// Returns all uses, in the order of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Use> {
    [
        web::USES,
        channels::USES,
        locks::USES,
        initializers::USES,
        waits::USES,
        pools::USES,
        futures::USES,
        context::USES,
        blocking::USES,
        deadlines::USES,
        tls::USES,
        in_block_on::USES,
    ]
    .into_iter()
    .flatten()
}

/// Returns the use of this name.
pub(crate) fn find(name: &str) -> Option<&'static Use> {
    all().find(|item| item.name == name)
}

/// Runs two fibers. The second one starts when the first one has called the function that it gets.
fn overlap(first: impl FnOnce(&dyn Fn()) + Send, second: impl FnOnce() + Send) {
    let begun = Barrier::new(2);
    let begun = &begun;
    both(
        move || {
            first(&|| {
                begun.wait();
            });
        },
        move || {
            begun.wait();
            second();
        },
    );
}

/// Runs two fibers until both have ended. Panics with the message of the one that panics.
fn both(first: impl FnOnce() + Send, second: impl FnOnce() + Send) {
    uthread::scope(|scope| {
        let second = scope.spawn(second);
        let first = scope.spawn(first);
        for fiber in [second, first] {
            if let Err(payload) = fiber.join() {
                panic::resume_unwind(payload);
            }
        }
    });
}

/// Calls a function until it succeeds, as a server refuses clients at first.
fn retry<T, E: fmt::Debug>(call: impl Fn() -> Result<T, E>) -> T {
    let start = Instant::now();
    loop {
        match call() {
            Ok(value) => return value,
            Err(error) => assert!(start.elapsed() < READY, "{error:?}"),
        }
        uthread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = all().map(|item| item.name).collect();
        assert_eq!(names.len(), all().count());
    }
}
