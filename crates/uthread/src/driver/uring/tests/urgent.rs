//! Tests of entries with the flag of urgent entries. A kernel without the flag refuses them, so
//! that they are submitted again; a kernel with it accepts them, or refuses them without
//! permission.

use std::io::{Read as _, Seek as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::FromRawFd as _;
use std::sync::atomic::AtomicBool;

use super::cancelled::settle;
use super::*;
use crate::op::net::{Accept, Poll, Receive, Send};
use crate::op::peer_address::PeerAddress;

/// The flag of urgent entries, which `io_uring` does not name: only patched kernels have it.
const FLAG: Flags = Flags::from_bits_retain(1 << 7);

/// The result of a poll of a pipe whose other end is closed.
const HUNG_UP: i32 = libc::POLLHUP as i32;

/// Returns a ring that uses the flag, whether the kernel accepts it or not. `None` if this machine
/// has no rings, or none with kernel polling.
fn ring_with_flag() -> Option<Uring> {
    if rings().is_empty() {
        return None;
    }
    let (io, mode, refusal) = setup::ring_for(POLLED).unwrap();
    if let Some(refusal) = refusal {
        eprintln!("left out: no kernel polling: {refusal}");
        return None;
    }
    // A kernel that does not have the flag refuses it by this error.
    let urgent = UrgentEntries::refused_by(Errno::INVAL);
    Some(assemble(POLLED, (io, mode, None), Some(urgent)).unwrap())
}

fn urgent(ring: &mut Uring) -> &mut UrgentEntries {
    ring.in_flight
        .urgent
        .as_mut()
        .expect("the ring uses the flag")
}

/// Starts an operation of an urgent fiber.
///
/// # Safety
///
/// The contract of `Driver::start`.
unsafe fn start(ring: &mut Uring, operation: &mut Operation<'_>, token: u64) {
    ring.set_priority(Priority::Urgent);
    // SAFETY: promised by the caller.
    let start = unsafe { ring.start(operation, Token(token)) };
    assert!(start.is_pending());
    ring.set_priority(Priority::Normal);
}

/// Returns the result of a request with the flag that does nothing.
fn result_of_flag(ring: &mut Uring) -> i32 {
    let mut raw = Raw::new([opcode::Nop::new().build().flags(FLAG)]);
    let mut operation = raw.operation();
    // SAFETY: the operation outlives its completion, which is awaited below.
    unsafe { start(ring, &mut operation, 1) };
    wait_for(ring, 1)[0].1
}

#[test]
fn only_rings_with_kernel_polling_use_the_flag_and_only_where_it_is_accepted() {
    for mut ring in rings() {
        let result = result_of_flag(&mut ring);
        let known = [0, -libc::EINVAL, -libc::EPERM];
        assert!(known.contains(&result), "{result}");
        let may_use = ring.submissions.ring.params().is_setup_sqpoll() && result == 0;
        assert_eq!(ring.in_flight.urgent.is_some(), may_use);
        let description = ring.description();
        assert_eq!(
            description.contains("urgent entries overtake"),
            may_use,
            "{description}"
        );
    }
}

#[test]
fn raw_requests_are_neither_marked_nor_submitted_again() {
    // The flags of raw requests belong to the program, and so do their errors.
    let Some(mut ring) = ring_with_flag() else {
        return;
    };
    let mut raw = Raw::new([opcode::Nop::new().build()]);
    let mut operation = raw.operation();
    // SAFETY: the operation outlives its completion, which is awaited below.
    unsafe { start(&mut ring, &mut operation, 1) };
    assert_eq!(wait_for(&mut ring, 1), [(1, 0)]);
    let is_refused = result_of_flag(&mut ring) != 0;
    assert!(urgent(&mut ring).is_used(), "no operation was refused");
    assert_eq!(is_refused, refuses(&mut ring));
}

/// Returns `true` if the flag of an operation is refused. The operation completes in any case.
fn refuses(ring: &mut Uring) -> bool {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let state = FdState::new();
    let mut operation = poll(&reader, &state);
    // SAFETY: the operation outlives its completion, which is awaited below.
    unsafe { start(ring, &mut operation, 1) };
    assert_eq!(wait_for(ring, 1), [(1, HUNG_UP)]);
    !urgent(ring).is_used()
}

fn poll<'a>(reader: &'a PipeReader, state: &'a FdState) -> Operation<'a> {
    Operation::Socket(SocketOperation::Poll(Poll {
        descriptor: descriptor(reader, state),
        events: rustix::event::PollFlags::IN,
    }))
}

fn descriptor<'a>(file: &'a impl AsFd, state: &'a FdState) -> Descriptor<'a> {
    Descriptor {
        fd: file.as_fd(),
        state,
    }
}

#[test]
fn multishot_operations_are_not_marked() {
    // A multishot operation lives until the flush only, so that it cannot be submitted again.
    let Some(mut ring) = ring_with_flag() else {
        return;
    };
    let (reader, _writer) = std::io::pipe().unwrap();
    let state = FdState::new();
    let mut operation = Operation::Multishot(MultishotOperation::Poll {
        descriptor: descriptor(&reader, &state),
        events: rustix::event::PollFlags::IN,
    });
    // SAFETY: the operation lives until the ring is flushed.
    unsafe { start(&mut ring, &mut operation, 1) };
    flush(&mut ring);
    ring.cancel(Token(1));
    let done = settle(&mut ring, 1);
    assert_eq!(done, [(1, -libc::ECANCELED)]);
    assert!(urgent(&mut ring).is_used(), "nothing was refused");
}

#[test]
fn operations_on_sockets_and_files_complete_though_their_flag_is_refused() {
    let Some(mut ring) = ring_with_flag() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    theirs.write_all(b"request").unwrap();
    let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let mut file = tempfile::tempfile().unwrap();
    let states = [(); 4].map(|()| FdState::new());
    let [listening, connected, piped, stored] = &states;
    let (mut peer, mut received, mut read) = (PeerAddress::new(), [0; 16], [0; 4]);
    let raised = AtomicBool::new(false);
    let mut operations = [
        Operation::Socket(SocketOperation::Accept(Accept {
            listener: descriptor(&listener, listening),
            peer: &mut peer,
            raised_nonblock: &raised,
        })),
        Operation::Socket(SocketOperation::Receive(Receive {
            socket: descriptor(&ours, connected),
            buffer: &mut received,
            peek: false,
            drains: true,
        })),
        Operation::Socket(SocketOperation::Send(Send {
            socket: descriptor(&ours, connected),
            buffer: b"answer",
        })),
        poll(&reader, piped),
        Operation::File(FileOperation::Write {
            file: descriptor(&file, stored),
            buffer: b"data",
            offset: Some(4),
        }),
        Operation::File(FileOperation::Read {
            file: descriptor(&reader, piped),
            buffer: &mut read,
            offset: None,
        }),
    ];
    for (operation, token) in operations.iter_mut().zip(0..) {
        // SAFETY: the operation outlives its completion, which is awaited below.
        unsafe { start(&mut ring, operation, token) };
    }
    let mut done = wait_for(&mut ring, operations.len());
    done.sort_unstable();
    let (_, accepted) = done.remove(0);
    assert!(accepted > 0, "a descriptor: {accepted}");
    // SAFETY: nothing else has the descriptor.
    drop(unsafe { OwnedFd::from_raw_fd(accepted) });
    assert_eq!(done, [(1, 7), (2, 6), (3, HUNG_UP), (4, 4), (5, 0)]);
    assert_eq!(&received[..7], b"request");
    drop(ours);
    let mut answer = String::new();
    theirs.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
    let mut stored = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut stored).unwrap();
    assert_eq!(stored, *b"\0\0\0\0data");
    let is_refused = !urgent(&mut ring).is_used();
    assert_eq!(result_of_flag(&mut ring) != 0, is_refused);
    assert!(!urgent(&mut ring).is_any_refused(), "all is submitted");
}

/// Time to reap a refusal. A kernel that accepts the flag takes all of it.
const REFUSAL_TIME: Duration = Duration::from_millis(20);

/// When an operation is cancelled, in the order of the moments.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Moment {
    Started,
    Flushed,
    /// Its refusal was reaped, if it is refused.
    Reaped,
    Resubmitted,
}

#[test]
fn a_refused_operation_can_be_cancelled_at_any_time() {
    let moments = [
        Moment::Started,
        Moment::Flushed,
        Moment::Reaped,
        Moment::Resubmitted,
    ];
    for moment in moments {
        let Some(mut ring) = ring_with_flag() else {
            return;
        };
        let (reader, _writer) = std::io::pipe().unwrap();
        let state = FdState::new();
        let mut operation = poll(&reader, &state);
        // SAFETY: the operation outlives its completion, which is awaited below.
        unsafe { start(&mut ring, &mut operation, 1) };
        if moment >= Moment::Flushed {
            flush(&mut ring);
        }
        if moment >= Moment::Reaped {
            let end = Instant::now() + REFUSAL_TIME;
            while urgent(&mut ring).is_used() && Instant::now() < end {
                ring.reap(usize::MAX, &mut |_, completion| {
                    panic!("{completion:?}, though it has to wait")
                });
            }
        }
        if moment == Moment::Resubmitted {
            flush(&mut ring);
        }
        ring.cancel(Token(1));
        let done = settle(&mut ring, 1);
        assert_eq!(done, [(1, -libc::ECANCELED)], "{moment:?}");
        assert!(!urgent(&mut ring).is_any_refused(), "{moment:?}");
    }
}

/// Starts operations of all priorities, some of which are cancelled, while the worker flushes and
/// sleeps.
#[test]
fn each_of_many_operations_completes_once() {
    const COUNT: usize = 600;
    for seed in 0..20 {
        let Some(mut ring) = ring_with_flag() else {
            return;
        };
        let mut random = fastrand::Rng::with_seed(seed);
        let (ready, writer) = std::io::pipe().unwrap();
        let (waiting, _writer) = std::io::pipe().unwrap();
        drop(writer);
        let state = FdState::new();
        let is_ready: Vec<bool> = (0..COUNT).map(|_| random.bool()).collect();
        let pipe = |is_ready: &bool| if *is_ready { &ready } else { &waiting };
        let operations = is_ready.iter().map(|is_ready| poll(pipe(is_ready), &state));
        let mut operations = Vec::from_iter(operations);
        let mut done = Vec::new();
        for (index, operation) in operations.iter_mut().enumerate() {
            ring.set_priority(Priority::ALL[random.usize(..3)]);
            // SAFETY: all operations outlive the completions that are awaited below.
            while unsafe { ring.start(operation, Token(index as u64)) } == Start::Full {
                ring.flush();
                ring.reap(usize::MAX, &mut |token, completion| {
                    done.push((token.0, completion.result));
                });
            }
            ring.set_priority(Priority::Normal);
            // Flushes and waits are rare; one in seven operations that wait is cancelled.
            match random.u8(..) {
                0 => ring.flush(),
                1 => ring.wait(Some(Duration::ZERO)),
                2..40 if !is_ready[index] => ring.cancel(Token(index as u64)),
                _ => {}
            }
        }
        for (index, is_ready) in is_ready.iter().enumerate() {
            let has_ended = done.iter().any(|(token, _)| *token == index as u64);
            if !is_ready && !has_ended {
                ring.cancel(Token(index as u64));
            }
        }
        let left = COUNT - done.len();
        done.extend(settle(&mut ring, left));
        done.sort_unstable();
        let result = |is_ready: &bool| if *is_ready { HUNG_UP } else { -libc::ECANCELED };
        let expected = (0..).zip(is_ready.iter().map(result));
        assert!(expected.eq(done), "seed {seed}");
    }
}

#[test]
fn a_flag_that_is_refused_is_used_again_once_a_test_succeeds() {
    let Some(mut ring) = ring_with_flag() else {
        return;
    };
    if !refuses(&mut ring) {
        return eprintln!("left out: the kernel does not refuse the flag");
    }
    urgent(&mut ring).on_test(-libc::EINVAL);
    assert!(
        !urgent(&mut ring).is_used(),
        "the feature is used, but refused"
    );
    urgent(&mut ring).on_test(0);
    assert!(urgent(&mut ring).is_used());
}
