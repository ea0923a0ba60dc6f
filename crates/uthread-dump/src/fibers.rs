//! Reads the fibers of a process.

use std::mem;
use std::rc::Rc;

use anyhow::Result;
use uthread::root::Layout;

use crate::ahead::Ahead;
use crate::awaited::{self, Referred};
use crate::controls::{Controls, references};
use crate::interrupted::interrupted;
use crate::memory::{Memory, PAGE, Piece, Registers, read_one, word};
use crate::modules::Modules;
use crate::roots;
use crate::snapshot::{Identity, left_off};
use crate::taken::{Taken, TakenList};

/// How far below the mark of a suspended fiber the switch saves registers at most.
const SAVED_BELOW_MAX: u64 = 1024;

/// Maximum number of bytes of a stack that are read.
const STACK_BYTES_MAX: u64 = 256 * 1024;

/// Maximum length of a name. Longer ones are none.
const TEXT_BYTES_MAX: u64 = 4096;

/// Copies the fibers of all versions of the library in a process. If that runs, only what is
/// [ahead](Ahead) of the next copy. What is the same as in the copy `ahead` is taken from there.
///
/// Does no more than has to be done while the process is stopped: [`Taken::finish`] does the rest.
///
/// # Errors
///
/// There is none, or it is of a version that is not known, or its list changes right now.
pub(crate) fn take(memory: &dyn Memory, modules: &Modules, ahead: Ahead) -> Result<Taken> {
    let mut taken = Taken::new(memory.registers(), ahead);
    for index in 0..taken.threads.len() {
        let (id, registers) = taken.threads[index];
        let before = interrupted(memory, registers.stack);
        let before = before.map(|registers| (id, registers));
        taken.threads.extend(before);
    }
    let mut awaited = mem::take(&mut taken.ahead.awaited);
    for root in &roots::find(memory, modules)? {
        let mut lists = Vec::new();
        for worker in root.workers(memory)?.0 {
            let runtime = taken.add_worker(worker.runtime);
            match addresses(memory, worker.fibers) {
                Some(addresses) => lists.push((worker, runtime, addresses)),
                None => taken.problems.push(format!(
                    "the fibers of worker {} cannot be read: its list is being changed",
                    worker.index
                )),
            }
        }
        let all: Vec<_> = lists
            .iter()
            .flat_map(|list| list.2.iter().copied())
            .collect();
        // After the histories, by which a fiber was suspended before it is copied.
        let histories = lists.iter().map(|list| root.history(memory, list.0));
        let histories: Vec<_> = histories.collect();
        let layout = root.layout;
        let earlier = taken.ahead.controls.pop_front().unwrap_or_default();
        let controls = Rc::new(Controls::copy(memory, layout, &all, earlier));
        let reader = Reading { memory, layout };
        let running = reader.running(&all, &controls, &taken.threads);
        taken.running.extend(running);
        for ((_, runtime, addresses), history) in lists.into_iter().zip(histories) {
            let known = addresses.iter().map(|address| {
                let control = controls.get(*address)?;
                taken.ahead.find(*address, control, layout)
            });
            let known: Vec<_> = known.collect();
            let unknown = addresses.iter().zip(&known);
            let unknown = unknown.filter(|(_, known)| known.is_none());
            let unknown: Vec<_> = unknown
                .map(|(address, _)| controls.piece(*address))
                .collect();
            let stacks = reader.stacks(&unknown);
            awaited.extend(unknown.iter().zip(&stacks).filter_map(|(control, stack)| {
                awaited::of_stack(stack, control.word(layout.top)?, layout)
            }));
            taken.lists.push(TakenList {
                stacks,
                identities: reader.identities(&unknown),
                layout,
                runtime,
                history,
                addresses,
                controls: Rc::clone(&controls),
                known,
            });
        }
    }
    taken.referred = Referred::copy(memory, &awaited, &taken.threads);
    Ok(taken)
}

/// Reads the addresses of fibers in a `Vec` of references at this address. `None` if it is none.
fn addresses(memory: &dyn Memory, vector: u64) -> Option<Vec<u64>> {
    let vector = read_one(memory, vector, 24)?;
    let (references, count) = references(&vector)?;
    if count == 0 {
        return Some(Vec::new());
    }
    let references = read_one(memory, references, count * 8)?;
    let words = references.bytes.chunks_exact(8);
    Some(words.filter_map(|bytes| word(bytes, 0)).collect())
}

/// Reads what fibers of this layout have elsewhere than in their control blocks.
struct Reading<'a> {
    memory: &'a dyn Memory,
    layout: Layout,
}

impl Reading<'_> {
    /// Copies the stacks on which threads are, if they are the stacks of these fibers. Returns each
    /// with the address at which its thread is.
    fn running(
        &self,
        addresses: &[u64],
        controls: &Controls,
        threads: &[(i32, Registers)],
    ) -> Vec<(u64, Piece)> {
        if threads.is_empty() {
            return Vec::new();
        }
        // The stack that ends closest above each thread, if that is on any.
        let mut closest: Vec<_> = threads.iter().map(|at| (at.1.stack, u64::MAX)).collect();
        for address in addresses {
            let control = controls.get(*address).unwrap_or_default();
            let top = word(control, self.layout.top as usize).unwrap_or(0);
            for (stack, end) in &mut closest {
                if (*stack..*end).contains(&top) {
                    *end = top;
                }
            }
        }
        let found = closest.into_iter().filter(|(_, end)| *end != u64::MAX);
        let copy = |(stack, end)| Some((stack, self.running_stack(stack, end)?));
        found.filter_map(copy).collect()
    }

    /// Copies the names of fibers, and the ids of those in whose scopes they were spawned. Few
    /// have one of these.
    fn identities(&self, controls: &[Piece]) -> Vec<Identity> {
        let names = self.names(controls).into_iter();
        let parents = self.scope_parents(controls);
        let identities = names.zip(parents);
        identities
            .map(|(name, scope_of)| Identity { name, scope_of })
            .collect()
    }

    /// Copies the ids of the fibers in whose scopes fibers were spawned.
    fn scope_parents(&self, controls: &[Piece]) -> Vec<Option<u64>> {
        let scopes = controls
            .iter()
            .map(|control| control.word(self.layout.scope));
        let scopes = scopes
            .enumerate()
            .filter_map(|(index, scope)| Some((index, scope.filter(|scope| *scope != 0)?)));
        let parent_at = u64::from(self.layout.scope_parent);
        let (indexes, mut ids): (Vec<_>, Vec<_>) = scopes
            .map(|(index, scope)| (index, Piece::new(scope + parent_at, 8)))
            .unzip();
        self.memory.read(&mut ids);
        let mut parents = vec![None; controls.len()];
        for (index, id) in indexes.into_iter().zip(ids) {
            parents[index] = id.word(0).filter(|id| *id != 0);
        }
        parents
    }

    /// Copies the names of fibers.
    fn names(&self, controls: &[Piece]) -> Vec<Option<String>> {
        let mut names = vec![None; controls.len()];
        let cold = controls
            .iter()
            .map(|control| control.word(self.layout.cold));
        let with_cold = cold
            .enumerate()
            .filter_map(|(index, cold)| Some((index, cold?)));
        let (indexes, mut pointers): (Vec<_>, Vec<_>) = with_cold
            .filter(|(_, cold)| *cold != 0)
            .map(|(index, cold)| (index, Piece::new(cold + u64::from(self.layout.name), 16)))
            .unzip();
        self.memory.read(&mut pointers);
        let text_of = |name: &Piece| match (name.word(0), name.word(8)) {
            (Some(address @ 1..), Some(length @ ..=TEXT_BYTES_MAX)) => {
                Piece::new(address, length as usize)
            }
            _ => Piece::new(0, 0),
        };
        let mut texts: Vec<_> = pointers.iter().map(text_of).collect();
        self.memory.read(&mut texts);
        for (index, text) in indexes.into_iter().zip(texts) {
            if text.address != 0 {
                names[index] = String::from_utf8(text.bytes).ok();
            }
        }
        names
    }

    /// Copies the used parts of the stacks of suspended fibers, and the tops.
    fn stacks(&self, controls: &[Piece]) -> Vec<Piece> {
        let stack_of = |control: &Piece| {
            let top = control.word(self.layout.top).unwrap_or(0);
            let end = top.wrapping_add(self.top_bytes());
            let left_off = left_off(&control.bytes, self.layout);
            let lowest = left_off.saturating_sub(SAVED_BELOW_MAX);
            let is_used =
                left_off != 0 && lowest < top && end.wrapping_sub(lowest) <= STACK_BYTES_MAX;
            let start = if is_used { lowest } else { top };
            Piece::new(start, end.wrapping_sub(start) as usize)
        };
        let mut stacks: Vec<_> = controls.iter().map(stack_of).collect();
        self.memory.read(&mut stacks);
        for (stack, control) in stacks.iter_mut().zip(controls) {
            if stack.bytes.is_empty() {
                self.copy_near_guard(stack, control);
            }
        }
        stacks
    }

    /// Copies the stack of a fiber that has left off close to the guard, which cannot be read.
    fn copy_near_guard(&self, stack: &mut Piece, control: &Piece) {
        let top = control.word(self.layout.top).unwrap_or(0);
        let left_off = left_off(&control.bytes, self.layout);
        let page = left_off - left_off % PAGE;
        if (stack.address..top).contains(&page)
            && let bytes = top + self.top_bytes() - page
            && let Some(above) = read_one(self.memory, page, bytes as usize)
        {
            *stack = above;
        }
    }

    /// Copies the stack of a fiber that runs. An overflow ends in the guard, which cannot be read.
    fn running_stack(&self, lowest: u64, top: u64) -> Option<Piece> {
        let copy = |lowest: u64| {
            let bytes = (top + self.top_bytes()).checked_sub(lowest)?;
            read_one(self.memory, lowest, bytes.min(STACK_BYTES_MAX) as usize)
        };
        copy(lowest).or_else(|| copy(lowest.next_multiple_of(PAGE)))
    }

    fn top_bytes(&self) -> u64 {
        u64::from(self.layout.limits.max(self.layout.fiber)) + 16
    }
}
