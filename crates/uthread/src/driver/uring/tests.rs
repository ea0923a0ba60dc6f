//! Tests of a ring alone: completion of raw operations, room for them, and the use of registered
//! resources.
#![allow(
    unsafe_code,
    reason = "the tests keep their operations alive themselves"
)]

mod backlog;
mod cancelled;
mod disk;
mod gathered;
mod priorities;
#[cfg(uthread_urgent)]
mod urgent;

use std::io::PipeReader;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::slice;

use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use rustix::net::{AddressFamily, SocketType, socket};

use super::user_data::Target;
use super::*;
use crate::driver::eventfd::Eventfd;
use crate::op::CANCELLED_RESULTS;
use crate::op::fs::FileOperation;
use crate::op::multishot::MultishotOperation;
use crate::op::net::{self, SocketOperation};
use crate::op::raw::{RawOperation, RawRequest};
use crate::resource::descriptor::{Descriptor, FdState};

/// Time limit of a step of these tests, on the slowest machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The kernel thread goes to sleep at once, so that it is awake in some rounds and asleep in
/// others.
const POLLED: Options = Options {
    moves: false,
    is_only: false,
    kernel_polling: Some(Duration::ZERO),
    io_polling: false,
    kernel_workers: None,
};

/// Returns a ring of its own, one that moves between threads, and one with kernel polling, as far as
/// the kernel permits them.
fn rings() -> Vec<Uring> {
    let own = Options::default();
    match new(own) {
        Err(error) if is_refusal(&error) => {
            eprintln!("left out: {error}");
            Vec::new()
        }
        ring => {
            let moving = Options {
                moves: true,
                is_only: true,
                ..own
            };
            vec![ring.unwrap(), new(moving).unwrap(), new(POLLED).unwrap()]
        }
    }
}

/// Returns the rings whose receives may wait for events.
fn rings_with_connections() -> impl Iterator<Item = Uring> {
    let rings = rings().into_iter();
    rings.filter(|ring| ring.connections.is_some())
}

struct Raw {
    requests: Vec<RawRequest>,
    is_complete: bool,
}

impl Raw {
    fn new(entries: impl IntoIterator<Item = Entry>) -> Raw {
        Raw {
            requests: entries.into_iter().map(RawRequest::new).collect(),
            is_complete: false,
        }
    }

    fn operation(&mut self) -> Operation<'_> {
        Operation::Raw(RawOperation {
            requests: &mut self.requests,
            is_complete: &mut self.is_complete,
        })
    }
}

fn wait_for(ring: &mut Uring, count: usize) -> Vec<(u64, i32)> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut done = Vec::new();
    while done.len() < count {
        assert!(Instant::now() < deadline, "only {done:?} completed");
        ring.wait(Some(Duration::from_millis(100)));
        ring.reap(usize::MAX, &mut |token, completion| {
            done.push((token.0, completion.result))
        });
    }
    done
}

/// Before Linux 5.18, the kernel would wait for the end of all requests.
#[test]
fn the_simplest_ring_has_its_eventfd_before_any_request() {
    let (ring, mode) = match setup::ring(&[setup::Mode::Interrupting]) {
        Err(error) if is_refusal(&error) => return eprintln!("left out: {error}"),
        made => made.unwrap(),
    };
    let made = (ring, mode, None);
    let ring = assemble(
        Options::default(),
        made,
        #[cfg(uthread_urgent)]
        None,
    );
    let ring = &ring.unwrap().submissions.ring;
    let other = Eventfd::new().unwrap();
    let set = ring.submitter().register_eventfd(other.as_fd().as_raw_fd());
    assert_eq!(set.unwrap_err().raw_os_error(), Some(libc::EBUSY));
}

#[test]
fn a_full_ring_is_reported_and_begins_nothing_more() {
    const ENTRIES: usize = 30;
    for mut ring in rings() {
        let mut raws = Vec::from_iter(
            (0..20).map(|_| Raw::new((0..ENTRIES).map(|_| opcode::Nop::new().build()))),
        );
        let mut operations = Vec::from_iter(raws.iter_mut().map(Raw::operation));
        let mut submitted = 0;
        loop {
            let operation = &mut operations[submitted];
            // SAFETY: all operations outlive the completions that are awaited below.
            match unsafe { ring.start(operation, Token(submitted as u64)) } {
                Start::Pending(_) => submitted += 1,
                start => break assert_eq!(start, Start::Full),
            }
        }
        assert!(submitted < operations.len());
        let mut done = wait_for(&mut ring, submitted);
        done.sort_unstable();
        assert!(
            done.into_iter()
                .eq((0..submitted).map(|index| (index as u64, 0)))
        );
        drop(operations);
        assert!(raws[..submitted].iter().all(|raw| raw.is_complete));
        assert!(!raws[submitted].is_complete);
    }
}

#[test]
fn an_operation_is_complete_once_all_its_entries_are() {
    for mut ring in rings() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut byte = 0_u8;
        let read = opcode::Read::new(Fd(reader.as_raw_fd()), &raw mut byte, 1).build();
        let mut raw = Raw::new([opcode::Nop::new().build(), read, opcode::Nop::new().build()]);
        let mut operation = raw.operation();
        // SAFETY: the operation outlives its completion, which is awaited below.
        let start = unsafe { ring.start(&mut operation, Token(1)) };
        assert!(start.is_pending());
        let mut early = Vec::new();
        for _ in 0..3 {
            ring.wait(Some(Duration::from_millis(1)));
            ring.reap(usize::MAX, &mut |token, _| early.push(token));
        }
        assert_eq!(early, []);
        drop(writer);
        assert_eq!(wait_for(&mut ring, 1), [(1, 0)]);
        assert!(raw.is_complete);
    }
}

/// Builds a chain of waiting reads, each of which starts even if the previous one has failed. With
/// `Flags::ASYNC` they run in a kernel worker.
fn hard_chain(reader: &PipeReader, bytes: &mut [u8], flags: Flags) -> Raw {
    let last = bytes.len() - 1;
    let read = |(index, byte): (usize, &mut u8)| {
        let read = opcode::Read::new(Fd(reader.as_raw_fd()), byte, 1).build();
        let read = read.flags(flags);
        match index {
            index if index < last => read.flags(Flags::IO_HARDLINK),
            _ => read,
        }
    };
    Raw::new(bytes.iter_mut().enumerate().map(read))
}

#[test]
fn a_cancelled_chain_is_complete_when_each_of_its_entries_has_ended() {
    for flushed in [false, true] {
        for mut ring in rings() {
            let (reader, _writer) = std::io::pipe().unwrap();
            let mut bytes = [0_u8; 4];
            let mut raw = hard_chain(&reader, &mut bytes, Flags::empty());
            let mut operation = raw.operation();
            // SAFETY: the operation outlives its completion, which is awaited below.
            let start = unsafe { ring.start(&mut operation, Token(1)) };
            assert!(start.is_pending());
            if flushed {
                ring.flush();
            }
            ring.cancel(Token(1));
            let done = wait_for(&mut ring, 1);
            assert_eq!(done, [(1, -libc::ECANCELED)]);
            assert!(raw.requests.iter().all(RawRequest::was_cancelled));
        }
    }
}

/// Catches a cancellation that is lost because it finds an entry between a kernel worker and its
/// wait.
#[test]
fn many_chains_that_are_cancelled_together_all_end() {
    const CHAINS: usize = 100;
    for round in 0..20 {
        for mut ring in rings() {
            let flags = [Flags::empty(), Flags::ASYNC][round % 2];
            let (reader, _writer) = std::io::pipe().unwrap();
            let mut bytes = [[0_u8; 6]; CHAINS];
            let chain = |bytes| hard_chain(&reader, bytes, flags);
            let mut raws = Vec::from_iter(bytes.iter_mut().map(|bytes| chain(bytes)));
            let mut operations = Vec::from_iter(raws.iter_mut().map(Raw::operation));
            for (index, operation) in operations.iter_mut().enumerate() {
                // SAFETY: all operations outlive the completions that are awaited below.
                while unsafe { ring.start(operation, Token(index as u64)) } == Start::Full {
                    ring.flush();
                }
            }
            ring.flush();
            (0..CHAINS).for_each(|index| ring.cancel(Token(index as u64)));
            let done = wait_for(&mut ring, CHAINS);
            assert!(done.iter().all(|(_, result)| *result == -libc::ECANCELED));
        }
    }
}

#[test]
fn a_connect_that_is_on_its_way_is_cancelled() {
    // A ring retries a connect many times before a kernel worker waits for it, and in between there
    // is nothing to cancel.
    const ROUNDS: usize = 100;
    for mut ring in rings() {
        let name = rustix::net::SocketAddrUnix::new_unnamed();
        let listener = unix_socket();
        rustix::net::bind(&listener, &name).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = rustix::net::getsockname(&listener).unwrap();
        let queued = unix_socket();
        rustix::net::connect(&queued, &address).unwrap();
        for round in 0..ROUNDS {
            let (socket, state) = (unix_socket(), FdState::new());
            let mut connect = Operation::Socket(SocketOperation::Connect(net::Connect {
                socket: Descriptor {
                    fd: socket.as_fd(),
                    state: &state,
                },
                address: &address,
            }));
            // SAFETY: the connect's completion is awaited below.
            let start = unsafe { ring.start(&mut connect, Token(round as u64)) };
            assert!(start.is_pending());
            if round % 2 == 1 {
                ring.flush();
            }
            ring.cancel(Token(round as u64));
            let done = wait_for(&mut ring, 1);
            let was_cancelled = |(_, result): &(u64, i32)| CANCELLED_RESULTS.contains(result);
            assert!(done.iter().all(was_cancelled), "{done:?}");
        }
    }
}

fn unix_socket() -> OwnedFd {
    socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap()
}

fn code_of(registered: &Registered, mut operation: FileOperation<'_>) -> u8 {
    encode::file(&mut operation, registered, Priority::Normal).get_opcode() as u8
}

/// Returns `true` if a read into these bytes, and a write from them, use registered memory.
fn is_registered(registered: &Registered, buffer: &mut [u8]) -> bool {
    let stdin = std::io::stdin();
    let (file, offset) = (Descriptor::unwatched(stdin.as_fd()), None);
    let write = FileOperation::Write {
        file,
        buffer,
        offset,
    };
    let written = code_of(registered, write);
    let read = FileOperation::Read {
        file,
        buffer,
        offset,
    };
    match (code_of(registered, read), written) {
        (opcode::Read::CODE, opcode::Write::CODE) => false,
        (opcode::ReadFixed::CODE, opcode::WriteFixed::CODE) => true,
        codes => panic!("{codes:?}"),
    }
}

#[test]
fn only_what_lies_in_registered_memory_goes_by_it() {
    const LENGTH: usize = 5000;
    for mut ring in rings() {
        if !trial::registered_buffers() {
            return eprintln!("left out: this kernel has no registered buffers");
        }
        let [first, second] = [LENGTH, 1].map(|bytes| ring.register_buffer(bytes).unwrap());
        let start = first.start().as_ptr();
        let bytes = |from: usize, to: usize| {
            let start = start.wrapping_add(from);
            // SAFETY: a part of the two zeroed pages, used one slice at a time.
            unsafe { slice::from_raw_parts_mut(start, to - from) }
        };
        for (from, to, expected) in [
            (0, LENGTH, true),
            (0, 1, true),
            (LENGTH - 1, LENGTH, true),
            (0, LENGTH + 1, false),
            (LENGTH, LENGTH + 1, false),
            (1, 1, false),
        ] {
            let part = bytes(from, to);
            assert_eq!(
                is_registered(&ring.registered, part),
                expected,
                "{from}..{to}"
            );
            assert!(!is_registered(&Registered::new(), part));
        }
        assert!(!is_registered(&ring.registered, &mut [0; LENGTH]));
        drop(second);
        ring.flush();
        assert!(is_registered(&ring.registered, bytes(0, 1)));
        assert_eq!(ring.registered.counts(), [1, 1]);
        drop(first);
        ring.flush();
        assert_eq!(ring.registered.counts(), [0, 0]);
    }
}

/// Catches an operation that begins too early: it could end before its fiber has left its stack,
/// and another worker could resume the fiber.
#[test]
fn nothing_is_begun_before_the_flush() {
    const LOOKS: usize = 1000;
    for mut ring in rings() {
        wait_for_wake_up(&mut ring);
        let mut raw = Raw::new([opcode::Nop::new().build()]);
        let mut operation = raw.operation();
        // SAFETY: the operation outlives its completion, which is awaited below.
        let start = unsafe { ring.start(&mut operation, Token(1)) };
        assert!(start.is_pending());
        for _ in 0..LOOKS {
            assert!(!ring.has_results());
            std::thread::yield_now();
        }
        assert_eq!(wait_for(&mut ring, 1), [(1, 0)]);
    }
}

/// Consumes a wake-up that the creation of the ring may have left.
fn wait_for_wake_up(ring: &mut Uring) {
    ring.waker().unwrap().wake();
    ring.wait(Some(TEST_TIMEOUT));
    while ring.has_results() {
        ring.reap(usize::MAX, &mut |_, _| {
            unreachable!("nothing was submitted")
        });
        ring.wait(Some(Duration::ZERO));
    }
}

/// Returns when the kernel has taken all entries.
fn flush(ring: &mut Uring) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    ring.flush();
    while !ring.is_flushed() {
        assert!(Instant::now() < deadline, "the completion is not taken");
    }
}

/// Catches a kernel thread that polls several rings, takes a part of the chain, and so starts the
/// next part concurrently.
#[test]
fn a_chain_is_taken_whole() {
    let rings: Vec<_> = rings().into_iter().chain(rings()).collect();
    for mut ring in rings {
        let (reader, writer) = std::io::pipe().unwrap();
        let (later_reader, later_writer) = std::io::pipe().unwrap();
        let mut byte = 0_u8;
        let first = opcode::Read::new(Fd(reader.as_raw_fd()), &raw mut byte, 1).build();
        let later = opcode::Write::new(Fd(later_writer.as_raw_fd()), b"x".as_ptr(), 1).build();
        let mut entries = vec![later; 32];
        entries[0] = first;
        let last = entries.len() - 1;
        let linked = |entry: &mut Entry| *entry = entry.clone().flags(Flags::IO_LINK);
        entries[..last].iter_mut().for_each(linked);
        let mut raw = Raw::new(entries);
        let mut operation = raw.operation();
        // SAFETY: the operation outlives its completion, which is awaited below.
        let start = unsafe { ring.start(&mut operation, Token(1)) };
        assert!(start.is_pending());
        flush(&mut ring);
        assert_eq!(rustix::io::ioctl_fionread(&later_reader).unwrap(), 0);
        drop(writer);
        assert_eq!(wait_for(&mut ring, 1), [(1, 0)]);
    }
}

#[test]
fn flushed_operations_do_not_need_their_descriptor() {
    const ROUNDS: u64 = 50;
    for mut ring in rings() {
        for round in 0..ROUNDS {
            let (reader, writer) = std::io::pipe().unwrap();
            let state = FdState::new();
            let mut poll = Operation::Multishot(MultishotOperation::Poll {
                descriptor: Descriptor {
                    fd: reader.as_fd(),
                    state: &state,
                },
                events: rustix::event::PollFlags::IN,
            });
            // SAFETY: the operation lives until the ring is flushed.
            let start = unsafe { ring.start(&mut poll, Token(round)) };
            assert!(start.is_pending());
            flush(&mut ring);
            drop(reader);
            ring.cancel(Token(round));
            let done = wait_for(&mut ring, 1);
            assert_eq!(done.last(), Some(&(round, -libc::ECANCELED)));
            drop(writer);
        }
    }
}
