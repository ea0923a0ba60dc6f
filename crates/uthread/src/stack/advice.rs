//! One advice for many ranges of the process's memory, by one call: `process_madvise` on oneself.
//!
//! Linux 6.15 names the caller itself, without a descriptor that would mean the parent after a fork, and takes every
//! advice from it. Elsewhere, and where a filter refuses the call, each range takes a call of its own.

use std::sync::atomic::{AtomicBool, Ordering};

/// The calling process, where a descriptor of a process is expected.
const PIDFD_SELF: libc::c_long = -10_001;

/// Ranges in one call: far from the kernel's own limit, 1,024.
const RANGES_MAX: usize = 64;

/// Set by the first refusal, which lasts for the process. Relaxed: a late reader only tries once more.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Advises on memory of stacks that nobody runs on, of so many bytes from each start; for how many ranges, the first ones,
/// that is done. The rest is the caller's to do.
#[allow(unsafe_code, reason = "no crate of ours has this call for oneself")]
pub(super) fn advise_at_once(starts: &[usize], length: usize, advice: libc::c_int) -> usize {
    // A single range needs no list, and has its own call.
    if starts.len() < 2 || REFUSED.load(Ordering::Relaxed) {
        return 0;
    }
    let mut done = 0;
    for starts in starts.chunks(RANGES_MAX) {
        let ranges: Vec<_> = starts
            .iter()
            .map(|start| libc::iovec {
                iov_base: std::ptr::with_exposed_provenance_mut(*start),
                iov_len: length,
            })
            .collect();
        // SAFETY: the ranges are of stacks that nobody runs on, as the caller says; the list outlives the call.
        let advised = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                PIDFD_SELF,
                ranges.as_ptr(),
                ranges.len(),
                advice,
                0,
            )
        };
        let Ok(bytes) = usize::try_from(advised) else {
            REFUSED.store(true, Ordering::Relaxed);
            break;
        };
        done += bytes / length;
        if bytes < starts.len() * length {
            break;
        }
    }
    done
}
