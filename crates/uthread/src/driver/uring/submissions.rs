//! The end of a ring at which entries go in.
//!
//! The worker tells the kernel of the entries in the queue when it enters it. Where a thread of the kernel polls the
//! queue instead, that one takes an entry as soon as it sees it. But an operation must not end before its fiber has left
//! its stack, and a chain that is seen in part is torn; so there entries gather beside the queue until they are published,
//! all at once.

use std::sync::Arc;
use std::thread;

use io_uring::squeue::Entry;
use io_uring::{EnterFlags, SubmissionQueue};

use super::Ring;

/// Of one ring; only its owner has it.
pub(super) struct Submissions {
    ring: Arc<Ring>,
    /// What is not published yet, where a thread of the kernel polls; as many at most as the queue has room for.
    gathered: Option<Vec<Entry>>,
    /// Whether entries were put in since the last publication.
    are_unpublished: bool,
}

/// Published entries that the kernel has not been told of, and how to tell it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingSubmissions {
    /// Entries that it takes when it is entered.
    pub(super) entries: u32,
    /// How to enter it for the thread that takes them.
    pub(super) flags: EnterFlags,
}

impl PendingSubmissions {
    pub(super) fn is_empty(self) -> bool {
        self.entries == 0 && self.flags.is_empty()
    }
}

impl Submissions {
    pub(super) fn new(ring: Arc<Ring>) -> Submissions {
        let kernel_polls = ring.io.params().is_setup_sqpoll();
        Submissions {
            ring,
            gathered: kernel_polls.then(Vec::new),
            are_unpublished: false,
        }
    }

    #[allow(unsafe_code, reason = "one of two queues that share their ring")]
    fn queue(ring: &mut Arc<Ring>) -> SubmissionQueue<'_> {
        // SAFETY: there is one `Submissions` to a ring, whose handle is borrowed mutably here, and nobody else submits.
        unsafe { ring.io.submission_shared() }
    }

    /// Puts entries in, for which there must be room. They reach the kernel together.
    ///
    /// # Safety
    ///
    /// What they point to stays valid until their completion.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) unsafe fn push<'a>(&mut self, entries: impl IntoIterator<Item = &'a Entry>) {
        self.are_unpublished = true;
        let mut queue = Self::queue(&mut self.ring);
        if let Some(gathered) = &mut self.gathered {
            gathered.extend(entries.into_iter().cloned());
            let room = queue.capacity() - queue.len();
            return assert!(
                gathered.len() <= room,
                "whoever submits has looked for room"
            );
        }
        for entry in entries {
            // SAFETY: promised by the caller.
            let pushed = unsafe { queue.push(entry) };
            assert!(pushed.is_ok(), "whoever submits has looked for room");
        }
    }

    pub(super) fn has_room(&mut self, entries: usize) -> bool {
        let gathered = self.gathered.as_ref().map_or(0, Vec::len);
        let queue = Self::queue(&mut self.ring);
        let has_room = queue.capacity() - queue.len() - gathered >= entries;
        drop(queue);
        self.let_thread_run(!has_room);
        has_room
    }

    /// Whether entries wait for the next publication.
    pub(super) fn are_unpublished(&self) -> bool {
        self.are_unpublished
    }

    /// Whether the kernel has taken all entries.
    pub(super) fn are_taken(&mut self) -> bool {
        let is_empty = Self::queue(&mut self.ring).is_empty();
        let are_taken = is_empty && self.gathered.as_ref().is_none_or(Vec::is_empty);
        self.let_thread_run(!are_taken);
        are_taken
    }

    /// Called before the caller asks again: the thread that takes what is published may need this processor.
    fn let_thread_run(&self, is_awaited: bool) {
        if is_awaited && self.gathered.as_ref().is_some_and(Vec::is_empty) {
            thread::yield_now();
        }
    }

    /// Publishes the gathered entries to the kernel.
    #[allow(unsafe_code, reason = "the kernel gets pointers")]
    pub(super) fn publish(&mut self) -> PendingSubmissions {
        self.are_unpublished = false;
        let mut queue = Self::queue(&mut self.ring);
        let mut flags = EnterFlags::empty();
        let Some(gathered) = &mut self.gathered else {
            let entries = queue.len() as u32;
            return PendingSubmissions { entries, flags };
        };
        // SAFETY: promised to `push`.
        let pushed = unsafe { queue.push_multiple(gathered) };
        assert!(pushed.is_ok(), "there was room, and there is only more");
        gathered.clear();
        // Shown before the look whether the thread sleeps, which it says before its last look.
        queue.sync();
        if !queue.is_empty() && queue.need_wakeup() {
            flags = EnterFlags::SQ_WAKEUP;
        }
        PendingSubmissions { entries: 0, flags }
    }

    /// Whether completions wait for the worker to enter the kernel.
    pub(super) fn owes_completions(&mut self) -> bool {
        let queue = Self::queue(&mut self.ring);
        queue.taskrun() || queue.cq_overflow()
    }

    /// Whether they do that in the kernel's deferred work.
    pub(super) fn has_task_work(&mut self) -> bool {
        Self::queue(&mut self.ring).taskrun()
    }
}
