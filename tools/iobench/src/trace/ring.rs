//! The ring whose submissions are recorded.
#![allow(
    unsafe_code,
    reason = "the ring takes entries, which here borrow no memory"
)]

use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode};
use uthread_report::Unavailable;

use super::batch::{Batch, ENTRIES_MAX};

pub(super) struct Ring(IoUring);

impl Ring {
    /// Builds the ring.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if the kernel refuses.
    pub(super) fn new() -> Result<Ring, Unavailable> {
        let ring = IoUring::new(ENTRIES_MAX as u32);
        ring.map(Ring)
            .map_err(|error| Unavailable(format!("no ring: {error}; see `uthread doctor`")))
    }

    /// Submits the entries of a batch in this order by one system call, and waits for them.
    ///
    /// # Errors
    ///
    /// The errors of `io_uring_enter(2)`.
    pub(super) fn submit(&mut self, batch: &Batch, order: &[usize]) -> anyhow::Result<()> {
        let mut submission = self.0.submission();
        for &index in order {
            let flags = match batch.entries[index].is_linked {
                true => Flags::IO_LINK,
                false => Flags::empty(),
            };
            let entry = opcode::Nop::new().build();
            let entry = entry.flags(flags).user_data(batch.tag(index).encode());
            // SAFETY: the entry has no operation and borrows nothing.
            unsafe { submission.push(&entry) }?;
        }
        drop(submission);
        let submitted = self.0.submit_and_wait(order.len())?;
        anyhow::ensure!(
            submitted == order.len(),
            "the kernel took {submitted} entries"
        );
        self.0.completion().for_each(drop);
        Ok(())
    }
}
