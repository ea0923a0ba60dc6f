//! Checks whether a range of a file is in memory, so that a call without a non-blocking flag will
//! not block.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::MemfdFlags;

/// The kernel's `struct cachestat_range`.
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// The kernel's `struct cachestat`: numbers of pages.
#[repr(C)]
#[derive(Default)]
struct Statistics {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Returns `true` if the whole range is in the page cache, or if the kernel cannot tell (before
/// 6.5, or a file system without pages).
pub(crate) fn holds(file: BorrowedFd<'_>, offset: u64, length: u64) -> bool {
    let page = rustix::param::page_size() as u64;
    let end = offset.saturating_add(length);
    cached_pages(file, offset, length)
        .is_none_or(|cached| cached >= end.div_ceil(page) - offset / page)
}

/// Returns `true` if the kernel can tell; tested with a file in memory.
pub(crate) fn can_tell() -> bool {
    let file = rustix::fs::memfd_create(c"uthread", MemfdFlags::CLOEXEC);
    file.is_ok_and(|file| cached_pages(file.as_fd(), 0, 1).is_some())
}

/// Returns the number of pages of a range that are in the page cache, if the kernel can tell.
#[allow(unsafe_code, reason = "a system call that no crate offers yet")]
fn cached_pages(file: BorrowedFd<'_>, offset: u64, length: u64) -> Option<u64> {
    const SYS_CACHESTAT: libc::c_long = 451;
    let range = Range { offset, length };
    let mut statistics = Statistics::default();
    // SAFETY: both structures are the kernel's and outlive the call.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut statistics,
            0,
        )
    };
    (result == 0).then_some(statistics.cached)
}
