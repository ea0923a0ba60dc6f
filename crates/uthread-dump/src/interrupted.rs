//! What a thread ran before a signal whose handler has a stack of its own: the report of a stack
//! overflow runs on one, and the stack pointer says nothing of the fiber then.

use crate::memory::{Memory, PAGE, Piece, Registers};

/// Maximum number of pages of the handler's stack that are searched: the library's have as many.
const PAGES_MAX: u64 = 16;

/// What the kernel saves before it calls a handler, from the handler's return address on: a
/// `ucontext`, with the place of the handler's stack and the registers.
const FLAGS_AT: u64 = 8;
const LINK_AT: u64 = 16;
const STACK_AT: u64 = 24;
const STACK_BYTES_AT: u64 = 40;
const RBP_AT: u64 = 128;
const RSP_AT: u64 = 168;
const RIP_AT: u64 = 176;

/// The flags that the kernel knows.
const FLAGS_MAX: u64 = 7;

/// Returns the registers that a thread with this stack pointer had before the signal, if it is in a
/// handler on a stack of its own.
pub(crate) fn interrupted(memory: &dyn Memory, stack_pointer: u64) -> Option<Registers> {
    let stack = used(memory, stack_pointer)?;
    let end = stack.address + stack.bytes.len() as u64;
    let saved = (stack_pointer.next_multiple_of(8)..end)
        .step_by(8)
        .find(|at| is_saved(&stack, *at).unwrap_or(false))?;
    Some(Registers {
        instruction: stack.word_at(saved + RIP_AT)?,
        stack: stack.word_at(saved + RSP_AT)?,
        base: stack.word_at(saved + RBP_AT)?,
    })
}

/// Reads the used part of a stack, as far as it can be read, and not all of a deep one.
pub(crate) fn used(memory: &dyn Memory, stack_pointer: u64) -> Option<Piece> {
    let first = stack_pointer - stack_pointer % PAGE;
    let pages = (0..PAGES_MAX).map(|page| first.checked_add(page * PAGE));
    let pages: Option<Vec<_>> = pages.collect();
    let mut pages: Vec<_> = pages?
        .into_iter()
        .map(|page| Piece::new(page, PAGE as usize))
        .collect();
    memory.read(&mut pages);
    let readable = pages.into_iter().take_while(|page| !page.bytes.is_empty());
    Some(Piece {
        address: first,
        bytes: readable.flat_map(|page| page.bytes).collect(),
    })
}

/// Returns `true` if the kernel has saved registers at this address: they name the stack on which
/// they are.
fn is_saved(stack: &Piece, at: u64) -> Option<bool> {
    let word = |offset: u64| stack.word_at(at.checked_add(offset)?);
    if word(FLAGS_AT)? > FLAGS_MAX || word(LINK_AT)? != 0 {
        return Some(false);
    }
    let (start, bytes) = (word(STACK_AT)?, word(STACK_BYTES_AT)?);
    Some(start != 0 && at.checked_sub(start)? < bytes)
}
