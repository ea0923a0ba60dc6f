//! The memory of stacks: mapped, guarded, given back.
//!
//! A guard is a region by `MADV_GUARD_INSTALL` where the kernel has it, which takes no mapping of its own, and
//! protected by `mprotect` where it has not, which makes two mappings a stack.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use super::advice::advise_at_once;

/// The guard: more than the frame of any C function that is built without stack probes ought to
/// have. With guard regions it costs address space only.
const GUARD_BYTES: usize = 16 * 1024;

const MADV_GUARD_INSTALL: libc::c_int = 102;
const MADV_GUARD_REMOVE: libc::c_int = 103;

/// How stacks are guarded here.
#[derive(Debug)]
pub(super) struct Guards {
    /// Cleared by the first kernel that does not know guard regions.
    regions: AtomicBool,
}

impl Guards {
    pub(super) fn new() -> Guards {
        Guards {
            regions: AtomicBool::new(true),
        }
    }

    /// Makes the lowest of a stack that was never handed out a guard.
    pub(super) fn install(&self, limit: usize) -> io::Result<()> {
        if self.are_regions() {
            match guard_by_region(limit) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::INVAL) => self.give_up_regions(),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(guard_by_protection(limit)?)
    }

    /// The same for stacks of which none was handed out; how many have theirs, the first ones.
    ///
    /// # Errors
    ///
    /// That of the first stack: the others wait for the next call.
    pub(super) fn install_all(&self, limits: &[usize]) -> io::Result<usize> {
        let mut guarded = match self.are_regions() {
            true => advise_at_once(limits, guard_size(), MADV_GUARD_INSTALL),
            false => 0,
        };
        for limit in &limits[guarded..] {
            match self.install(*limit) {
                Ok(()) => guarded += 1,
                Err(error) if guarded == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(guarded)
    }

    /// Removes the guards of stacks that nobody runs on. Those that are not regions stay.
    #[allow(unsafe_code, reason = "rustix does not name the guard advice yet")]
    pub(super) fn remove(&self, limits: &[usize]) {
        if !self.are_regions() {
            return;
        }
        let removed = advise_at_once(limits, guard_size(), MADV_GUARD_REMOVE);
        for limit in &limits[removed..] {
            let start = ptr::with_exposed_provenance_mut(*limit);
            // SAFETY: the range is of a stack that nobody runs on, as the caller says. Failure only keeps the guard.
            let _ = unsafe { libc::madvise(start, guard_size(), MADV_GUARD_REMOVE) };
        }
    }

    /// Whether they are regions, as far as that was tried.
    pub(super) fn are_regions(&self) -> bool {
        // Relaxed: a late reader only tries the newer way once more.
        self.regions.load(Ordering::Relaxed)
    }

    pub(super) fn give_up_regions(&self) {
        self.regions.store(false, Ordering::Relaxed);
    }
}

/// The size of a stack's guard in bytes: whole pages.
pub(super) fn guard_size() -> usize {
    GUARD_BYTES.next_multiple_of(page_size())
}

pub(super) fn page_size() -> usize {
    rustix::param::page_size()
}

/// New memory of so many bytes, which takes none before it is touched.
#[allow(unsafe_code, reason = "mapping memory")]
pub(super) fn map(length: usize) -> rustix::io::Result<NonNull<u8>> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice aliases nothing.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )
    }?;
    // A huge page would commit 2 MiB for the first touch of any stack in it.
    // SAFETY: the range is the mapping made above; the advice does not change its contents.
    let _ = unsafe { rustix::mm::madvise(start, length, Advice::LinuxNoHugepage) };
    Ok(NonNull::new(start.cast()).expect("mmap never returns null"))
}

/// Gives a mapping back.
///
/// # Safety
///
/// It is a whole one that [`map`] has made, and nothing refers to it any more.
#[allow(unsafe_code, reason = "unmapping memory")]
pub(super) unsafe fn unmap(start: usize, length: usize) {
    let start = ptr::with_exposed_provenance_mut(start);
    // SAFETY: promised by the caller.
    let unmapped = unsafe { rustix::mm::munmap(start, length) };
    debug_assert!(unmapped.is_ok(), "a whole mapping can always be unmapped");
}

/// Has these pages, of stacks that were just made, there before the first touch: by one call, a page costs less than by
/// a fault. Where that is refused, they come by faults.
pub(super) fn populate(pages: &[usize]) {
    advise_at_once(pages, page_size(), libc::MADV_POPULATE_WRITE);
}

/// Gives so many bytes of each of these free stacks back, above its guard.
#[allow(unsafe_code, reason = "giving pages back")]
pub(super) fn discard(starts: &[usize], length: usize) {
    let discarded = advise_at_once(starts, length, libc::MADV_DONTNEED);
    for start in &starts[discarded..] {
        let start = ptr::with_exposed_provenance_mut(*start);
        // Failure only keeps the pages: nothing to report.
        // SAFETY: nobody reads what was in a free stack.
        let _ = unsafe { rustix::mm::madvise(start, length, Advice::LinuxDontNeed) };
    }
}

#[allow(unsafe_code, reason = "rustix does not name the guard advice yet")]
fn guard_by_region(limit: usize) -> rustix::io::Result<()> {
    let start = ptr::with_exposed_provenance_mut(limit);
    // SAFETY: the range is the lowest of a stack that was never handed out.
    let result = unsafe { libc::madvise(start, guard_size(), MADV_GUARD_INSTALL) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::INVAL))
}

#[allow(unsafe_code, reason = "protecting the guard")]
fn guard_by_protection(limit: usize) -> rustix::io::Result<()> {
    let start = ptr::with_exposed_provenance_mut(limit);
    // SAFETY: the range is the lowest of a stack that was never handed out.
    unsafe { rustix::mm::mprotect(start, guard_size(), MprotectFlags::empty()) }
}
