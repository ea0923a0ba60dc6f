//! What was copied of a process while it was stopped, and how it becomes [`Copied`] afterwards.

use std::mem;
use std::rc::Rc;

use uthread::root::Layout;

use crate::ahead::Ahead;
use crate::awaited::{self, Referred};
use crate::controls::Controls;
use crate::history::History;
use crate::memory::{Piece, Registers};
use crate::snapshot::{Copied, Identity, Snapshot};

/// The copied memory of a process.
pub(crate) struct Taken {
    /// The threads, and again those that a signal has interrupted.
    pub(crate) threads: Vec<(i32, Registers)>,
    pub(crate) ahead: Ahead,
    pub(crate) lists: Vec<TakenList>,
    /// The stacks on which threads are, with the addresses at which these are.
    pub(crate) running: Vec<(u64, Piece)>,
    /// What the parked fibers wait for refers to these.
    pub(crate) referred: Referred,
    /// Number of workers by runtime.
    workers: Vec<(u64, usize)>,
    /// Why some fibers are missing or incomplete.
    pub(crate) problems: Vec<String>,
}

/// The fibers of a worker.
pub(crate) struct TakenList {
    pub(crate) layout: Layout,
    pub(crate) runtime: usize,
    pub(crate) history: History,
    pub(crate) addresses: Vec<u64>,
    pub(crate) controls: Rc<Controls>,
    /// For each fiber, where it is in the copy ahead if it has not run since.
    pub(crate) known: Vec<Option<usize>>,
    /// The stacks and the identities of the others.
    pub(crate) stacks: Vec<Piece>,
    pub(crate) identities: Vec<Identity>,
}

impl Taken {
    pub(crate) fn new(threads: Vec<(i32, Registers)>, ahead: Ahead) -> Taken {
        Taken {
            threads,
            ahead,
            lists: Vec::new(),
            running: Vec::new(),
            referred: Referred::default(),
            workers: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Counts a worker of a runtime, and returns the index of that.
    pub(crate) fn add_worker(&mut self, runtime: u64) -> usize {
        let known = self.workers.iter().position(|known| known.0 == runtime);
        let index = known.unwrap_or_else(|| {
            self.workers.push((runtime, 0));
            self.workers.len() - 1
        });
        self.workers[index].1 += 1;
        index
    }

    /// Puts together what belongs to each fiber.
    pub(crate) fn finish(mut self) -> Copied {
        let mut copied = Copied {
            fibers: Vec::new(),
            controls: Vec::new(),
            is_running: false,
            referred: self.referred,
            workers: self.workers,
            problems: self.problems,
        };
        for list in mem::take(&mut self.lists) {
            let is_known = |known: &Rc<Controls>| Rc::ptr_eq(known, &list.controls);
            if !copied.controls.last().is_some_and(is_known) {
                copied.controls.push(Rc::clone(&list.controls));
            }
            let lost = list.finish(
                &mut self.ahead,
                &self.threads,
                &mut self.running,
                &mut copied,
            );
            if lost > 0 {
                let problem = format!(
                    "{lost} fibers are missing: they start or end right now, or their stacks cannot be read"
                );
                copied.problems.push(problem);
            }
        }
        copied
    }
}

impl TakenList {
    /// Adds the fibers. Returns the number of those that make no sense.
    fn finish(
        self,
        ahead: &mut Ahead,
        threads: &[(i32, Registers)],
        stacks: &mut Vec<(u64, Piece)>,
        copied: &mut Copied,
    ) -> usize {
        let mut lost = 0;
        let mut others = self.stacks.into_iter().zip(self.identities);
        for (address, known) in self.addresses.into_iter().zip(self.known) {
            let ahead = known.and_then(|index| ahead.take(index));
            let is_still = ahead.is_some();
            let Some((stack, identity)) = ahead.or_else(|| others.next()) else {
                lost += 1;
                continue;
            };
            let control = self.controls.piece(address);
            let top = control.word(self.layout.top).unwrap_or(0);
            let at_top = |offset: u32| stack.word_at(top.wrapping_add(offset.into()));
            let limits = (at_top(self.layout.limits), at_top(self.layout.limits + 8));
            let is_its = at_top(self.layout.fiber) == Some(address);
            let (Some(limit), Some(end), true) = (limits.0, limits.1, is_its) else {
                lost += 1;
                continue;
            };
            let is_on = |at: &&(i32, Registers)| (limit..end).contains(&at.1.stack);
            let running = threads.iter().find(is_on).copied();
            let deeper = running.and_then(|(_, at)| {
                let index = stacks.iter().position(|one| one.0 == at.stack)?;
                Some(stacks.swap_remove(index).1)
            });
            let last_switch = control.half(self.layout.last_switch).unwrap_or(0);
            let since = self.history.since(last_switch);
            let awaited = awaited::of_stack(&stack, top, self.layout);
            copied.fibers.push(Snapshot {
                awaited,
                value: awaited.and_then(|awaited| copied.referred.value(awaited)),
                suspended_for: since.filter(|_| running.is_none()),
                is_still,
                is_settled: self.history.has_completed(last_switch),
                layout: self.layout,
                runtime: self.runtime,
                control,
                identity,
                running,
                stack: deeper.unwrap_or(stack),
            });
        }
        lost
    }
}
