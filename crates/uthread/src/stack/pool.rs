//! The pool of stacks: few large mappings, many stacks, memory only where one was used.
//!
//! A slab is one anonymous mapping that holds many stacks. Each stack's lowest pages are its guard,
//! a region without a mapping of its own where the kernel has that, so that a million stacks fit under
//! `vm.max_map_count`. Stacks for fibers that need more than the others are [`larger`](super::larger).

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::Stack;
use super::cache;
use super::larger::LargerStacks;
use super::memory::{self, Guards, guard_size, page_size};

/// The smallest stack without its guard: room for a panic with its backtrace.
pub(crate) const STACK_SIZE_MIN: usize = 64 * 1024;

/// Stacks in the first slab: enough for a small program, 16 MiB of address space at the default.
const SLAB_STACKS_FIRST: usize = 64;

/// Stacks in the largest slab: slabs double up to here, so that a million stacks take a few
/// hundred mappings while no single one asks for more than 1 GiB of address space at the default.
const SLAB_STACKS_MAX: usize = 4096;

/// Larger stacks than any thread has are a mistake in the argument, and the arithmetic of the pool, which
/// maps up to 4,096 at once, has to fit the address space.
pub(crate) const STACK_SIZE_MAX: usize = 1024 * 1024 * 1024;

/// Stacks begin in turn at so many different lines of their first page: beginning all at the same
/// address modulo a page they would compete for a sixty-fourth of the cache. A quarter of the page at
/// most is lost to it, so that a waiting fiber still fits into what is left.
const COLOURS: usize = 16;

/// Stacks made, handed out and taken back at once: enough that a system call for all costs little for each, few
/// enough that the pages that no fiber needs after all are 64 KiB a worker.
pub(crate) const BATCH_STACKS: usize = 16;

/// What a returned stack keeps: the pages any fiber touches again at once.
pub(super) const KEPT_BYTES: usize = 8 * 1024;

/// Free stacks that keep their hottest pages, 8 MiB in all: enough for the next burst to start
/// warm. Those above keep nothing, so that a burst of a million fibers is not remembered.
const WARM_STACKS_MAX: usize = 1024;

/// All stacks of one runtime: of one size, but for some that are larger.
#[derive(Debug)]
pub(crate) struct Pool {
    stack_size: usize,
    guards: Guards,
    /// Length of the free list, to be read without the lock.
    free_count: AtomicUsize,
    inner: Mutex<Inner>,
    larger: LargerStacks,
}

#[derive(Debug, Default)]
struct Inner {
    free: Vec<Stack>,
    slabs: Vec<Slab>,
    /// Stacks handed out and not yet returned.
    lent: usize,
}

#[derive(Debug)]
struct Slab {
    start: NonNull<u8>,
    stacks: usize,
    carved: usize,
}

#[allow(
    unsafe_code,
    reason = "the pointer is the address of a mapping, owned like a Box"
)]
// SAFETY: the mapping belongs to the slab alone and is bound to no thread.
unsafe impl Send for Slab {}

impl Pool {
    /// A pool of stacks of `stack_size` bytes, guard included, rounded up to pages and to what a
    /// guard and [`STACK_SIZE_MIN`] take.
    pub(crate) fn new(stack_size: usize) -> Pool {
        let stack_size =
            stack_size.max(STACK_SIZE_MIN + guard_size() + COLOURS * cache::LINE_BYTES);
        let stack_size = stack_size.next_multiple_of(page_size());
        Pool {
            stack_size,
            guards: Guards::new(),
            free_count: AtomicUsize::new(0),
            inner: Mutex::default(),
            larger: LargerStacks::default(),
        }
    }

    /// Adds some stacks with their guards in place, used before or new, to those of a worker.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where address space or `vm.max_map_count` is used up; none was added then.
    pub(crate) fn take(&self, taken: &mut Vec<Stack>) -> io::Result<()> {
        let before = taken.len();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = inner.free.is_empty();
        if is_new {
            self.carve(&mut inner, taken)?;
        } else {
            let left = inner.free.len().saturating_sub(BATCH_STACKS);
            taken.extend(inner.free.drain(left..));
        }
        inner.lent += taken.len() - before;
        self.free_count.store(inner.free.len(), Ordering::Relaxed);
        drop(inner);
        if is_new {
            let ends = taken[before..].iter().map(Stack::end);
            let pages: Vec<_> = ends.map(|end| end - page_size()).collect();
            memory::populate(&pages);
        }
        Ok(())
    }

    /// A stack with room for so many bytes, at most [`STACK_SIZE_MAX`], where that is more than the others
    /// have.
    ///
    /// # Errors
    ///
    /// As [`take`](Pool::take).
    pub(crate) fn take_larger(&self, bytes: usize) -> io::Result<Option<Stack>> {
        if bytes.saturating_add(guard_size()) <= self.stack_size {
            return Ok(None);
        }
        self.larger.take(bytes, &self.guards).map(Some)
    }

    /// A stack on which any fiber fits, and which is none of the others.
    ///
    /// # Errors
    ///
    /// As [`take`](Pool::take).
    pub(crate) fn take_reserve(&self) -> io::Result<Stack> {
        self.larger.take(self.stack_size, &self.guards)
    }

    /// Whether a stack may be one of those.
    pub(crate) fn is_reserve(&self, stack: &Stack) -> bool {
        stack.extent().size() == LargerStacks::size_for(self.stack_size)
    }

    /// Whether a stack is like the others.
    pub(crate) fn is_ordinary(&self, stack: &Stack) -> bool {
        stack.extent().size() == self.stack_size
    }

    /// Takes a stack back that is not like the others.
    pub(crate) fn give_larger(&self, stack: Stack) {
        self.larger.give(stack);
    }

    /// Takes the others back, and returns all but their hottest pages to the kernel.
    pub(crate) fn give(&self, stacks: impl IntoIterator<Item = Stack>) {
        let stacks: Vec<_> = stacks.into_iter().collect();
        // Relaxed: a guess is enough.
        let is_warm = self.free_count.load(Ordering::Relaxed) < WARM_STACKS_MAX;
        let kept = if is_warm { KEPT_BYTES } else { 0 };
        let starts: Vec<_> = stacks
            .iter()
            .map(|stack| stack.limit.get() + guard_size())
            .collect();
        memory::discard(&starts, self.stack_size - guard_size() - kept);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.lent -= stacks.len();
        inner.free.extend(stacks);
        self.free_count.store(inner.free.len(), Ordering::Relaxed);
    }

    /// Adds the next stacks of the newest slab, or the first of a new one.
    fn carve(&self, inner: &mut Inner, carved: &mut Vec<Stack>) -> io::Result<()> {
        if inner
            .slabs
            .last()
            .is_none_or(|slab| slab.carved == slab.stacks)
        {
            let stacks = inner.slabs.last().map_or(SLAB_STACKS_FIRST, |slab| {
                (slab.stacks * 2).min(SLAB_STACKS_MAX)
            });
            inner.slabs.push(self.new_slab(stacks)?);
        }
        let slab = inner
            .slabs
            .last_mut()
            .expect("a slab was pushed just above");
        let last = slab.stacks.min(slab.carved + BATCH_STACKS);
        let start = slab.start.addr().get();
        let limits: Vec<_> = (slab.carved..last)
            .map(|place| start + place * self.stack_size)
            .collect();
        let guarded = self.guards.install_all(&limits)?;
        let places = slab.carved..slab.carved + guarded;
        slab.carved = places.end;
        let stacks = places.zip(limits).map(|(place, limit)| {
            let colour = place % COLOURS * cache::LINE_BYTES;
            Stack {
                limit: NonZeroUsize::new(limit).expect("a mapping never starts at address zero"),
                base: NonZeroUsize::new(limit + self.stack_size - colour)
                    .expect("above a non-zero limit"),
            }
        });
        carved.extend(stacks.rev());
        Ok(())
    }

    /// A slab of that many stacks, or of fewer where so much address space is refused (strict
    /// overcommit, `ulimit -v`).
    fn new_slab(&self, mut stacks: usize) -> io::Result<Slab> {
        loop {
            match memory::map(stacks * self.stack_size) {
                Ok(start) => {
                    return Ok(Slab {
                        start,
                        stacks,
                        carved: 0,
                    });
                }
                Err(_) if stacks > 1 => stacks /= 2,
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Whether guards are regions here, found out as every pool does: by its first stack.
///
/// # Errors
///
/// As [`Pool::take`].
pub(crate) fn has_guard_regions() -> io::Result<bool> {
    let pool = Pool::new(STACK_SIZE_MIN);
    let mut stacks = Vec::new();
    pool.take(&mut stacks)?;
    pool.give(stacks);
    Ok(pool.guards.are_regions())
}

impl Drop for Pool {
    #[allow(unsafe_code, reason = "giving memory back")]
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A stack that is still out may be running or be written by the kernel: leak, never free.
        if inner.lent == 0 {
            for slab in inner.slabs.drain(..) {
                let length = slab.stacks * self.stack_size;
                // SAFETY: no stack of the pool is lent, so nothing refers to the mapping any more.
                unsafe { memory::unmap(slab.start.addr().get(), length) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::ptr;

    use super::*;

    #[test]
    fn stacks_are_disjoint_and_reused() {
        let pool = Pool::new(STACK_SIZE_MIN);
        let stacks = take(&pool, 3 * BATCH_STACKS);
        let mut limits: Vec<_> = stacks.iter().map(|stack| stack.limit).collect();
        for (index, stack) in stacks.iter().enumerate() {
            let mut others = stacks[index + 1..].iter();
            assert!(others.all(|other| stack.base <= other.limit || other.base <= stack.limit));
        }
        pool.give(stacks);
        let again = take(&pool, 3 * BATCH_STACKS);
        let mut limits_again: Vec<_> = again.iter().map(|stack| stack.limit).collect();
        limits.sort();
        limits_again.sort();
        assert_eq!(limits_again, limits);
        pool.give(again);
    }

    fn take(pool: &Pool, count: usize) -> Vec<Stack> {
        let mut stacks = Vec::new();
        while stacks.len() < count {
            pool.take(&mut stacks).unwrap();
        }
        stacks
    }

    #[test]
    fn the_older_guard_works_too() {
        let pool = Pool::new(STACK_SIZE_MIN);
        pool.guards.give_up_regions();
        let stacks = take(&pool, 1);
        for stack in &stacks {
            assert!(stack.extent().guards(stack.limit.get()));
            assert!(!stack.extent().guards(stack.limit.get() + guard_size()));
            assert_guarded(stack);
        }
        pool.give(stacks);
    }

    #[test]
    fn each_of_many_has_a_guard_also_when_it_is_used_again() {
        let pool = Pool::new(STACK_SIZE_MIN);
        for _ in 0..2 {
            let stacks = take(&pool, SLAB_STACKS_FIRST + 3 * BATCH_STACKS);
            stacks.iter().for_each(assert_guarded);
            pool.give(stacks);
        }
    }

    fn assert_guarded(stack: &Stack) {
        let start = stack.limit.get();
        let above = start + guard_size();
        assert!(!is_readable(start), "the lowest byte");
        assert!(!is_readable(above - 1), "the guard's last byte");
        assert!(is_readable(above), "the first above");
        assert!(is_readable(stack.base.get() - 1), "the highest");
    }

    /// Whether the kernel finds a byte there.
    #[allow(unsafe_code, reason = "an address that may be nobody's")]
    fn is_readable(address: usize) -> bool {
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let byte = ptr::with_exposed_provenance::<libc::c_void>(address);
        // SAFETY: where there is no byte the call fails.
        let written = unsafe { libc::write(writer.as_raw_fd(), byte, 1) };
        assert!(written == 1 || io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT));
        written == 1
    }

    #[test]
    fn only_so_many_free_stacks_stay_warm() {
        let pool = Pool::new(STACK_SIZE_MIN);
        let stacks = take(&pool, WARM_STACKS_MAX + 10);
        stacks.iter().for_each(touch);
        let ends: Vec<_> = stacks.iter().map(Stack::end).collect();
        stacks.into_iter().for_each(|stack| pool.give([stack]));
        let warm = ends.into_iter().filter(|end| is_resident(*end)).count();
        assert_eq!(warm, WARM_STACKS_MAX);
    }

    #[allow(unsafe_code, reason = "writes to a stack nobody runs on")]
    fn touch(stack: &Stack) {
        let top = ptr::with_exposed_provenance_mut::<u8>(stack.base.get() - 1);
        // SAFETY: the byte is the stack's highest, and nobody else uses the stack.
        unsafe { top.write_volatile(1) };
    }

    /// Whether the page just below `end` is in memory.
    #[allow(unsafe_code, reason = "mincore has no safe form")]
    fn is_resident(end: usize) -> bool {
        let page = ptr::with_exposed_provenance_mut(end - page_size());
        let mut resident = 0_u8;
        // SAFETY: the page is mapped, and one page needs one byte for the answer.
        let result = unsafe { libc::mincore(page, page_size(), &mut resident) };
        assert_eq!(result, 0);
        resident & 1 == 1
    }

    #[test]
    fn many_stacks_take_few_mappings() {
        let mappings = || {
            std::fs::read_to_string("/proc/self/maps")
                .unwrap()
                .lines()
                .count()
        };
        let pool = Pool::new(STACK_SIZE_MIN);
        let before = mappings();
        let stacks = take(&pool, 10_000);
        if pool.guards.are_regions() {
            // Tests beside it give theirs back meanwhile.
            assert!(mappings() < before + 100);
        }
        pool.give(stacks);
    }
}
