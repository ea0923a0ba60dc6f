//! The groups of buffers that a ring was lent.

use std::io;
use std::mem;
use std::sync::{Arc, PoisonError};

use io_uring::Submitter;
use rustix::io::Errno;

use crate::op::group::{BufferGroup, Retired};

/// Of one ring; only its owner asks the kernel.
#[derive(Default)]
pub(super) struct Groups {
    retired: Arc<Retired>,
    /// Groups that the ring knows: of most, none.
    count: usize,
    /// Ids from here on were never in use.
    next: u16,
    /// Those before that are free again.
    free: Vec<u16>,
}

impl Groups {
    /// Makes a group and lends it to the ring.
    ///
    /// # Errors
    ///
    /// The kernel's: `ENOMEM`, `EINVAL` where it knows no such groups.
    #[allow(unsafe_code, reason = "the kernel gets the address of the group")]
    pub(super) fn lend(
        &mut self,
        ring: &Submitter<'_>,
        count: u16,
        size: u32,
    ) -> io::Result<Arc<BufferGroup>> {
        let id = self.free.last().copied().unwrap_or(self.next);
        let next = self.next.checked_add(1).ok_or(Errno::NOMEM)?;
        let group = BufferGroup::new(id, count, size, Arc::clone(&self.retired))?;
        // SAFETY: the entries are there until the ring has forgotten the group, or is gone.
        let lent = unsafe { ring.register_buf_ring_with_flags(group.address(), count, id, 0) };
        if let Err(error) = lent {
            drop(group);
            // At once: the next group may have this id.
            self.forget(ring);
            return Err(error);
        }
        self.count += 1;
        if self.free.pop().is_none() {
            self.next = next;
        }
        Ok(Arc::new(group))
    }

    pub(super) fn has(&self, group: &BufferGroup) -> bool {
        group.is_of(&self.retired)
    }

    /// Has the ring forget the groups that nobody uses any more, and frees them.
    pub(super) fn forget_retired(&mut self, ring: &Submitter<'_>) {
        if self.count > 0 {
            self.forget(ring);
        }
    }

    fn forget(&mut self, ring: &Submitter<'_>) {
        let retired = mem::take(&mut *self.retired.lock().unwrap_or_else(PoisonError::into_inner));
        for (id, pages) in retired {
            // Refused only of what the ring never knew.
            if ring.unregister_buf_ring(id).is_ok() {
                self.count -= 1;
                self.free.push(id);
            }
            drop(pages);
        }
    }
}
