//! What parked fibers wait for, if that is for one fiber.

use std::collections::{HashMap, HashSet};

use uthread::root::{Awaited, Layout};

use crate::interrupted;
use crate::memory::{Memory, Piece, Registers};

/// What the words of fibers refer to, copied.
#[derive(Default)]
pub(crate) struct Referred {
    /// States of locks, and ids of threads.
    values: HashMap<Awaited, u32>,
    /// Where the threads are that fibers have of their own, with their stacks.
    threads: HashMap<i32, (Registers, Piece)>,
}

/// Returns what a fiber waits for whose stack this is.
pub(crate) fn of_stack(stack: &Piece, top: u64, layout: Layout) -> Option<Awaited> {
    Awaited::of_word(stack.word_at(top.wrapping_add(layout.awaited.into()))?)
}

impl Referred {
    /// Copies what these refer to, among it the stacks of some of the threads.
    pub(crate) fn copy(
        memory: &dyn Memory,
        awaited: &HashSet<Awaited>,
        threads: &[(i32, Registers)],
    ) -> Referred {
        let word = |awaited: &Awaited| match awaited {
            Awaited::Lock(address) | Awaited::Thread(address) => {
                Some((*awaited, Piece::new(*address, 4)))
            }
            _ => None,
        };
        let (referring, mut words): (Vec<_>, Vec<_>) = awaited.iter().filter_map(word).unzip();
        memory.read(&mut words);
        let values = referring.into_iter().zip(&words);
        let values = values.filter_map(|(awaited, word)| Some((awaited, word.half(0)?)));
        let mut referred = Referred {
            values: values.collect(),
            threads: HashMap::new(),
        };
        let is_thread = |(awaited, _): &(&Awaited, _)| matches!(awaited, Awaited::Thread(_));
        let ids = referred.values.iter().filter(is_thread);
        let ids: HashSet<_> = ids.map(|(_, id)| id.cast_signed()).collect();
        for (id, registers) in threads.iter().filter(|(id, _)| ids.contains(id)) {
            // The first one: what a handler has interrupted comes later.
            if !referred.threads.contains_key(id)
                && let Some(stack) = interrupted::used(memory, registers.stack)
            {
                referred.threads.insert(*id, (*registers, stack));
            }
        }
        referred
    }

    /// Returns the state of a lock, or the id of a thread.
    pub(crate) fn value(&self, awaited: Awaited) -> Option<u32> {
        self.values.get(&awaited).copied()
    }

    /// Takes the copied stack of a thread.
    pub(crate) fn take_thread(&mut self, id: i32) -> Option<(Registers, Piece)> {
        self.threads.remove(&id)
    }
}
