//! The submission queue of a ring.
//!
//! The worker announces the queued entries to the kernel when it enters the kernel. If a kernel
//! thread polls the queue instead, that thread takes an entry as soon as it sees it. But an
//! operation must not end before its fiber has left its stack, and a chain that is seen in part is
//! split; so entries gather beside the queue until all of them are published at once.
//!
//! Once an operation has had a priority other than normal, entries gather in any case, so that
//! those of a flush are published in the order of their priorities. The entries of a chain have one
//! priority and are added together, so they stay together. No entry has the flag `IO_DRAIN`, whose
//! place among the others would matter.

use std::thread;

use io_uring::squeue::Entry;
use io_uring::{EnterFlags, IoUring};

use crate::priorities::{ByPriority, Priority};

/// A ring, and what is submitted to it.
pub(super) struct Submissions {
    pub(super) ring: IoUring,
    /// `true` if a kernel thread takes entries as soon as they are published.
    kernel_polls: bool,
    /// Entries not published yet, if a kernel thread polls or entries are ordered. Never more than
    /// the queue has space for.
    gathered: Option<ByPriority<Entry>>,
    /// The priority of the entries that are added.
    priority: Priority,
    /// Number of operations that were added since the last publication.
    unpublished: u32,
}

/// Published entries that were not announced to the kernel, and how to announce them.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingSubmissions {
    /// Number of entries that the kernel takes when it is entered.
    pub(super) entries: u32,
    /// The flags that wake the thread which takes them.
    pub(super) flags: EnterFlags,
}

impl PendingSubmissions {
    pub(super) fn is_empty(self) -> bool {
        self.entries == 0 && self.flags.is_empty()
    }
}

impl Submissions {
    pub(super) fn new(ring: IoUring) -> Submissions {
        let kernel_polls = ring.params().is_setup_sqpoll();
        Submissions {
            ring,
            kernel_polls,
            gathered: kernel_polls.then(ByPriority::default),
            priority: Priority::Normal,
            unpublished: 0,
        }
    }

    /// Sets the priority of the entries that are added from now on.
    pub(super) fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
    }

    /// Returns the priority of the entries that are added.
    pub(super) fn priority(&self) -> Priority {
        self.priority
    }

    /// Returns `true` if entries are ordered by their priorities.
    pub(super) fn is_ordered(&self) -> bool {
        self.gathered.is_some()
    }

    /// Orders the entries that are added from now on by their priorities. Those added before come
    /// first.
    pub(super) fn order(&mut self) {
        self.gathered.get_or_insert_default();
    }

    /// Adds entries, for which there must be room. They reach the kernel together.
    ///
    /// # Safety
    ///
    /// The memory that they point to remains valid until their completion.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) unsafe fn push<'a>(&mut self, entries: impl IntoIterator<Item = &'a Entry>) {
        self.unpublished += 1;
        let mut queue = self.ring.submission();
        if let Some(gathered) = &mut self.gathered {
            for entry in entries {
                gathered.push(self.priority, entry.clone());
            }
            let room = queue.capacity() - queue.len();
            return assert!(
                gathered.len() <= room,
                "the queue has room, as the driver has checked"
            );
        }
        for entry in entries {
            // SAFETY: the caller keeps what the entries refer to until their completions.
            let pushed = unsafe { queue.push(entry) };
            assert!(
                pushed.is_ok(),
                "the queue has room, as the driver has checked"
            );
        }
    }

    /// Adds an entry like [`push`](Submissions::push), after all that have gathered, as it refers
    /// to one of them.
    ///
    /// # Safety
    ///
    /// The contract of [`push`](Submissions::push).
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) unsafe fn push_last(&mut self, entry: &Entry) {
        let priority = std::mem::replace(&mut self.priority, Priority::Background);
        // SAFETY: the caller keeps what the entry refers to until its completion.
        unsafe { self.push([entry]) };
        self.priority = priority;
    }

    pub(super) fn has_room(&mut self, entries: usize) -> bool {
        let gathered = self.gathered.as_ref().map_or(0, ByPriority::len);
        let queue = self.ring.submission();
        let has_room = queue.capacity() - queue.len() - gathered >= entries;
        drop(queue);
        self.let_thread_run(!has_room);
        has_room
    }

    /// Returns the number of operations that wait for the next publication.
    pub(super) fn unpublished(&self) -> u32 {
        self.unpublished
    }

    /// Returns `true` if the kernel has taken all entries.
    pub(super) fn is_drained(&mut self) -> bool {
        let is_empty = self.ring.submission().is_empty();
        let is_drained = is_empty && self.gathered.as_ref().is_none_or(ByPriority::is_empty);
        self.let_thread_run(!is_drained);
        is_drained
    }

    /// Yields the CPU between two checks, as the thread that takes published entries may need it.
    fn let_thread_run(&self, is_awaited: bool) {
        let gathered = self.gathered.as_ref();
        if is_awaited && self.kernel_polls && gathered.is_some_and(ByPriority::is_empty) {
            thread::yield_now();
        }
    }

    /// Publishes the gathered entries to the kernel.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) fn publish(&mut self) -> PendingSubmissions {
        self.unpublished = 0;
        let mut queue = self.ring.submission();
        let mut flags = EnterFlags::empty();
        let Some(gathered) = &mut self.gathered else {
            let entries = queue.len() as u32;
            return PendingSubmissions { entries, flags };
        };
        for (_, entry) in gathered.drain() {
            // SAFETY: by the contract of `push`.
            let pushed = unsafe { queue.push(&entry) };
            assert!(pushed.is_ok(), "there was room, and there is only more");
        }
        if !self.kernel_polls {
            let entries = queue.len() as u32;
            return PendingSubmissions { entries, flags };
        }
        // Made visible before checking whether the thread sleeps, which it announces before its
        // last check.
        queue.sync();
        if !queue.is_empty() && queue.need_wakeup() {
            flags = EnterFlags::SQ_WAKEUP;
        }
        PendingSubmissions { entries: 0, flags }
    }

    /// Returns `true` if completions wait for the worker to enter the kernel.
    pub(super) fn owes_completions(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.taskrun() || queue.cq_overflow()
    }

    /// Returns `true` if completions wait in the kernel's deferred work.
    pub(super) fn has_task_work(&mut self) -> bool {
        self.ring.submission().taskrun()
    }
}
