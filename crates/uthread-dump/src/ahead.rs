//! The copies of stacks that are made before the process is stopped, so that it is stopped for
//! less.
//!
//! A copy is used only of a fiber that was suspended then and has not run since: its last switch was
//! completed before the stack was copied, and is still the last one when the process has stopped.

use std::collections::{HashMap, HashSet, VecDeque};
use std::mem;
use std::rc::Rc;

use uthread::root::{Awaited, Layout, Reason};

use crate::controls::{Controls, run_alone};
use crate::memory::{Memory, Piece, word};
use crate::snapshot::{Copied, Identity, Snapshot, left_off};

/// The copied fibers, in the order of the lists.
#[derive(Default)]
pub(crate) struct Ahead {
    copies: Vec<Snapshot>,
    /// What each had then; `None` of those whose stacks may have changed while they were copied.
    marks: Vec<Option<Mark>>,
    by_address: HashMap<u64, usize>,
    /// The copied control blocks, for each root.
    pub(crate) controls: VecDeque<Controls>,
    /// What they wait for.
    pub(crate) awaited: HashSet<Awaited>,
    /// Where the next fiber probably is, as the lists have mostly the same order.
    next: usize,
}

/// What changes if a fiber runs or its memory becomes another one's.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark {
    address: u64,
    id: u64,
    top: u64,
    left_off: u64,
    home: u64,
    last_switch: u64,
}

impl Mark {
    /// Returns the mark of a suspended fiber. `None` of one that has run without its worker, which
    /// is no switch.
    fn of(address: u64, control: &[u8], layout: Layout) -> Option<Mark> {
        let word = |offset: u32| word(control, offset as usize);
        let half = |offset: u32| Some(word(offset)? & u64::from(u32::MAX));
        let reason = *control.get(layout.reason as usize)?;
        (reason != Reason::Alone as u8).then_some(Mark {
            address,
            id: word(layout.id)?,
            top: word(layout.top)?,
            left_off: left_off(control, layout),
            home: half(layout.home)?,
            last_switch: half(layout.last_switch)?,
        })
    }
}

impl Ahead {
    /// Takes what was copied while the process ran.
    pub(crate) fn of(copied: Copied) -> Ahead {
        let copies = copied.fibers;
        let addresses = copies.iter().map(|copy| copy.control.address);
        let mark = |copy: &Snapshot| {
            let is_whole = copy.is_settled && !copy.stack.bytes.is_empty();
            let of = || Mark::of(copy.control.address, &copy.control.bytes, copy.layout);
            is_whole.then(of).flatten()
        };
        Ahead {
            by_address: addresses.zip(0..).collect(),
            marks: copies.iter().map(mark).collect(),
            controls: copied
                .controls
                .into_iter()
                .filter_map(Rc::into_inner)
                .collect(),
            awaited: copies.iter().filter_map(|copy| copy.awaited).collect(),
            next: 0,
            copies,
        }
    }

    /// Leaves out the fibers that run without their workers, which is no switch: on a thread that
    /// has not been stopped. Called between the copy of the stacks and the next one of the fibers.
    pub(crate) fn leave_out_alone(&mut self, memory: &dyn Memory) {
        let record = |copy: &Snapshot| copy.control.word(copy.layout.record).unwrap_or(0);
        let records = self.copies.iter().map(|copy| (record(copy), copy.layout));
        let alone = run_alone(memory, records);
        for ((copy, mark), is_alone) in self.copies.iter().zip(&mut self.marks).zip(alone) {
            if record(copy) != 0 && is_alone != Some(false) {
                *mark = None;
            }
        }
    }

    /// Finds the copy of a fiber, unless it may have changed.
    pub(crate) fn find(&mut self, address: u64, control: &[u8], layout: Layout) -> Option<usize> {
        let mark = Mark::of(address, control, layout)?;
        let next = self.marks.get(self.next).copied().flatten();
        let index = match next {
            Some(next) if next.address == address => self.next,
            _ => *self.by_address.get(&address)?,
        };
        self.next = index + 1;
        (self.marks[index] == Some(mark)).then_some(index)
    }

    /// Takes a copied stack, and the identity, which do not change.
    pub(crate) fn take(&mut self, index: usize) -> Option<(Piece, Identity)> {
        let copy = self.copies.get_mut(index)?;
        let stack = mem::replace(&mut copy.stack, Piece::new(0, 0));
        Some((stack, mem::take(&mut copy.identity)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A layout in which each field has eight bytes.
    fn layout() -> Layout {
        let mut layout = Layout::from_words([0; Layout::BYTES / 4]);
        (layout.id, layout.top, layout.left_off) = (0, 8, 16);
        (layout.home, layout.last_switch, layout.reason) = (24, 32, 40);
        layout
    }

    fn control() -> Piece {
        let words = [7, 0x9000, 0x8800 | 2, 1, 100, Reason::Parked as u64];
        let words: [u64; 6] = words;
        Piece {
            address: 0x100,
            bytes: words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        }
    }

    fn ahead(is_settled: bool) -> Ahead {
        let snapshot = Snapshot {
            layout: layout(),
            runtime: 0,
            control: control(),
            identity: Identity::default(),
            running: None,
            stack: Piece::new(0x8000, 0x1000),
            awaited: None,
            value: None,
            suspended_for: None,
            is_settled,
            is_still: false,
        };
        Ahead::of(Copied {
            fibers: vec![snapshot],
            ..Copied::default()
        })
    }

    /// Returns whether a copy is used of a fiber in which this byte has another value.
    fn is_used_after(byte: usize, value: u8) -> bool {
        let mut control = control();
        control.bytes[byte] = value;
        ahead(true).find(0x100, &control.bytes, layout()).is_some()
    }

    #[test]
    fn a_fiber_that_has_not_run_is_not_copied_again() {
        assert!(
            ahead(true)
                .find(0x100, &control().bytes, layout())
                .is_some()
        );
        // It was visited, or what it waited for has come.
        assert!(is_used_after(16, 3));
        assert!(is_used_after(40, Reason::Ready as u8));
    }

    #[test]
    fn a_fiber_that_may_have_run_is_copied_again() {
        assert!(
            ahead(false)
                .find(0x100, &control().bytes, layout())
                .is_none()
        );
        for (byte, value) in [(0, 8), (4, 1), (8, 8), (16, 8), (24, 2), (32, 101)] {
            assert!(!is_used_after(byte, value), "byte {byte}");
        }
        assert!(!is_used_after(40, Reason::Alone as u8));
        let mut ahead = ahead(true);
        assert!(ahead.find(0x200, &control().bytes, layout()).is_none());
    }
}
