//! Buffer lists of vectored requests.
//!
//! A request uses a copy of the list: its driver advances the copy past the bytes that are done,
//! which must not be visible to the caller.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Deref;

use super::TRANSFER_BYTES_MAX;

/// Maximum number of buffers per request: the kernel's `UIO_MAXIOV`. The kernel refuses more, and
/// `std` ignores further buffers, too.
pub(super) const BUFFERS_MAX: usize = 1024;

/// Returns `true` if the buffers that one request uses are all empty.
pub(crate) fn all_empty(buffers: &[impl Deref<Target = [u8]>]) -> bool {
    buffers
        .iter()
        .take(BUFFERS_MAX)
        .all(|buffer| buffer.is_empty())
}

/// Returns the buffers that one request can fill.
pub(crate) fn to_fill<'a>(buffers: &'a mut [IoSliceMut<'_>]) -> Vec<IoSliceMut<'a>> {
    let mut room = TRANSFER_BYTES_MAX;
    let taken = buffers.iter_mut().take(BUFFERS_MAX);
    let cut = taken.map(|buffer| {
        let length = buffer.len().min(room);
        room -= length;
        IoSliceMut::new(&mut buffer[..length])
    });
    cut.collect()
}

/// Returns the buffers that one request can send or write.
pub(crate) fn to_empty<'a>(buffers: &'a [IoSlice<'_>]) -> Vec<IoSlice<'a>> {
    let mut room = TRANSFER_BYTES_MAX;
    let taken = buffers.iter().take(BUFFERS_MAX);
    let cut = taken.map(|buffer| {
        let length = buffer.len().min(room);
        room -= length;
        IoSlice::new(&buffer[..length])
    });
    cut.collect()
}
