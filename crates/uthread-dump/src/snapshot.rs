//! Copies of the memory of fibers.

use std::rc::Rc;
use std::time::Duration;

use uthread::root::{Awaited, Layout};

use crate::awaited::Referred;
use crate::controls::Controls;
use crate::memory::{Piece, Registers, word};

/// The fibers of a process, copied.
#[derive(Default)]
pub(crate) struct Copied {
    pub(crate) fibers: Vec<Snapshot>,
    /// The control blocks that were copied together, for each root.
    pub(crate) controls: Vec<Rc<Controls>>,
    /// `true` if the process has not been stopped.
    pub(crate) is_running: bool,
    /// The words and threads to which these refer.
    pub(crate) referred: Referred,
    /// Number of workers by runtime.
    pub(crate) workers: Vec<(u64, usize)>,
    /// Why some fibers are missing or incomplete.
    pub(crate) problems: Vec<String>,
}

/// The memory of a fiber, copied.
pub(crate) struct Snapshot {
    pub(crate) layout: Layout,
    pub(crate) runtime: usize,
    pub(crate) control: Piece,
    pub(crate) identity: Identity,
    /// Its thread, if it runs.
    pub(crate) running: Option<(i32, Registers)>,
    /// The part of its stack that it uses, up to the top.
    pub(crate) stack: Piece,
    /// What it waits for while it is parked, if that is known, with the value that this refers to.
    pub(crate) awaited: Option<Awaited>,
    pub(crate) value: Option<u32>,
    /// The least time since it ran last, if that is known.
    pub(crate) suspended_for: Option<Duration>,
    /// `true` if its last switch was completed before it was copied.
    pub(crate) is_settled: bool,
    /// `true` if it is the same as in the copy before, since when it has not run.
    pub(crate) is_still: bool,
}

impl Copied {
    /// Leaves out the stacks of those that have run since the copy before. The process has not been
    /// stopped.
    pub(crate) fn leave_out_moving(&mut self) {
        for fiber in self.fibers.iter_mut().filter(|fiber| !fiber.is_still) {
            fiber.stack = Piece::new(0, 0);
            fiber.suspended_for = None;
            fiber.awaited = None;
        }
        self.is_running = true;
    }
}

/// What a fiber has from its spawn on.
#[derive(Clone, Default)]
pub(crate) struct Identity {
    pub(crate) name: Option<String>,
    /// The id of the fiber in whose scope it was spawned.
    pub(crate) scope_of: Option<u64>,
}

/// Returns the mark of a suspended fiber.
pub(crate) fn left_off(control: &[u8], layout: Layout) -> u64 {
    word(control, layout.left_off as usize).unwrap_or(0) & !7
}
