//! Reads the fibers of a process.

use anyhow::Result;
use uthread::root::Layout;

use crate::ahead::Ahead;
use crate::controls::{Controls, references};
use crate::history::History;
use crate::interrupted::interrupted;
use crate::memory::{Memory, PAGE, Piece, Registers, read_one, word};
use crate::modules::Modules;
use crate::roots::{self, Found};
use crate::snapshot::{Copied, Snapshot, left_off};

/// How far below the mark of a suspended fiber the switch saves registers at most.
const SAVED_BELOW_MAX: u64 = 1024;

/// Maximum number of bytes of a stack that are read.
const STACK_BYTES_MAX: u64 = 256 * 1024;

/// Maximum length of a name. Longer ones are none.
const TEXT_BYTES_MAX: u64 = 4096;

/// Copies the fibers of all versions of the library in a process. If that runs, only what is
/// [ahead](Ahead) of the next copy. What is the same as in the copy `ahead` is taken from there.
///
/// # Errors
///
/// There is none, or it is of a version that is not known, or its list changes right now.
pub(crate) fn copy(memory: &dyn Memory, modules: &Modules, mut ahead: Ahead) -> Result<Copied> {
    let roots = roots::find(memory, modules)?;
    let mut copied = Copied::default();
    let mut threads = memory.registers();
    for index in 0..threads.len() {
        let (id, registers) = threads[index];
        let before = interrupted(memory, registers.stack);
        threads.extend(before.map(|registers| (id, registers)));
    }
    for root in &roots {
        copy_root(memory, &threads, root, &mut ahead, &mut copied)?;
    }
    Ok(copied)
}

/// Copies what one root leads to.
fn copy_root(
    memory: &dyn Memory,
    threads: &[(i32, Registers)],
    root: &Found,
    ahead: &mut Ahead,
    copied: &mut Copied,
) -> Result<()> {
    for worker in root.workers(memory)?.0 {
        let runtime = match copied
            .workers
            .iter()
            .position(|known| known.0 == worker.runtime)
        {
            Some(index) => index,
            None => {
                copied.workers.push((worker.runtime, 0));
                copied.workers.len() - 1
            }
        };
        copied.workers[runtime].1 += 1;
        let list = List {
            memory,
            threads,
            layout: root.layout,
            runtime,
            history: root.history(memory, worker),
        };
        if list.copy(worker.fibers, ahead, copied).is_none() {
            let problem = format!(
                "the fibers of worker {} cannot be read: its list is being changed",
                worker.index
            );
            copied.problems.push(problem);
        }
    }
    Ok(())
}

/// The fibers that a worker has started.
struct List<'a> {
    memory: &'a dyn Memory,
    /// The threads, and again those that a signal has interrupted.
    threads: &'a [(i32, Registers)],
    layout: Layout,
    runtime: usize,
    history: History,
}

impl List<'_> {
    /// Copies the fibers of a `Vec` of references at this address. Returns `None` if it is none.
    fn copy(&self, vector: u64, ahead: &mut Ahead, copied: &mut Copied) -> Option<()> {
        let vector = read_one(self.memory, vector, 24)?;
        let (references, count) = references(&vector)?;
        if count == 0 {
            return Some(());
        }
        let references = read_one(self.memory, references, count * 8)?;
        let words = references.bytes.chunks_exact(8);
        let addresses: Vec<_> = words.filter_map(|bytes| word(bytes, 0)).collect();
        let controls = self.controls(&addresses);
        let names = self.names(&controls);
        let stacks = self.stacks(&controls, ahead);
        let mut lost = 0;
        for ((control, name), stack) in controls.into_iter().zip(names).zip(stacks) {
            let top = control.word(self.layout.top).unwrap_or(0);
            let at_top = |offset: u32| stack.word_at(top.wrapping_add(offset.into()));
            let limits = (at_top(self.layout.limits), at_top(self.layout.limits + 8));
            let (Some(limit), Some(end)) = limits else {
                lost += 1;
                continue;
            };
            if at_top(self.layout.fiber) != Some(control.address) {
                lost += 1;
                continue;
            }
            let is_on = |at: &&(i32, Registers)| (limit..end).contains(&at.1.stack);
            let running = self.threads.iter().find(is_on).copied();
            let deeper = running.and_then(|(_, at)| self.running_stack(at.stack, top));
            let last_switch = control.half(self.layout.last_switch).unwrap_or(0);
            copied.fibers.push(Snapshot {
                suspended_for: self
                    .history
                    .since(last_switch)
                    .filter(|_| running.is_none()),
                is_settled: self.history.has_completed(last_switch),
                layout: self.layout,
                runtime: self.runtime,
                control,
                name,
                running,
                stack: deeper.unwrap_or(stack),
            });
        }
        if lost > 0 {
            let problem = format!("{lost} fibers start or end right now, and are missing");
            copied.problems.push(problem);
        }
        Some(())
    }

    /// Copies the fields of fibers.
    fn controls(&self, addresses: &[u64]) -> Vec<Piece> {
        let controls = Controls::copy(self.memory, self.layout, addresses);
        let copy = |address: &u64| Piece {
            address: *address,
            bytes: controls.get(*address).unwrap_or_default().to_vec(),
        };
        addresses.iter().map(copy).collect()
    }

    /// Copies the names of fibers, of which few have one.
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
    fn stacks(&self, controls: &[Piece], ahead: &mut Ahead) -> Vec<Piece> {
        let stack_of = |control: &Piece| {
            let top = control.word(self.layout.top).unwrap_or(0);
            let end = top.wrapping_add(self.top_bytes());
            let left_off = left_off(control, self.layout);
            let lowest = left_off.saturating_sub(SAVED_BELOW_MAX);
            let is_used =
                left_off != 0 && lowest < top && end.wrapping_sub(lowest) <= STACK_BYTES_MAX;
            let start = if is_used { lowest } else { top };
            Piece::new(start, end.wrapping_sub(start) as usize)
        };
        let known = controls
            .iter()
            .map(|control| ahead.take(control, self.layout));
        let known: Vec<_> = known.collect();
        let unknown = controls
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none());
        let mut stacks: Vec<_> = unknown.map(|(control, _)| stack_of(control)).collect();
        self.memory.read(&mut stacks);
        let mut read = stacks.into_iter();
        let either = |(control, known): (&Piece, Option<Piece>)| {
            known.unwrap_or_else(|| {
                let mut stack = read.next().expect("one for each that is not known");
                if stack.bytes.is_empty() {
                    self.copy_near_guard(&mut stack, control);
                }
                stack
            })
        };
        controls.iter().zip(known).map(either).collect()
    }

    /// Copies the stack of a fiber that has left off close to the guard, which cannot be read.
    fn copy_near_guard(&self, stack: &mut Piece, control: &Piece) {
        let top = control.word(self.layout.top).unwrap_or(0);
        let left_off = left_off(control, self.layout);
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
