//! The area of restartable sequences in a block (rseq(2)), which the C library registers with the
//! kernel for each thread.

use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

use super::symbol::symbol;

/// Tells the C library that the kernel does not maintain the restartable sequences of this block
/// (rseq(2)), so that it does not read the number of a CPU there.
#[allow(unsafe_code, reason = "memory of the C library's")]
pub(super) fn mark_unregistered(pointer: usize) {
    /// `RSEQ_CPU_ID_REGISTRATION_FAILED`.
    const FAILED: i32 = -2;
    const CPU_ID: isize = size_of::<u32>() as isize;
    let area = area();
    if !area.is_empty() {
        let field = pointer.wrapping_add_signed(area.start + CPU_ID);
        // SAFETY: the area is in the block.
        unsafe { ptr::with_exposed_provenance_mut::<i32>(field).write(FAILED) };
    }
}

/// Returns the distances of the area from a block; nothing if there is none.
#[allow(unsafe_code, reason = "variables of the C library's")]
pub(super) fn area() -> Range<isize> {
    /// The size of the area, at least (`linux/rseq.h`).
    const SIZE_MIN: isize = 32;
    static AREA: OnceLock<Range<isize>> = OnceLock::new();
    let area = AREA.get_or_init(|| {
        let found = symbol::<isize>(c"__rseq_offset").zip(symbol::<u32>(c"__rseq_size"));
        let Some((offset, size)) = found else {
            return 0..0;
        };
        // SAFETY: a variable of the C library, which never changes.
        let offset = unsafe { offset.read() };
        // SAFETY: as above.
        match unsafe { size.read() } {
            0 => 0..0,
            size => offset..offset + SIZE_MIN.max(size as isize),
        }
    });
    area.clone()
}
