//! The pool of stacks: few large mappings for many stacks, with memory only for those in use.
//!
//! A slab is one anonymous mapping that holds many stacks. The lowest pages of a stack are its
//! guard. If the kernel supports it, the guard needs no mapping of its own, so a million stacks
//! stay below `vm.max_map_count`. Larger stacks for single fibers are in [`larger`](super::larger).

use std::io;
use std::iter;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::larger::LargerStacks;
use super::memory::{self, Guards, guard_size, page_size};
use super::sizes::{BATCH_STACKS, KEPT_BYTES, STACK_SIZE_MIN};
use super::slabs::{Releasing, Slabs};
use super::{Extent, Stack, TOP_BYTES};

use crate::atomic::lock;

/// Maximum number of free stacks that keep their hottest pages, 8 MiB in all: enough for the next
/// burst to start warm. Further stacks keep nothing, so that the memory of a burst of a million
/// fibers is returned.
const WARM_STACKS_MAX: usize = 1024;

/// Number of batches released at once: about a millisecond of a worker's time.
const RELEASED_MAX: usize = 64;

/// Number of batches that warm stacks may keep from being released: half a MiB of page tables.
const SCATTERED_MAX: usize = 64;

/// All stacks of a runtime, of one size except for some larger ones.
#[derive(Debug)]
pub(crate) struct Pool {
    stack_size: usize,
    /// Number of bytes of each stack, larger ones included, that fibers do not have for their
    /// frames.
    block_size: usize,
    guards: Guards,
    /// Number of warm stacks, readable without the lock.
    warm_count: AtomicUsize,
    /// `true` if more batches are to be released.
    has_surplus: AtomicBool,
    inner: Mutex<Inner>,
    larger: LargerStacks,
}

#[derive(Debug)]
struct Inner {
    /// The stacks returned last, which keep their hottest pages.
    warm: Vec<Stack>,
    slabs: Slabs,
    /// Number of stacks handed out and not yet returned.
    lent: usize,
}

impl Inner {
    fn take_surplus(&mut self) -> Vec<Releasing> {
        let next = || self.slabs.take_surplus(self.lent);
        iter::from_fn(next).take(RELEASED_MAX).collect()
    }

    /// Returns `true` if too many batches are kept only by their warm stacks.
    fn is_scattered(&self) -> bool {
        !self.warm.is_empty()
            && self.slabs.has_surplus(self.lent)
            && self.slabs.parts() > self.lent + SCATTERED_MAX
    }
}

impl Pool {
    /// Creates a pool of stacks of `stack_size` bytes, guard included. The size is rounded up to
    /// whole pages, and to at least [`STACK_SIZE_MIN`] plus the guard.
    pub(crate) fn new(stack_size: usize) -> Pool {
        Pool::with_blocks(stack_size, 0)
    }

    /// Creates a pool of stacks which are larger by `block_size` bytes, whole pages, for a block of
    /// thread-local storage.
    pub(crate) fn with_blocks(stack_size: usize, block_size: usize) -> Pool {
        let stack_size = stack_size.max(STACK_SIZE_MIN + guard_size() + TOP_BYTES);
        let stack_size = stack_size.next_multiple_of(page_size()) + block_size;
        Pool {
            stack_size,
            block_size,
            guards: Guards::new(),
            warm_count: AtomicUsize::new(0),
            has_surplus: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                warm: Vec::new(),
                slabs: Slabs::new(stack_size),
                lent: 0,
            }),
            larger: LargerStacks::with_blocks(block_size),
        }
    }

    /// Appends some stacks, reused or new, with their guards installed, to those of a worker.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the address space or `vm.max_map_count` is exhausted. No stack is appended then.
    pub(crate) fn take(&self, taken: &mut Vec<Stack>) -> io::Result<()> {
        let before = taken.len();
        let mut inner = self.lock();
        if inner.warm.is_empty() {
            inner.slabs.take(&self.guards, taken)?;
        } else {
            let left = inner.warm.len().saturating_sub(BATCH_STACKS);
            taken.extend(inner.warm.drain(left..));
        }
        inner.lent += taken.len() - before;
        self.warm_count.store(inner.warm.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the size, guard included, of a stack with at least `bytes` usable bytes, at most
    /// [`STACK_SIZE_MAX`], or `None` if ordinary stacks are large enough.
    pub(crate) fn larger_size(&self, bytes: usize) -> Option<usize> {
        let is_ordinary = bytes.saturating_add(guard_size() + self.block_size) <= self.stack_size;
        (!is_ordinary).then(|| self.larger.size_for(bytes))
    }

    /// Returns a stack with at least `bytes` usable bytes, of the [larger](Pool::larger_size) size.
    ///
    /// # Errors
    ///
    /// The errors of [`take`](Pool::take).
    pub(crate) fn take_larger(&self, bytes: usize) -> io::Result<Stack> {
        self.larger.take(bytes, &self.guards)
    }

    /// Returns a reserve stack, which is large enough for any fiber and not one of the ordinary
    /// stacks.
    ///
    /// # Errors
    ///
    /// The errors of [`take`](Pool::take).
    pub(crate) fn take_reserve(&self) -> io::Result<Stack> {
        self.larger
            .take(self.stack_size - self.block_size, &self.guards)
    }

    /// Returns `true` if a stack of this extent may be a reserve stack.
    pub(crate) fn is_reserve(&self, extent: Extent) -> bool {
        extent.size() == self.larger.size_for(self.stack_size - self.block_size)
    }

    /// Returns `true` if a stack of this extent has the ordinary size.
    pub(crate) fn is_ordinary(&self, extent: Extent) -> bool {
        extent.size() == self.stack_size
    }

    /// Takes back a stack that does not have the ordinary size.
    pub(crate) fn give_larger(&self, stack: Stack) {
        self.larger.give(stack);
    }

    /// Takes back ordinary stacks. Returns all but their hottest pages to the kernel, and
    /// everything of stacks beyond the needs of the next burst.
    pub(crate) fn give(&self, stacks: impl IntoIterator<Item = Stack>) {
        let stacks: Vec<_> = stacks.into_iter().collect();
        // Relaxed: a guess is enough.
        let is_warm = self.warm_count.load(Ordering::Relaxed) < WARM_STACKS_MAX;
        let kept = if is_warm { KEPT_BYTES } else { 0 };
        self.discard(&stacks, kept);
        let mut inner = self.lock();
        inner.lent -= stacks.len();
        if is_warm {
            inner.warm.extend(stacks);
            self.warm_count.store(inner.warm.len(), Ordering::Relaxed);
            if inner.is_scattered() {
                // Left to idle workers, as the memory may be needed again at once.
                self.has_surplus.store(true, Ordering::Relaxed);
            }
            return;
        }
        inner.slabs.give(&stacks);
        self.release_some_of(inner);
    }

    /// Returns to the kernel some of the memory that remains from a peak. Called by idle workers.
    /// The result is `true` if there was any.
    pub(crate) fn release_some(&self) -> bool {
        self.has_surplus.load(Ordering::Relaxed) && self.release_some_of(self.lock())
    }

    #[allow(unsafe_code, reason = "giving memory back")]
    fn release_some_of<'a>(&'a self, mut inner: MutexGuard<'a, Inner>) -> bool {
        if inner.is_scattered() {
            let warm = mem::take(&mut inner.warm);
            self.warm_count.store(0, Ordering::Relaxed);
            drop(inner);
            self.discard(&warm, 0);
            inner = self.lock();
            inner.slabs.give(&warm);
        }
        let surplus = inner.take_surplus();
        // Relaxed: a surplus that a worker misses now is found at its next check.
        let is_all = surplus.len() < RELEASED_MAX;
        self.has_surplus.store(!is_all, Ordering::Relaxed);
        drop(inner);
        let any = !surplus.is_empty();
        for batch in surplus {
            batch.release(self.stack_size, &self.guards);
            let unused = self.lock().slabs.mark_released(batch);
            if let Some((start, length)) = unused {
                // SAFETY: every stack of the slab was returned, and the slab has been removed.
                unsafe { memory::unmap(start, length) };
            }
        }
        any
    }

    /// Returns these pages of stacks in use to the kernel.
    ///
    /// # Safety
    ///
    /// They are below the stack pointers of fibers, which are not resumed during the call.
    #[allow(unsafe_code, reason = "giving memory back")]
    pub(crate) unsafe fn trim(&self, unused: &[Range<usize>]) {
        // SAFETY: by the caller's contract.
        unsafe { memory::discard_unused(unused) };
    }

    /// Returns the memory of free stacks to the kernel, except for `kept` bytes each.
    fn discard(&self, stacks: &[Stack], kept: usize) {
        let starts: Vec<_> = stacks
            .iter()
            .map(|stack| stack.limit.get() + guard_size())
            .collect();
        memory::discard(&starts, self.stack_size - guard_size() - kept);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

/// Returns `true` if the kernel supports guard regions. Found out as every pool does, by its first
/// stack.
///
/// # Errors
///
/// The errors of [`Pool::take`].
pub(crate) fn has_guard_regions() -> io::Result<bool> {
    let pool = Pool::new(STACK_SIZE_MIN);
    let mut stacks = Vec::new();
    pool.take(&mut stacks)?;
    pool.give(stacks);
    Ok(pool.guards.uses_regions())
}

impl Drop for Pool {
    #[allow(unsafe_code, reason = "giving memory back")]
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A stack that is still handed out may be running, or the kernel may write to it: leak it,
        // never free it.
        if inner.lent == 0 {
            for (start, length) in inner.slabs.drain() {
                // SAFETY: no stack of the pool is handed out, so nothing refers to the mapping.
                unsafe { memory::unmap(start, length) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::ptr;

    use super::super::slabs::SLAB_STACKS_FIRST;
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

    /// Returns `true` if the kernel can read a byte at this address.
    #[allow(unsafe_code, reason = "an address that may be nobody's")]
    fn is_readable(address: usize) -> bool {
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let byte = ptr::with_exposed_provenance::<libc::c_void>(address);
        // SAFETY: if there is no byte, the call fails.
        let written = unsafe { libc::write(writer.as_raw_fd(), byte, 1) };
        assert!(written == 1 || io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT));
        written == 1
    }

    #[test]
    fn only_so_many_free_stacks_stay_warm() {
        let pool = Pool::new(STACK_SIZE_MIN);
        let stacks = take(&pool, WARM_STACKS_MAX + 10);
        stacks.iter().for_each(touch);
        let ends: Vec<_> = stacks.iter().map(|stack| stack.end).collect();
        stacks.into_iter().for_each(|stack| pool.give([stack]));
        let warm = ends.into_iter().filter(|end| is_resident(*end)).count();
        assert_eq!(warm, WARM_STACKS_MAX);
    }

    #[allow(unsafe_code, reason = "writes to a stack nobody runs on")]
    fn touch(stack: &Stack) {
        let top = ptr::with_exposed_provenance_mut::<u8>(stack.base.get() - 1);
        // SAFETY: the byte is the stack's highest, and the stack is not used otherwise.
        unsafe { top.write_volatile(1) };
    }

    /// Returns `true` if the page just below `end` is in memory.
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
        if pool.guards.uses_regions() {
            // Concurrent tests return their stacks meanwhile.
            assert!(mappings() < before + 100);
        }
        pool.give(stacks);
    }

    /// Returns stacks in an order in which each batch gets its last stack late.
    fn give_scattered(pool: &Pool, stacks: Vec<Stack>) {
        let mut heaps: Vec<Vec<Stack>> = (0..97).map(|_| Vec::new()).collect();
        for (index, stack) in stacks.into_iter().enumerate() {
            heaps[index * 31 % 97].push(stack);
        }
        let mut heaps = heaps.into_iter().flatten().peekable();
        while heaps.peek().is_some() {
            pool.give(heaps.by_ref().take(BATCH_STACKS).collect::<Vec<_>>());
        }
        while pool.release_some() {}
    }

    #[test]
    fn stacks_of_a_peak_are_released_and_reused() {
        let pool = Pool::new(STACK_SIZE_MIN);
        for _ in 0..2 {
            let stacks = take(&pool, 20_000);
            let mut limits: Vec<_> = stacks.iter().map(|stack| stack.limit).collect();
            limits.sort();
            limits.dedup();
            assert_eq!(limits.len(), stacks.len(), "one was handed out twice");
            for stack in stacks.iter().step_by(101) {
                assert_guarded(stack);
                touch(stack);
            }
            assert_eq!(pool.lock().slabs.released(), 0);
            give_scattered(&pool, stacks);
            let left = pool.lock().slabs.in_use();
            assert!(left < 4 * WARM_STACKS_MAX, "{left} stacks are kept");
        }
    }

    #[test]
    fn a_load_that_comes_and_goes_by_half_releases_nothing() {
        let pool = Pool::new(STACK_SIZE_MIN);
        let mut stacks = take(&pool, 10_000);
        for _ in 0..10 {
            let half = stacks.split_off(5_000);
            give_scattered(&pool, half);
            assert_eq!(pool.lock().slabs.released(), 0);
            stacks.extend(take(&pool, 5_000));
        }
        give_scattered(&pool, stacks);
    }

    #[test]
    fn a_slab_without_a_stack_in_use_is_unmapped() {
        let pool = Pool::new(STACK_SIZE_MIN);
        let stacks = take(&pool, 20_000);
        let mapped = pool.lock().slabs.mapped();
        give_scattered(&pool, stacks);
        assert!(pool.lock().slabs.mapped() < mapped / 2);
    }
}
