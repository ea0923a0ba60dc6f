//! What a ring keeps for us: the kernel's tables, of which only the ring's owner speaks to it.

use std::io;
use std::sync::Arc;

use io_uring::Submitter;
use rustix::io::Errno;

use crate::op::group::BufferGroup;
use crate::op::pages::Pages;
use crate::op::registration::{Home, Kept, Registration};

/// All ids but the last: groups have no table that takes memory.
const GROUPS_MAX: u16 = u16::MAX;

/// Of one ring.
pub(super) struct Registered {
    home: Arc<Home>,
    /// How many things the ring keeps: most keep none.
    count: usize,
    groups: Places,
}

impl Registered {
    pub(super) fn new() -> Registered {
        Registered {
            home: Arc::default(),
            count: 0,
            groups: Places::new(GROUPS_MAX),
        }
    }

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
        let pages = Pages::new(BufferGroup::bytes(count, size))?;
        let id = self.groups.take().ok_or(Errno::NOMEM)?;
        let registration = self.keep(id, Kept::Group(pages));
        let group = BufferGroup::new(registration, count, size);
        // SAFETY: the entries are there until the ring has forgotten the group, or is gone.
        let lent = unsafe { ring.register_buf_ring_with_flags(group.address(), count, id, 0) };
        lent.map(|()| Arc::new(group))
    }

    pub(super) fn has(&self, group: &BufferGroup) -> bool {
        group.is_of(&self.home)
    }

    fn keep(&mut self, place: u16, kept: Kept) -> Registration {
        self.count += 1;
        Registration::new(&self.home, place, kept)
    }

    /// Has the ring forget what nobody uses any more, and frees it.
    pub(super) fn forget_retired(&mut self, ring: &Submitter<'_>) {
        if self.count > 0 {
            self.forget(ring);
        }
    }

    fn forget(&mut self, ring: &Submitter<'_>) {
        for (place, kept) in self.home.take_retired() {
            self.count -= 1;
            match kept {
                Kept::Group(pages) => {
                    // Refused only of what the ring did not take.
                    let _ = ring.unregister_buf_ring(place);
                    drop(pages);
                    self.groups.give(place);
                }
            }
        }
    }
}

/// Places of a table, each given to one at a time.
struct Places {
    /// Those from here on were never taken.
    next: u16,
    end: u16,
    /// Those before that are free again.
    free: Vec<u16>,
}

impl Places {
    fn new(end: u16) -> Places {
        Places {
            next: 0,
            end,
            free: Vec::new(),
        }
    }

    fn take(&mut self) -> Option<u16> {
        let used_before = self.free.pop();
        used_before.or_else(|| {
            let place = self.next;
            (place < self.end).then(|| {
                self.next += 1;
                place
            })
        })
    }

    fn give(&mut self, place: u16) {
        self.free.push(place);
    }
}
