//! The copies of stacks that are made before the process is stopped, so that it is stopped for
//! less.
//!
//! A copy is used only of a fiber that was suspended then and has not run since: its last switch was
//! completed before the stack was copied, and is still the last one when the process has stopped.

use std::collections::HashMap;

use uthread::root::{Layout, Reason};

use crate::memory::Piece;
use crate::snapshot::{Copied, Snapshot, left_off};

/// The stacks of suspended fibers, by the addresses of the fibers.
#[derive(Default)]
pub(crate) struct Ahead(HashMap<u64, Snapshot>);

impl Ahead {
    /// Takes what was copied while the process ran.
    pub(crate) fn of(copied: Copied) -> Ahead {
        let settled = copied.fibers.into_iter().filter(|copy| copy.is_settled);
        Ahead(settled.map(|copy| (copy.control.address, copy)).collect())
    }

    /// Returns the copied stack of a fiber, unless it may have changed.
    pub(crate) fn take(&mut self, control: &Piece, layout: Layout) -> Option<Piece> {
        let copy = self.0.remove(&control.address)?;
        let halves = [layout.id, layout.id + 4, layout.home, layout.last_switch];
        let words = |control: &Piece| {
            let half = |at| control.half(at);
            (halves.map(half), control.word(layout.top))
        };
        let is_unchanged = words(control) == words(&copy.control)
            && left_off(control, layout) == left_off(&copy.control, layout);
        // It may have run without its worker, which is no switch.
        let reason = control.bytes.get(layout.reason as usize).copied();
        let has_waited = reason.is_some_and(|reason| reason != Reason::Alone as u8);
        (is_unchanged && has_waited && !copy.stack.bytes.is_empty()).then_some(copy.stack)
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
            name: None,
            running: None,
            stack: Piece::new(0x8000, 0x1000),
            suspended_for: None,
            is_settled,
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
        ahead(true).take(&control, layout()).is_some()
    }

    #[test]
    fn a_fiber_that_has_not_run_is_not_copied_again() {
        assert!(ahead(true).take(&control(), layout()).is_some());
        // It was visited, or what it waited for has come.
        assert!(is_used_after(16, 3));
        assert!(is_used_after(40, Reason::Ready as u8));
    }

    #[test]
    fn a_fiber_that_may_have_run_is_copied_again() {
        assert!(ahead(false).take(&control(), layout()).is_none());
        for (byte, value) in [(0, 8), (4, 1), (8, 8), (16, 8), (24, 2), (32, 101)] {
            assert!(!is_used_after(byte, value), "byte {byte}");
        }
        assert!(!is_used_after(40, Reason::Alone as u8));
        let mut ahead = ahead(true);
        let elsewhere = Piece {
            address: 0x200,
            ..control()
        };
        assert!(ahead.take(&elsewhere, layout()).is_none());
    }
}
