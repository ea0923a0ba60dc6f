//! Stacks larger than the runtime's default, for single fibers that need them.
//!
//! Each stack is a mapping of its own. Its usable size is a power of two, so a returned stack
//! serves the next fiber with similar needs.

use std::io;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use super::memory::{self, Guards, guard_size};
use super::sizes::{KEPT_BYTES, STACK_SIZE_MAX, STACK_SIZE_MIN};
use super::{Stack, TOP_BYTES};

use crate::atomic::lock;

/// Number of size classes, from the smallest to the largest stack. Each is twice as large as the
/// previous one.
const CLASSES: usize = (STACK_SIZE_MAX / STACK_SIZE_MIN).ilog2() as usize + 1;

/// Maximum number of free stacks kept per size class: enough if a few deep fibers come and go. All
/// classes together keep two megabytes of memory.
const KEPT_STACKS_MAX: usize = 16;

/// The free stacks by size class.
#[derive(Debug, Default)]
pub(super) struct LargerStacks {
    free: Mutex<[Vec<Stack>; CLASSES]>,
    /// Number of bytes of each, a multiple of the page size, that fibers do not have for their
    /// frames.
    block_size: usize,
}

impl LargerStacks {
    /// Creates the list of stacks which are larger by `block_size` bytes, whole pages.
    pub(super) fn with_blocks(block_size: usize) -> LargerStacks {
        LargerStacks {
            free: Mutex::default(),
            block_size,
        }
    }

    /// Returns a stack with at least `bytes` usable bytes, at most [`STACK_SIZE_MAX`], with its
    /// guard installed.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the address space or `vm.max_map_count` is exhausted.
    #[allow(unsafe_code, reason = "giving memory back")]
    pub(super) fn take(&self, bytes: usize, guards: &Guards) -> io::Result<Stack> {
        let length = self.size_for(bytes);
        let room = length - guard_size() - self.block_size;
        let kept = self.with_class(room, Vec::pop);
        if let Some(stack) = kept {
            return Ok(stack);
        }
        let limit = memory::map(length)?.expose_provenance();
        if let Err(error) = guards.install(limit.get()) {
            // SAFETY: the memory was mapped above and not handed out.
            unsafe { memory::unmap(limit.get(), length) };
            return Err(error);
        }
        Ok(Stack {
            limit,
            base: NonZeroUsize::new(limit.get() + length - TOP_BYTES)
                .expect("above a non-zero limit"),
            end: limit.get() + length,
        })
    }

    /// Returns the size, guard included, of a stack with at least `bytes` usable bytes.
    pub(super) fn size_for(&self, bytes: usize) -> usize {
        bytes.next_power_of_two().max(STACK_SIZE_MIN) + guard_size() + self.block_size
    }

    /// Takes a stack back. Returns all but its hottest pages to the kernel, or unmaps it.
    pub(super) fn give(&self, stack: Stack) {
        let start = stack.limit.get() + guard_size();
        memory::discard(&[start], stack.end - start - KEPT_BYTES);
        let room = stack.end - start - self.block_size;
        let left = self.with_class(room, |free| {
            if free.len() == KEPT_STACKS_MAX {
                return Some(stack);
            }
            free.push(stack);
            None
        });
        if let Some(stack) = left {
            free(stack);
        }
    }

    fn with_class<R>(&self, room: usize, action: impl FnOnce(&mut Vec<Stack>) -> R) -> R {
        let mut free = lock(&self.free);
        action(&mut free[(room / STACK_SIZE_MIN).ilog2() as usize])
    }
}

impl Drop for LargerStacks {
    fn drop(&mut self) {
        let kept = self.free.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A stack that is still in use is leaked, never freed: it may be running, or the kernel may
        // write to it.
        kept.iter_mut().flat_map(mem::take).for_each(free);
    }
}

/// Unmaps a stack.
#[allow(unsafe_code, reason = "giving memory back")]
fn free(stack: Stack) {
    // SAFETY: the caller owns the stack and uses it for the last time; each stack is a mapping of
    // its own.
    unsafe { memory::unmap(stack.limit.get(), stack.extent().size()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn take(stacks: &LargerStacks, bytes: usize) -> Stack {
        stacks.take(bytes, &Guards::new()).unwrap()
    }

    fn room(stack: &Stack) -> usize {
        stack.extent().size() - guard_size()
    }

    #[test]
    fn each_has_the_room_and_the_guard() {
        let stacks = LargerStacks::default();
        for (bytes, expected) in [
            (1, STACK_SIZE_MIN),
            (STACK_SIZE_MIN, STACK_SIZE_MIN),
            (STACK_SIZE_MIN + 1, 2 * STACK_SIZE_MIN),
            (3 * MIB, 4 * MIB),
            (STACK_SIZE_MAX, STACK_SIZE_MAX),
        ] {
            let stack = take(&stacks, bytes);
            assert_eq!(room(&stack), expected);
            assert!(stack.extent().guards(stack.limit.get()));
            assert!(!stack.extent().guards(stack.limit.get() + guard_size()));
            stacks.give(stack);
        }
    }

    #[test]
    fn one_that_was_returned_serves_the_next_of_its_size() {
        let stacks = LargerStacks::default();
        let stack = take(&stacks, 3 * MIB);
        let limit = stack.limit;
        stacks.give(stack);
        let smaller = take(&stacks, MIB);
        assert_ne!(smaller.limit, limit);
        let again = take(&stacks, 4 * MIB);
        assert_eq!(again.limit, limit);
        stacks.give(smaller);
        stacks.give(again);
    }

    #[test]
    fn only_so_many_are_kept_and_none_when_all_ends() {
        // A size that no other test uses, as tests run concurrently.
        const SIZE: usize = 512 * MIB;
        let stacks = LargerStacks::default();
        let taken: Vec<_> = (0..KEPT_STACKS_MAX + 3)
            .map(|_| take(&stacks, SIZE))
            .collect();
        let limits: Vec<_> = taken.iter().map(|stack| stack.limit.get()).collect();
        // A part may be mapped again by another test.
        let is_whole = |limit: usize| is_mapped(limit + guard_size(), SIZE);
        let mapped = || limits.iter().filter(|limit| is_whole(**limit)).count();
        assert_eq!(mapped(), KEPT_STACKS_MAX + 3);
        taken.into_iter().for_each(|stack| stacks.give(stack));
        assert_eq!(mapped(), KEPT_STACKS_MAX);
        drop(stacks);
        assert_eq!(mapped(), 0);
    }

    /// Returns `true` if a mapping contains so many bytes from this address on.
    fn is_mapped(address: usize, bytes: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let (range, _) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            number(start) <= address && address + bytes <= number(end)
        })
    }
}
