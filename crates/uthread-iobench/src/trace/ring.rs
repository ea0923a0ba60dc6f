//! Submissions through the runtime's ring.
#![allow(
    unsafe_code,
    reason = "the ring gets pointers to a buffer, so that entries can be linked"
)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

use uthread::ring::io_uring::squeue::{Entry, Flags};
use uthread::ring::io_uring::{opcode, types::Fd};
use uthread::ring::submit_all;

use super::batch::Batch;
use super::tag::Tag;

/// Reads `/dev/zero` by the entries of a chain, submitted by the calling fiber, and waits for them.
///
/// # Errors
///
/// `Unsupported` if the caller is no fiber on a ring; any other error of a read.
pub(super) fn submit(batch: &Batch, chain: Range<usize>, zero: &File) -> io::Result<()> {
    let mut bytes = vec![0; Tag::LENGTH_MAX];
    let entry = |index: usize| -> Entry {
        let read = opcode::Read::new(
            Fd(zero.as_raw_fd()),
            bytes.as_mut_ptr(),
            batch.tag(index).length(),
        );
        if batch.entries[index].is_linked {
            read.build().flags(Flags::IO_LINK)
        } else {
            read.build()
        }
    };
    let entries: Vec<Entry> = chain.map(entry).collect();
    // SAFETY: file and buffer outlive the call. The buffer is longer than any of the reads, which
    // use it one after the other, as they are linked.
    let results = unsafe { submit_all(entries) }?;
    results.into_iter().try_for_each(|result| result.map(drop))
}
