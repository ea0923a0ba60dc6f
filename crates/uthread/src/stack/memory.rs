//! The memory of stacks: mapping, guarding and releasing it.
//!
//! A guard is installed by `MADV_GUARD_INSTALL` if the kernel supports it, which needs no mapping
//! of its own. Otherwise it is protected by `mprotect`, which makes two mappings per stack.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use super::advice::{advise_at_once, advise_ranges};

/// Size of the guard: more than the frame of any C function compiled without stack probes should
/// have. A guard region takes address space only.
const GUARD_BYTES: usize = 16 * 1024;

const MADV_GUARD_INSTALL: libc::c_int = 102;
const MADV_GUARD_REMOVE: libc::c_int = 103;

/// The method by which stacks are guarded.
#[derive(Debug)]
pub(super) struct Guards {
    /// Cleared when the kernel turns out not to support guard regions.
    regions: AtomicBool,
}

impl Guards {
    pub(super) fn new() -> Guards {
        Guards {
            regions: AtomicBool::new(true),
        }
    }

    /// Installs the guard at the low end of a stack that was never handed out.
    pub(super) fn install(&self, limit: usize) -> io::Result<()> {
        if self.uses_regions() {
            match guard_by_region(limit) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::INVAL) => self.give_up_regions(),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(guard_by_protection(limit)?)
    }

    /// Installs the guards of stacks that were never handed out. Returns the number of stacks, the
    /// first ones, that have a guard.
    ///
    /// # Errors
    ///
    /// The error for the first stack. Errors for the others are left to the next call.
    pub(super) fn install_all(&self, limits: &[usize]) -> io::Result<usize> {
        let mut guarded = if self.uses_regions() {
            advise_at_once(limits, guard_size(), MADV_GUARD_INSTALL)
        } else {
            0
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

    /// Removes the guard regions of stacks that are not in use. Guards made by `mprotect` stay.
    #[allow(unsafe_code, reason = "rustix does not name the guard advice yet")]
    pub(super) fn remove(&self, limits: &[usize]) {
        if !self.uses_regions() {
            return;
        }
        let removed = advise_at_once(limits, guard_size(), MADV_GUARD_REMOVE);
        for limit in &limits[removed..] {
            let start = ptr::with_exposed_provenance_mut(*limit);
            // SAFETY: the range is in a stack that is not in use, by the caller's contract. A
            // failure only keeps the guard.
            let _ = unsafe { libc::madvise(start, guard_size(), MADV_GUARD_REMOVE) };
        }
    }

    /// Returns `true` if guards are regions, as far as known.
    pub(super) fn uses_regions(&self) -> bool {
        // Relaxed: a late reader only tries the newer method once more.
        self.regions.load(Ordering::Relaxed)
    }

    pub(super) fn give_up_regions(&self) {
        self.regions.store(false, Ordering::Relaxed);
    }
}

/// Returns the size of a guard in bytes: whole pages.
pub(super) fn guard_size() -> usize {
    GUARD_BYTES.next_multiple_of(page_size())
}

/// Returns the size of a page, which is asked for with each stack.
#[inline]
pub(super) fn page_size() -> usize {
    // Relaxed: all threads store the same.
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            let size = rustix::param::page_size();
            KNOWN.store(size, Ordering::Relaxed);
            size
        }
        known => known,
    }
}

/// Maps new memory, which takes none until it is touched.
#[allow(unsafe_code, reason = "mapping memory")]
pub(super) fn map(length: usize) -> rustix::io::Result<NonNull<u8>> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
    // SAFETY: a new anonymous mapping at an address that the kernel chooses aliases nothing.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            flags,
        )
    }?;
    // Otherwise a huge page would commit 2 MiB at the first touch of any stack in it.
    // SAFETY: the range is the mapping made above; the advice does not change its contents.
    let _ = unsafe { rustix::mm::madvise(start, length, Advice::LinuxNoHugepage) };
    Ok(NonNull::new(start.cast()).expect("mmap never returns null"))
}

/// Unmaps a mapping.
///
/// # Safety
///
/// It is a whole mapping that [`map`] has made, and there is no reference to it.
#[allow(unsafe_code, reason = "unmapping memory")]
pub(super) unsafe fn unmap(start: usize, length: usize) {
    let start = ptr::with_exposed_provenance_mut(start);
    // SAFETY: by the caller's contract.
    let unmapped = unsafe { rustix::mm::munmap(start, length) };
    debug_assert!(unmapped.is_ok(), "a whole mapping can always be unmapped");
}

/// Releases `length` bytes of each of these free stacks, above its guard.
#[allow(unsafe_code, reason = "giving pages back")]
pub(super) fn discard(starts: &[usize], length: usize) {
    let ranges: Vec<_> = starts.iter().map(|start| *start..*start + length).collect();
    // SAFETY: the contents of a free stack are not read.
    unsafe { discard_unused(&ranges) };
}

/// Releases these pages of stacks, which may be in use.
///
/// # Safety
///
/// The pages are above the guards, and nothing reads what they contain.
#[allow(unsafe_code, reason = "giving pages back")]
pub(super) unsafe fn discard_unused(ranges: &[Range<usize>]) {
    let discarded = advise_ranges(ranges, Range::clone, libc::MADV_DONTNEED);
    for range in &ranges[discarded..] {
        let start = ptr::with_exposed_provenance_mut(range.start);
        // A failure only keeps the pages and is not reported.
        // SAFETY: by the caller's contract.
        let _ = unsafe { rustix::mm::madvise(start, range.len(), Advice::LinuxDontNeed) };
    }
}

#[allow(unsafe_code, reason = "rustix does not name the guard advice yet")]
fn guard_by_region(limit: usize) -> rustix::io::Result<()> {
    let start = ptr::with_exposed_provenance_mut(limit);
    // SAFETY: the range is the low end of a stack that was never handed out.
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
    // SAFETY: the range is the low end of a stack that was never handed out.
    unsafe { rustix::mm::mprotect(start, guard_size(), MprotectFlags::empty()) }
}
