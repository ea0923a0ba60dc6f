//! The program of one core, to which each call appends its accesses.

use std::collections::VecDeque;

use super::layout::{LINE_BYTES, Runtime, Worker};
use crate::atomic::record;
use crate::machine::Step;
use crate::memory::{Kind, Line};

/// The calls of one core.
pub(crate) struct Calls<'a> {
    pub(super) runtime: &'a mut Runtime,
    pub(super) core: usize,
    pub(super) steps: &'a mut VecDeque<Step>,
}

impl Runtime {
    /// Returns the program of `core`, to be extended by calls.
    pub(crate) fn on<'a>(&'a mut self, core: usize, steps: &'a mut VecDeque<Step>) -> Calls<'a> {
        Calls {
            runtime: self,
            core,
            steps,
        }
    }
}

impl Calls<'_> {
    pub(crate) fn work(&mut self, time: u64) {
        self.steps.push_back(Step::Work(time));
    }

    pub(crate) fn done(&mut self) {
        self.steps.push_back(Step::Done);
    }

    pub(super) fn load(&mut self, line: Line) {
        self.steps.push_back(Step::Access(line, Kind::Load));
    }

    pub(super) fn store(&mut self, line: Line) {
        self.steps.push_back(Step::Access(line, Kind::Store));
    }

    pub(super) fn modify(&mut self, line: Line) {
        self.steps.push_back(Step::Access(line, Kind::Modify));
    }

    /// Makes a call of the library's own code, and appends its accesses.
    pub(super) fn call<R>(&mut self, call: impl FnOnce(&Runtime) -> R) -> R {
        let (accesses, result) = record(|| call(self.runtime));
        for (address, kind) in accesses {
            let line = self.runtime.recorded[&(address / LINE_BYTES)];
            self.steps.push_back(Step::Access(line, kind));
        }
        result
    }

    pub(super) fn own(&mut self) -> &mut Worker {
        &mut self.runtime.workers[self.core]
    }

    /// Returns the other workers, the next one first (`Shared::victims`).
    pub(super) fn victims(&self) -> impl Iterator<Item = usize> + use<> {
        let (core, count) = (self.core, self.runtime.workers.len());
        (1..count).map(move |distance| (core + distance) % count)
    }

    /// Modifies a line of the program: a lock, a channel.
    pub(crate) fn modify_own(&mut self, line: Line) {
        self.modify(line);
    }
}
