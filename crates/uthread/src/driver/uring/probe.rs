//! Tests which features rings have on this machine, by the code that uses them where there is such
//! code.

use std::io;
use std::time::Duration;

use io_uring::opcode;

use super::devices::Devices;
use super::setup::{self, Mode};
use super::waker::Waker;
use super::{Options, Uring, trial};
use crate::driver::Driver;
use crate::driver::feature::{Feature, Usage};

/// The results of the tests.
pub(crate) struct Findings {
    /// A description of how a worker's ring is set up.
    pub(crate) ring: io::Result<String>,
    pub(crate) features: Vec<Feature>,
    pub(crate) operations: Vec<Feature>,
    /// The locked memory of the first and the last choice.
    pub(crate) locked_bytes: [usize; 2],
}

/// Name, usage, replacement, and a test on a ring with a worker's setup.
type Question = (&'static str, Usage, &'static str, fn(&Uring) -> bool);

const FEATURES: [Question; 16] = [
    (
        "queues of full size",
        Usage::Used,
        "small ones, for lack of memory",
        |ring| setup::is_full_size(&ring.submissions.ring),
    ),
    (
        "deferred task work",
        Usage::Used,
        "cooperative task work",
        |ring| ring.mode == Mode::Deferred,
    ),
    ("cooperative task work", Usage::Used, "interruption", |_| {
        setup::ring(&[Mode::Cooperative]).is_ok()
    }),
    (
        "interrupting task work",
        Usage::Reserve,
        "another driver",
        |_| setup::ring(&[Mode::Interrupting]).is_ok(),
    ),
    (
        "kernel polling (SQPOLL)",
        Usage::OnRequest,
        "workers enter the kernel",
        |_| setup::ring(&[Mode::polled(Duration::ZERO)]).is_ok(),
    ),
    (
        "I/O polling (IOPOLL)",
        Usage::OnRequest,
        "interrupts",
        |_| Devices::new().is_ok(),
    ),
    (
        "timed waits (EXT_ARG)",
        Usage::Used,
        "another driver",
        |ring| ring.submissions.ring.params().is_feature_ext_arg(),
    ),
    (
        "no lost completions (NODROP)",
        Usage::Used,
        "nothing",
        |ring| ring.submissions.ring.params().is_feature_nodrop(),
    ),
    (
        "waiting sockets (FAST_POLL)",
        Usage::Used,
        "threads of the kernel",
        |ring| ring.submissions.ring.params().is_feature_fast_poll(),
    ),
    (
        "message without a ring",
        Usage::Used,
        "an eventfd",
        |ring| matches!(ring.waker, Waker::Message { .. }),
    ),
    (
        "batched waits (MIN_TIMEOUT)",
        Usage::NotYet,
        "waits for the first",
        |ring| ring.submissions.ring.params().is_feature_min_timeout(),
    ),
    (
        "multishot accept",
        Usage::Used,
        "an accept for each",
        |_| trial::multishot_accept(),
    ),
    (
        "provided-buffer rings",
        Usage::Used,
        "the caller's buffer",
        |_| trial::buffer_ring(),
    ),
    (
        "multishot receive",
        Usage::Used,
        "a receive for each",
        |_| trial::multishot_receive(),
    ),
    (
        "registered buffers",
        Usage::Used,
        "pages are looked up by each call",
        |_| trial::registered_buffers(),
    ),
    ("fixed files", Usage::Used, "descriptors", |_| {
        trial::fixed_files()
    }),
];

/// Name, code, usage, and replacement.
type Operation = (&'static str, u8, Usage, &'static str);

const NOTHING: &str = "nothing: its calls fail";

const OPERATIONS: [Operation; 21] = [
    ("accept", opcode::Accept::CODE, Usage::Used, NOTHING),
    ("connect", opcode::Connect::CODE, Usage::Used, NOTHING),
    ("receive", opcode::Recv::CODE, Usage::Used, NOTHING),
    ("send", opcode::Send::CODE, Usage::Used, NOTHING),
    (
        "receive a message",
        opcode::RecvMsg::CODE,
        Usage::Used,
        NOTHING,
    ),
    (
        "send a message",
        opcode::SendMsg::CODE,
        Usage::Used,
        NOTHING,
    ),
    ("poll", opcode::PollAdd::CODE, Usage::Used, NOTHING),
    ("openat", opcode::OpenAt::CODE, Usage::Used, NOTHING),
    ("openat2", opcode::OpenAt2::CODE, Usage::Used, NOTHING),
    ("read", opcode::Read::CODE, Usage::Used, NOTHING),
    ("write", opcode::Write::CODE, Usage::Used, NOTHING),
    (
        "read, registered",
        opcode::ReadFixed::CODE,
        Usage::Used,
        "a read",
    ),
    (
        "write, registered",
        opcode::WriteFixed::CODE,
        Usage::Used,
        "a write",
    ),
    ("readv", opcode::Readv::CODE, Usage::Used, NOTHING),
    ("writev", opcode::Writev::CODE, Usage::Used, NOTHING),
    ("fsync", opcode::Fsync::CODE, Usage::Used, NOTHING),
    ("cancel", opcode::AsyncCancel::CODE, Usage::Used, NOTHING),
    (
        "message to a ring",
        opcode::MsgRingData::CODE,
        Usage::NotYet,
        "a message without a ring",
    ),
    (
        "zero-copy send",
        opcode::SendZc::CODE,
        Usage::NotYet,
        "a send that copies",
    ),
    (
        "futex wait",
        opcode::FutexWait::CODE,
        Usage::NotYet,
        "wake-ups in user space",
    ),
    (
        "wait for a process",
        opcode::WaitId::CODE,
        Usage::NotYet,
        "a thread that waits",
    ),
];

/// Runs all tests. Takes some milliseconds, during which the calling thread blocks.
pub(crate) fn probe() -> Findings {
    let made = super::new(Options::default());
    let ring = made.as_ref().ok();
    let supported = ring.and_then(|ring| super::ring_features::probe(&ring.submissions.ring));
    let feature = |name, available, usage, instead| Feature {
        name,
        available,
        usage,
        instead,
    };
    let features =
        FEATURES.map(|(name, usage, instead, ask)| feature(name, ring.map(ask), usage, instead));
    let operations = OPERATIONS.map(|(name, code, usage, instead)| {
        let available = supported.as_ref().map(|probe| probe.is_supported(code));
        feature(name, available, usage, instead)
    });
    Findings {
        features: features.into(),
        operations: operations.into(),
        ring: made.map(|ring| ring.description()),
        locked_bytes: setup::locked_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::atomic::AtomicBool;

    use io_uring::squeue::Entry;
    use rustix::event::PollFlags;

    use super::*;
    use crate::driver::uring::encode;
    use crate::driver::uring::registered::Registered;
    use crate::op::fs::{FileOperation, OpenHow};
    use crate::op::message::{Header, Message};
    use crate::op::net::{self, SocketOperation};
    use crate::op::peer_address::PeerAddress;
    use crate::priorities::Priority;
    use crate::resource::descriptor::Descriptor;

    /// Asserts that the operation of the entry is listed as used. A new operation has to be added
    /// to the list, too.
    fn check(entry: &Entry) {
        let code = entry.get_opcode();
        let listed = OPERATIONS
            .iter()
            .any(|(_, listed, usage, _)| u32::from(*listed) == code && *usage == Usage::Used);
        assert!(listed, "{code}");
    }

    #[test]
    fn submitted_socket_operations_are_listed_as_used() {
        let stdin = std::io::stdin();
        let fd = Descriptor::unwatched(stdin.as_fd());
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into();
        let mut peer = PeerAddress::new();
        let mut buffer = [0];
        let [mut received, mut sent] = [Header::new(), Header::new()];
        let registered = Registered::new();
        for mut operation in [
            SocketOperation::Accept(net::Accept {
                listener: fd,
                peer: &mut peer,
                raised_nonblock: &AtomicBool::new(false),
            }),
            SocketOperation::Connect(net::Connect {
                socket: fd,
                address: &address,
            }),
            SocketOperation::Send(net::Send {
                socket: fd,
                buffer: b"",
            }),
            SocketOperation::Poll(net::Poll {
                descriptor: fd,
                events: PollFlags::IN,
            }),
            SocketOperation::Receive(net::Receive {
                socket: fd,
                buffer: &mut buffer,
                peek: false,
                drains: true,
            }),
            SocketOperation::ReceiveMessage(net::ReceiveMessage {
                socket: fd,
                message: Message::to_receive(&mut received, &mut [], None, &mut []),
                peek: false,
            }),
            SocketOperation::SendMessage(net::SendMessage {
                socket: fd,
                message: Message::to_send(&mut sent, &[], None, &[], 0),
            }),
        ] {
            check(&encode::socket(&mut operation, &registered));
        }
    }

    #[test]
    fn submitted_file_operations_are_listed_as_used() {
        let stdin = std::io::stdin();
        let fd = Descriptor::unwatched(stdin.as_fd());
        let mut buffer = [0];
        let how = OpenHow::default();
        let registered = Registered::new();
        for mut operation in [
            FileOperation::Open {
                directory: None,
                path: c"",
                how,
            },
            FileOperation::Open {
                directory: None,
                path: c"",
                how: OpenHow { resolve: 1, ..how },
            },
            FileOperation::Write {
                file: fd,
                buffer: b"",
                offset: None,
            },
            FileOperation::ReadVectored {
                file: fd,
                buffers: &mut [],
                offset: None,
            },
            FileOperation::WriteVectored {
                file: fd,
                buffers: &mut [],
                offset: None,
            },
            FileOperation::Sync {
                file: fd,
                data_only: false,
            },
            FileOperation::Read {
                file: fd,
                buffer: &mut buffer,
                offset: None,
            },
        ] {
            check(&encode::file(&mut operation, &registered, Priority::Normal));
        }
    }
}
