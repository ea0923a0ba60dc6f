//! Lists of buffers for one request.
//!
//! The list of a request is a copy: its driver moves it on past what is done, which callers must not see.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Deref;

use super::TRANSFER_BYTES_MAX;

/// Buffers of one request: `UIO_MAXIOV` of the kernel, which refuses more. `std` leaves out what is beyond, too.
pub(super) const BUFFERS_MAX: usize = 1024;

/// Whether those of the buffers that one request takes hold no byte.
pub(crate) fn are_empty(buffers: &[impl Deref<Target = [u8]>]) -> bool {
    buffers
        .iter()
        .take(BUFFERS_MAX)
        .all(|buffer| buffer.is_empty())
}

/// As many of the buffers as one request fills.
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

/// As many of the buffers as one request empties.
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
