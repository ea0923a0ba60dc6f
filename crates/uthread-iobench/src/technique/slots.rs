//! The buffers that an engine lends to the kernel.
//!
//! A lent buffer cannot be touched, and is never freed: not even when an engine is dropped with
//! requests in flight.

use std::fs::File;
use std::io;
use std::mem;

use uthread::fs::AlignedBuffer;

use crate::test_files;

/// Buffers of one block each, with the alignment of a file.
pub(super) struct Slots {
    buffers: Vec<AlignedBuffer>,
    is_lent: Vec<bool>,
}

impl Slots {
    pub(super) fn new(file: &File, count: usize) -> io::Result<Slots> {
        let buffers = (0..count).map(|_| test_files::buffer(file));
        Ok(Slots {
            buffers: buffers.collect::<io::Result<_>>()?,
            is_lent: vec![false; count],
        })
    }

    /// Returns the buffer of a slot.
    ///
    /// # Panics
    ///
    /// If it is lent.
    pub(super) fn buffer(&mut self, slot: usize) -> &mut [u8] {
        assert!(!self.is_lent[slot], "the kernel has the buffer");
        &mut self.buffers[slot]
    }

    /// Lends a buffer: it stays valid and untouched until [`take_back`](Slots::take_back).
    ///
    /// # Panics
    ///
    /// If it is lent already.
    pub(super) fn lend(&mut self, slot: usize) -> *mut u8 {
        let start = self.buffer(slot).as_mut_ptr();
        self.is_lent[slot] = true;
        start
    }

    /// Ends a loan, after the request has completed.
    pub(super) fn take_back(&mut self, slot: usize) {
        self.is_lent[slot] = false;
    }

    /// Returns the slots of requests that have not completed.
    pub(super) fn lent(&self) -> impl Iterator<Item = usize> {
        let slots = self.is_lent.iter().enumerate();
        slots.filter(|(_, is_lent)| **is_lent).map(|(slot, _)| slot)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for (buffer, is_lent) in self.buffers.drain(..).zip(&self.is_lent) {
            if *is_lent {
                mem::forget(buffer);
            }
        }
    }
}
