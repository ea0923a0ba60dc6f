//! Advice for many memory ranges by one call: `process_madvise` on the calling process.
//!
//! Linux 6.15 permits every kind of advice for the calling process, and names it without a
//! descriptor (which would mean the parent after a fork). On older kernels, or if a filter refuses
//! the call, each range takes a call of its own.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names the calling process in place of a pidfd.
const PIDFD_SELF: libc::c_long = -10_001;

/// Maximum number of ranges per call, far below the kernel's limit of 1024.
const RANGES_MAX: usize = 64;

/// Set once the call was refused, for the rest of the process. Relaxed: a late reader only tries
/// once more.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Gives advice on the ranges of `length` bytes that begin at `starts`, which must be in stacks
/// that are not in use. Returns the number of ranges, the first ones, for which it succeeded. The
/// caller handles the rest.
pub(super) fn advise_at_once(starts: &[usize], length: usize, advice: libc::c_int) -> usize {
    advise_ranges(starts, |start| *start..*start + length, advice)
}

/// Gives advice on the range of each item. The ranges must not be in use. Returns the number of
/// items, the first ones, for which it succeeded.
#[allow(unsafe_code, reason = "no crate of ours has this call for oneself")]
pub(super) fn advise_ranges<T>(
    items: &[T],
    range: impl Fn(&T) -> Range<usize>,
    advice: libc::c_int,
) -> usize {
    // A single range needs no list and has its own call.
    if items.len() < 2 || REFUSED.load(Ordering::Relaxed) {
        return 0;
    }
    let mut done = 0;
    for items in items.chunks(RANGES_MAX) {
        let ranges: Vec<_> = items
            .iter()
            .map(&range)
            .map(|range| libc::iovec {
                iov_base: std::ptr::with_exposed_provenance_mut(range.start),
                iov_len: range.len(),
            })
            .collect();
        // SAFETY: the ranges are not in use, by the caller's contract. The list outlives the call.
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
        let mut left = bytes;
        let advised = ranges.iter().take_while(|range| {
            let rest = left.checked_sub(range.iov_len);
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        let advised = advised.count();
        done += advised;
        if advised < ranges.len() {
            break;
        }
    }
    done
}
