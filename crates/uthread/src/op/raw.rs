//! Raw requests: entries of the crate `io_uring`, built by the caller, and their results.
//!
//! They are checked before submission. Entries that would complete too early or never, or that
//! would affect other requests, are rejected.

use io_uring::squeue::{Entry, Flags};
use io_uring::{cqueue, opcode};

use super::{Awaited, CANCELLED_RESULTS};

/// Maximum number of entries per operation: the size of the smallest submission queue, as linked
/// entries must be submitted together.
pub(crate) const ENTRIES_MAX: usize = 32;

/// Entries that are submitted together, at most [`ENTRIES_MAX`]. Completes when all of them have.
pub(crate) struct RawOperation<'a> {
    pub(crate) requests: &'a mut [RawRequest],
    /// Set by the driver that has performed the operation.
    pub(crate) is_complete: &'a mut bool,
}

impl RawOperation<'_> {
    /// Names the descriptor of the first request. Only some of them have one in its place.
    pub(crate) fn awaited(&self) -> Awaited {
        let first = self.requests.first();
        let head = first.map(|request| Head::of(&request.entry));
        let head = head.filter(|head| head.is_on_descriptor());
        Awaited::on(head.map_or(-1, |head| head.fd))
    }
}

/// An entry and its result.
pub(crate) struct RawRequest {
    pub(crate) entry: Entry,
    pub(crate) result: i32,
    pub(crate) flags: u32,
    /// The result of a second completion, which reports that the kernel no longer needs the memory.
    pub(crate) notification: Option<i32>,
    has_result: bool,
    has_ended: bool,
}

impl RawRequest {
    pub(crate) fn new(entry: Entry) -> RawRequest {
        RawRequest {
            entry,
            result: 0,
            flags: 0,
            notification: None,
            has_result: false,
            has_ended: false,
        }
    }

    /// Records a completion. Returns `true` if it is the last one.
    pub(crate) fn complete(&mut self, result: i32, flags: u32) -> bool {
        if self.has_result {
            self.notification = Some(result);
        } else {
            (self.result, self.flags) = (result, flags);
            self.has_result = true;
        }
        self.has_ended = !cqueue::more(flags);
        self.has_ended
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(crate) fn was_cancelled(&self) -> bool {
        CANCELLED_RESULTS.contains(&self.result)
    }

    /// Returns `true` if the next request starts only after this one.
    pub(crate) fn is_linked(&self) -> bool {
        let flags = Head::of(&self.entry).flags;
        flags.intersects(Flags::IO_LINK | Flags::IO_HARDLINK)
    }

    /// Returns the reason why the entry cannot be submitted at this position of an operation.
    pub(crate) fn refusal(&self, is_last: bool) -> Option<&'static str> {
        let head = Head::of(&self.entry);
        if head.flags.contains(Flags::SKIP_SUCCESS) {
            Some("SKIP_SUCCESS: the call returns with the completion, which this leaves out")
        } else if head.flags.contains(Flags::IO_DRAIN) {
            Some("IO_DRAIN: it would wait for the requests of all other fibers")
        } else if is_last && self.is_linked() {
            Some("a link at the last entry: it would tie the request of another fiber to this one")
        } else if head.is_multishot() {
            Some("a multishot request: the call returns with the last completion only")
        } else {
            None
        }
    }
}

/// The fields of the kernel's `struct io_uring_sqe` that are checked.
#[derive(Clone, Copy)]
#[repr(C)]
struct Head {
    opcode: u8,
    flags: Flags,
    priority: u16,
    fd: i32,
    _offset: u64,
    _address: u64,
    length: u32,
    operation_flags: u32,
}

impl Head {
    #[allow(unsafe_code, reason = "the crate lets nobody read an entry")]
    fn of(entry: &Entry) -> Head {
        const { assert!(size_of::<Head>() <= size_of::<Entry>()) };
        // SAFETY: an entry is the kernel's structure, completely initialized, and these are its
        // first fields: integers, and flags for which all bit patterns are valid.
        unsafe { *std::ptr::from_ref(entry).cast::<Head>() }
    }

    /// Returns `true` if the request is one of those on an open descriptor, and that is no slot.
    fn is_on_descriptor(self) -> bool {
        let is_on_one = matches!(
            self.opcode,
            opcode::Readv::CODE
                | opcode::Writev::CODE
                | opcode::Fsync::CODE
                | opcode::ReadFixed::CODE
                | opcode::WriteFixed::CODE
                | opcode::PollAdd::CODE
                | opcode::SendMsg::CODE
                | opcode::RecvMsg::CODE
                | opcode::Accept::CODE
                | opcode::Connect::CODE
                | opcode::Fallocate::CODE
                | opcode::Read::CODE
                | opcode::Write::CODE
                | opcode::Send::CODE
                | opcode::Recv::CODE
                | opcode::SendZc::CODE
                | opcode::SendMsgZc::CODE
        );
        is_on_one && !self.flags.contains(Flags::FIXED_FILE)
    }

    /// Returns `true` if the request may complete many times.
    fn is_multishot(self) -> bool {
        // IORING_ACCEPT_MULTISHOT, IORING_RECV_MULTISHOT, IORING_POLL_ADD_MULTI,
        // IORING_TIMEOUT_MULTISHOT and IORING_URING_CMD_MULTISHOT.
        match self.opcode {
            opcode::Accept::CODE => self.priority & 1 != 0,
            opcode::Recv::CODE | opcode::RecvMsg::CODE => self.priority & 2 != 0,
            opcode::PollAdd::CODE | opcode::PollRemove::CODE => self.length & 1 != 0,
            opcode::Timeout::CODE => self.operation_flags & (1 << 6) != 0,
            opcode::UringCmd16::CODE => self.operation_flags & 2 != 0,
            opcode::ReadMulti::CODE | opcode::RecvZc::CODE => true,
            _ => false,
        }
    }
}

/// Returns the field of an entry that holds the I/O priority of a read or write.
#[cfg(test)]
pub(crate) fn priority_of(entry: &Entry) -> u16 {
    Head::of(entry).priority
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use io_uring::types::{Fd, Fixed, Timespec};

    use super::*;

    fn refused(entry: Entry) -> Option<&'static str> {
        RawRequest::new(entry).refusal(true)
    }

    #[test]
    fn requests_with_several_completions_are_refused() {
        let time = Timespec::new();
        let multishot = [
            opcode::AcceptMulti::new(Fd(0)).build(),
            opcode::RecvMulti::new(Fd(0), 1).build(),
            opcode::RecvMultiBundle::new(Fd(0), 1).build(),
            opcode::RecvMsgMulti::new(Fd(0), std::ptr::null(), 1).build(),
            opcode::PollAdd::new(Fd(0), 1).multi(true).build(),
            opcode::ReadMulti::new(Fd(0), 0, 1).build(),
            opcode::RecvZc::new(Fd(0), 0).build(),
            opcode::Timeout::new(&raw const time)
                .flags(io_uring::types::TimeoutFlags::MULTISHOT)
                .build(),
        ];
        for entry in multishot {
            assert!(
                refused(entry.clone()).unwrap().contains("multishot"),
                "{entry:?}"
            );
        }
        for flag in [
            Flags::SKIP_SUCCESS,
            Flags::IO_DRAIN,
            Flags::IO_LINK,
            Flags::IO_HARDLINK,
        ] {
            assert!(
                refused(opcode::Nop::new().build().flags(flag)).is_some(),
                "{flag:?}"
            );
        }
    }

    #[test]
    fn requests_name_their_descriptor() {
        let time = Timespec::new();
        let receive = opcode::Recv::new(Fd(7), ptr::null_mut(), 1).build();
        let no_such_field = opcode::Socket::new(2, 1, 0).build();
        let registered = opcode::Recv::new(Fixed(7), ptr::null_mut(), 1).build();
        for (entry, fd) in [
            (receive, 7),
            (opcode::PollAdd::new(Fd(0), 1).build(), 0),
            (opcode::Timeout::new(&raw const time).build(), -1),
            (no_such_field, -1),
            (registered, -1),
        ] {
            let operation = RawOperation {
                requests: &mut [RawRequest::new(entry)],
                is_complete: &mut false,
            };
            assert_eq!(operation.awaited(), Awaited::on(fd));
        }
    }

    #[test]
    fn requests_with_one_completion_are_accepted() {
        let mut byte = 0;
        let time = Timespec::new();
        let single = [
            opcode::Nop::new().build().flags(Flags::ASYNC),
            opcode::Recv::new(Fd(0), &raw mut byte, 1).build(),
            opcode::PollAdd::new(Fd(0), 1).build(),
            opcode::Timeout::new(&raw const time).build(),
            opcode::SendZc::new(Fd(0), &raw const byte, 1).build(),
            opcode::Accept::new(Fd(0), std::ptr::null_mut(), std::ptr::null_mut()).build(),
        ];
        for entry in single {
            assert_eq!(refused(entry), None);
        }
        let linked = opcode::Nop::new().build().flags(Flags::IO_LINK);
        assert_eq!(RawRequest::new(linked).refusal(false), None);
    }
}
