//! A group of buffers that a ring fills as data arrives (provided buffers).
//!
//! ```text
//!   entries (one per buffer)  | buffers ..
//!   the kernel takes at its head <-- tail: this process provides a buffer
//! ```
//!
//! A buffer belongs to the kernel from the time it is provided until a completion names it, and to
//! this process from then on. The memory remains valid until the ring has released the group.

use std::num::NonZeroU32;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use io_uring::types::BufRingEntry;

use super::registration::Registration;

use crate::atomic::lock;

pub(crate) struct BufferGroup {
    /// The registration; its slot is the group's id.
    registration: Registration,
    count: u16,
    size: u32,
    /// Number of buffers provided so far, wrapping. The entries are written under this lock.
    given: Mutex<u16>,
}

/// A buffer that the kernel has filled. It is provided again on drop.
pub(crate) struct Filled {
    group: Arc<BufferGroup>,
    id: u16,
    length: usize,
}

impl BufferGroup {
    /// Returns the size of a group in bytes.
    pub(crate) fn bytes(count: u16, size: u32) -> usize {
        buffers_offset(count) + usize::from(count) * size as usize
    }

    /// Creates a group of `count` buffers, a power of two up to 32768, in registered memory of
    /// [`bytes`](BufferGroup::bytes) bytes. All buffers belong to the kernel as soon as it knows
    /// the [address](BufferGroup::address).
    pub(crate) fn new(registration: Registration, count: u16, size: u32) -> BufferGroup {
        assert!(count.is_power_of_two(), "as the kernel wants it");
        let group = BufferGroup {
            registration,
            count,
            size,
            given: Mutex::new(0),
        };
        (0..count).for_each(|id| group.give(id));
        group
    }

    pub(crate) fn id(&self) -> u16 {
        self.registration.slot()
    }

    pub(crate) fn size(&self) -> usize {
        self.size as usize
    }

    /// Returns the address of the entries.
    pub(crate) fn address(&self) -> u64 {
        self.start().as_ptr().expose_provenance() as u64
    }

    /// Returns `true` if the group is registered with the ring of this number.
    pub(crate) fn is_of(&self, ring: NonZeroU32) -> bool {
        self.registration.ring() == ring
    }

    /// Takes over a buffer that a completion has named, with `length` bytes in it.
    pub(crate) fn filled(self: &Arc<Self>, id: u16, length: u32) -> Filled {
        assert!(
            id < self.count && length <= self.size,
            "the kernel keeps to it"
        );
        Filled {
            group: Arc::clone(self),
            id,
            length: length as usize,
        }
    }

    /// Provides a buffer, which the caller must own, to the kernel.
    #[allow(unsafe_code, reason = "memory that is shared with the kernel")]
    fn give(&self, id: u16) {
        let buffer = self.buffer(id).as_ptr().expose_provenance() as u64;
        let mut given = lock(&self.given);
        let entries = self.start().cast::<BufRingEntry>();
        // SAFETY: there are as many entries as buffers.
        let entry = unsafe { entries.add(usize::from(*given & (self.count - 1))) };
        // SAFETY: zeroes are valid, so the entry is initialized. The kernel reads it only once the
        // tail is beyond it, and all writes happen under the lock. Its last field, which may be the
        // tail, is not written.
        let entry = unsafe { &mut *entry.as_ptr() };
        entry.set_addr(buffer);
        entry.set_len(self.size);
        entry.set_bid(id);
        *given = given.wrapping_add(1);
        // SAFETY: the entries are initialized, and this is the first.
        let tail = unsafe { BufRingEntry::tail(entries.as_ptr()) }.cast_mut();
        // SAFETY: the tail is aligned, lives as long as the pages, and is accessed only atomically
        // and by the kernel.
        let tail = unsafe { AtomicU16::from_ptr(tail) };
        // Release pairs with the kernel's acquire when it takes a buffer, so that the kernel sees
        // the entry.
        tail.store(*given, Ordering::Release);
    }

    #[allow(unsafe_code, reason = "an address within the pages")]
    fn buffer(&self, id: u16) -> NonNull<u8> {
        let offset = buffers_offset(self.count) + usize::from(id) * self.size();
        // SAFETY: the offset is that of a buffer in the group.
        unsafe { self.start().add(offset) }
    }

    fn start(&self) -> NonNull<u8> {
        self.registration.start()
    }
}

/// Returns the offset of the buffers, which start at a page boundary after the entries.
fn buffers_offset(count: u16) -> usize {
    let bytes = usize::from(count) * size_of::<BufRingEntry>();
    bytes.next_multiple_of(rustix::param::page_size())
}

impl Filled {
    #[allow(unsafe_code, reason = "memory that was shared with the kernel")]
    pub(crate) fn bytes(&self) -> &[u8] {
        let start = self.group.buffer(self.id);
        // SAFETY: the process owns the buffer until it is provided again, so it is not written. The
        // buffer is initialized, by the kernel or with zeroes, and `length` bytes long.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.length) }
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        self.group.give(self.id);
    }
}
