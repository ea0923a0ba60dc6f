//! Resources registered with a ring: the kernel's tables, which only the ring's owner changes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::Arc;

use io_uring::Submitter;
use rustix::io::Errno;

use super::waker::Waker;
use crate::driver::Wake;
use crate::resource::buffer_group::BufferGroup;
use crate::resource::descriptor::Descriptor;
use crate::resource::pages::Pages;
use crate::resource::registration::{Reclaimer, Registration, Resource};

/// Maximum number of groups: all ids but the last, as groups have no table that takes memory.
const GROUPS_MAX: u16 = u16::MAX;

/// Registered memory is locked and comes in large pieces, so few are enough. The table takes 2 KiB.
const BUFFERS_MAX: u16 = 256;

/// The default limit of open files of a process, which then also limits the kernel: one connection
/// per fiber of a worker, and files in flight. The table takes 8 KiB.
const FILES_MAX: u16 = 1024;

/// The resources registered with one ring.
pub(super) struct Registered {
    reclaimer: Arc<Reclaimer>,
    /// Number of registered resources; zero for most rings.
    count: usize,
    groups: SlotAllocator,
    buffers: LazyTable,
    files: LazyTable,
    /// Registered memory, sorted by start address.
    spans: Vec<Span>,
    has_wake: bool,
}

impl Registered {
    pub(super) fn new() -> Registered {
        Registered {
            reclaimer: Arc::new(Reclaimer::new()),
            count: 0,
            groups: SlotAllocator::new(GROUPS_MAX),
            buffers: LazyTable::new(BUFFERS_MAX),
            files: LazyTable::new(FILES_MAX),
            spans: Vec::new(),
            has_wake: false,
        }
    }

    /// Allocates a group of buffers and registers it with the ring.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `EINVAL` if the kernel does not support such groups.
    #[allow(unsafe_code, reason = "the kernel gets the address of the group")]
    pub(super) fn register_buffer_group(
        &mut self,
        ring: &Submitter<'_>,
        count: u16,
        size: u32,
    ) -> io::Result<Arc<BufferGroup>> {
        let pages = Pages::new(BufferGroup::bytes(count, size))?;
        let id = self.groups.take().ok_or(Errno::NOMEM)?;
        let registration = self.add(id, Resource::Group(pages));
        let group = BufferGroup::new(registration, count, size);
        // SAFETY: the entries remain valid until the ring has released the group, or is gone.
        let registered =
            unsafe { ring.register_buf_ring_with_flags(group.address(), count, id, 0) };
        registered.map(|()| Arc::new(group))
    }

    pub(super) fn owns_group(&self, group: &BufferGroup) -> bool {
        group.is_of(self.reclaimer.number())
    }

    /// Allocates memory and registers it.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory; `EFAULT` for more than 1 GiB; `ENOBUFS` if there is no table
    /// or no free slot.
    #[allow(unsafe_code, reason = "the kernel gets the address of the memory")]
    pub(super) fn register_buffer(
        &mut self,
        ring: &Submitter<'_>,
        bytes: usize,
    ) -> io::Result<Registration> {
        let pages = Pages::new(bytes)?;
        let start = pages.start().as_ptr();
        if self.buffers.slots.is_exhausted() {
            self.forget(ring);
        }
        let make = |slots| ring.register_buffers_sparse(slots);
        let slot = self.buffers.take(make).ok_or(Errno::NOBUFS)?;
        let registration = self.add(slot, Resource::Buffer(pages));
        let memory = [libc::iovec {
            iov_base: start.cast(),
            iov_len: bytes,
        }];
        // SAFETY: the memory remains valid until the ring has released it, or is gone.
        unsafe { ring.register_buffers_update(slot.into(), &memory, None) }?;
        let span = Span {
            start: start.addr(),
            length: bytes,
            slot,
        };
        let index = self.spans_up_to(span.start);
        self.spans.insert(index, span);
        Ok(registration)
    }

    /// Returns the slot of the registered memory that contains these bytes.
    pub(super) fn buffer_of(&self, bytes: &[u8]) -> Option<u16> {
        let start = bytes.as_ptr().addr();
        let span = &self.spans[self.spans_up_to(start).checked_sub(1)?];
        let end = start - span.start + bytes.len();
        (!bytes.is_empty() && end <= span.length).then_some(span.slot)
    }

    /// Returns the number of pieces of memory that start at this address or below.
    fn spans_up_to(&self, address: usize) -> usize {
        self.spans.partition_point(|span| span.start <= address)
    }

    /// Registers a file.
    ///
    /// # Errors
    ///
    /// The errors of [`reserve_file`](Registered::reserve_file), and any error that
    /// `io_uring_register(2)` reports.
    pub(super) fn register_file(
        &mut self,
        ring: &Submitter<'_>,
        file: BorrowedFd<'_>,
    ) -> io::Result<Registration> {
        let mut registration = self.reserve_file(ring)?;
        ring.register_files_update(registration.slot().into(), &[file.as_raw_fd()])?;
        registration.set_file();
        Ok(registration)
    }

    /// Reserves an empty slot for a file.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` if there is no table or no free slot.
    pub(super) fn reserve_file(&mut self, ring: &Submitter<'_>) -> io::Result<Registration> {
        if self.files.slots.is_exhausted() {
            self.forget(ring);
        }
        let make = |slots| ring.register_files_sparse(slots);
        let slot = self.files.take(make).ok_or(Errno::NOBUFS)?;
        Ok(self.add(slot, Resource::Nothing))
    }

    /// Returns the slot of a file if it is registered with this ring.
    pub(super) fn slot_of(&self, descriptor: Descriptor<'_>) -> Option<u16> {
        descriptor.state.slot_in(self.reclaimer.number())
    }

    /// Sets the waker that others use when they leave a resource to the ring's owner, if it is not
    /// set yet.
    pub(super) fn set_wake(&mut self, waker: &Waker) -> io::Result<()> {
        if !self.has_wake {
            let waker = waker.try_clone()?;
            self.reclaimer.set_wake(Box::new(move || waker.wake()));
            self.has_wake = true;
        }
        Ok(())
    }

    /// Releases all files before the ring is closed, as closing a ring takes a while in which the
    /// files would remain open.
    pub(super) fn end(&mut self, ring: &Submitter<'_>) {
        self.reclaimer.close();
        self.forget_retired(ring);
        if self.files.is_made == Some(true) {
            // Otherwise the end of the ring releases them. Kernels before 6.4 close a file that is
            // removed from its slot up to a second later, but close all files of a table at once.
            let _ = ring.unregister_files();
        }
    }

    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.count, self.spans.len()]
    }

    fn add(&mut self, slot: u16, resource: Resource) -> Registration {
        self.count += 1;
        Registration::new(&self.reclaimer, slot, resource)
    }

    /// Unregisters unused resources from the ring and frees them.
    pub(super) fn forget_retired(&mut self, ring: &Submitter<'_>) {
        if self.count > 0 {
            self.forget(ring);
        }
    }

    /// Makes the ring unpin the pages. If it cannot, for lack of memory, it does so when the slot
    /// is used again.
    #[allow(unsafe_code, reason = "an unsafe call of the crate")]
    fn forget_buffer(&mut self, ring: &Submitter<'_>, slot: u16) {
        let nothing = [libc::iovec {
            iov_base: ptr::null_mut(),
            iov_len: 0,
        }];
        // SAFETY: no memory is registered.
        let _ = unsafe { ring.register_buffers_update(slot.into(), &nothing, None) };
        self.buffers.slots.give(slot);
    }

    fn forget(&mut self, ring: &Submitter<'_>) {
        for (slot, resource) in self.reclaimer.take_retired() {
            self.count -= 1;
            match resource {
                Resource::Group(pages) => {
                    // Fails only if the ring has not accepted the group.
                    let _ = ring.unregister_buf_ring(slot);
                    drop(pages);
                    self.groups.give(slot);
                }
                Resource::Buffer(pages) => {
                    self.forget_buffer(ring, slot);
                    let start = pages.start().as_ptr().addr();
                    self.spans.retain(|span| span.start != start);
                }
                Resource::File => {
                    // As for memory.
                    let _ = ring.register_files_update(slot.into(), &[-1]);
                    self.files.slots.give(slot);
                }
                Resource::Nothing => self.files.slots.give(slot),
            }
        }
    }
}

/// A piece of registered memory.
struct Span {
    start: usize,
    length: usize,
    slot: u16,
}

/// A table that the kernel creates when it is first needed.
struct LazyTable {
    slots: SlotAllocator,
    is_made: Option<bool>,
}

impl LazyTable {
    fn new(end: u16) -> LazyTable {
        LazyTable {
            slots: SlotAllocator::new(end),
            is_made: None,
        }
    }

    /// Takes a slot, if one is free. Creates the table if necessary, which is tried once.
    fn take(&mut self, make: impl FnOnce(u32) -> io::Result<()>) -> Option<u16> {
        let end = self.slots.end.into();
        let is_made = *self.is_made.get_or_insert_with(|| make(end).is_ok());
        is_made.then(|| self.slots.take()).flatten()
    }
}

/// Allocates the slots of a table.
struct SlotAllocator {
    /// Slots from here on were never taken.
    next: u16,
    end: u16,
    /// Lower slots that are free again.
    free: Vec<u16>,
}

impl SlotAllocator {
    fn new(end: u16) -> SlotAllocator {
        SlotAllocator {
            next: 0,
            end,
            free: Vec::new(),
        }
    }

    fn is_exhausted(&self) -> bool {
        self.free.is_empty() && self.next == self.end
    }

    fn take(&mut self) -> Option<u16> {
        let used_before = self.free.pop();
        used_before.or_else(|| {
            let slot = self.next;
            (slot < self.end).then(|| {
                self.next += 1;
                slot
            })
        })
    }

    fn give(&mut self, slot: u16) {
        self.free.push(slot);
    }
}
