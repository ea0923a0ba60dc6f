//! Tests of difficult cases with edges and descriptor numbers.
#![allow(
    unsafe_code,
    reason = "the tests keep their operations alive themselves"
)]

mod files;
mod sends;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};

use rustix::event::PollFlags;

use super::*;
use crate::op::net::{self, SocketOperation};
use crate::resource::descriptor::{Descriptor, FdState};

const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// A stream and the driver state that its owner keeps.
struct Watchable {
    stream: UnixStream,
    state: FdState,
}

impl Watchable {
    fn pair() -> (Watchable, UnixStream) {
        let (stream, peer) = UnixStream::pair().unwrap();
        let state = FdState::of_tcp();
        (Watchable { stream, state }, peer)
    }

    fn descriptor(&self) -> Descriptor<'_> {
        Descriptor {
            fd: self.stream.as_fd(),
            state: &self.state,
        }
    }
}

impl Epoll {
    /// Performs an operation. `meanwhile` runs while it may be waiting.
    fn perform(&mut self, mut operation: Operation<'_>, meanwhile: impl FnOnce()) -> i32 {
        // SAFETY: its completion is awaited below.
        let start = unsafe { self.start(&mut operation, Token(0)) };
        self.flush();
        meanwhile();
        if let Start::Done(result) = start {
            return in_one(result);
        }
        assert!(start.is_pending());
        let start = Instant::now();
        let mut found = None;
        while found.is_none() {
            assert!(
                start.elapsed() < TEST_TIMEOUT,
                "the operation never completed"
            );
            self.wait(Some(Duration::from_millis(100)));
            self.reap(1, &mut |_, completion| found = Some(completion.result));
        }
        found.expect("found just now")
    }

    fn receive(&mut self, from: &Watchable, length: usize, meanwhile: impl FnOnce()) -> i32 {
        let mut buffer = vec![0; length];
        let operation = Operation::Socket(SocketOperation::Receive(net::Receive {
            socket: from.descriptor(),
            buffer: &mut buffer,
            peek: false,
            drains: true,
        }));
        self.perform(operation, meanwhile)
    }

    fn attempts(&self) -> u64 {
        self.operations.attempts
    }
}

#[test]
fn a_reader_of_a_drained_stream_waits_without_an_attempt() {
    let mut driver = new().unwrap();
    let (ours, mut peer) = Watchable::pair();
    assert_eq!(
        driver.receive(&ours, 8, || peer.write_all(b"one").unwrap()),
        3
    );
    let before = driver.attempts();
    assert_eq!(
        driver.receive(&ours, 8, || peer.write_all(b"two").unwrap()),
        3
    );
    assert_eq!(driver.attempts() - before, 1);
    // Filled completely: there may be more.
    assert_eq!(
        driver.receive(&ours, 5, || peer.write_all(b"three, four").unwrap()),
        5
    );
    assert_eq!(driver.receive(&ours, 8, || ()), 6);
}

#[test]
fn a_reader_of_a_short_datagram_tries_again_at_once() {
    // A short datagram says nothing about the next one.
    let mut driver = new().unwrap();
    let (ours, peer) = UnixDatagram::pair().unwrap();
    let state = FdState::new();
    for text in ["one", "two", "three"] {
        peer.send(text.as_bytes()).unwrap();
    }
    let mut receive = |meanwhile: &dyn Fn()| {
        let operation = Operation::Socket(SocketOperation::Receive(net::Receive {
            socket: Descriptor {
                fd: ours.as_fd(),
                state: &state,
            },
            buffer: &mut [0; 100],
            peek: false,
            drains: false,
        }));
        driver.perform(operation, meanwhile)
    };
    let nothing = || ();
    assert_eq!([(); 3].map(|()| receive(&nothing)), [3, 3, 5]);
    let send_two = || {
        peer.send(b"four").unwrap();
        peer.send(b"fifth").unwrap();
    };
    assert_eq!(receive(&send_two), 4);
    assert_eq!(receive(&nothing), 5);
}

#[test]
fn an_end_that_came_with_the_last_bytes_is_not_waited_for() {
    let mut driver = new().unwrap();
    let (ours, mut peer) = Watchable::pair();
    let send_and_close = || {
        peer.write_all(b"last").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
    };
    assert_eq!(driver.receive(&ours, 8, send_and_close), 4);
    assert_eq!(driver.receive(&ours, 8, || ()), 0);
    assert_eq!(driver.receive(&ours, 8, || ()), 0);
}

#[test]
fn an_end_after_the_last_bytes_ends_the_wait_for_more() {
    let mut driver = new().unwrap();
    let (ours, mut peer) = Watchable::pair();
    assert_eq!(
        driver.receive(&ours, 8, || peer.write_all(b"last").unwrap()),
        4
    );
    assert_eq!(driver.receive(&ours, 8, || drop(peer)), 0);
}

#[test]
fn a_number_that_means_another_file_is_watched_anew() {
    let mut driver = new().unwrap();
    for _ in 0..3 {
        let (mut ours, mut peer) = Watchable::pair();
        // Higher than the descriptors of other tests.
        let fd = rustix::io::fcntl_dupfd_cloexec(&ours.stream, 1_000).unwrap();
        assert_eq!(fd.as_raw_fd(), 1_000);
        ours.stream = fd.into();
        let send = || peer.write_all(b"x").unwrap();
        assert_eq!(driver.receive(&ours, 8, send), 1);
    }
}

#[test]
fn a_file_whose_owner_has_changed_is_watched_still() {
    // The owner changes but the file remains, which the kernel has registered already.
    let mut driver = new().unwrap();
    let (mut ours, mut peer) = Watchable::pair();
    assert_eq!(
        driver.receive(&ours, 8, || peer.write_all(b"one").unwrap()),
        3
    );
    peer.write_all(b"two").unwrap();
    ours.state = FdState::of_tcp();
    assert_eq!(driver.receive(&ours, 8, || ()), 3);
    ours.state = FdState::of_tcp();
    assert_eq!(
        driver.receive(&ours, 8, || peer.write_all(b"three").unwrap()),
        5
    );
}

/// Catches a driver that forgets an end, which the kernel reports once, because another owner waits
/// for space.
#[test]
fn an_end_is_remembered_when_the_owner_has_changed() {
    let mut driver = new().unwrap();
    let (mut ours, mut peer) = Watchable::pair();
    assert_eq!(
        driver.receive(&ours, 8, || peer.write_all(b"one").unwrap()),
        3
    );
    ours.stream.set_nonblocking(true).unwrap();
    while ours.stream.write(&[0; 1024]).is_ok() {}
    peer.write_all(b"last").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let later = FdState::of_tcp();
    let mut waiting = [&ours.state, &later].map(|state| {
        Operation::Socket(SocketOperation::Send(net::Send {
            socket: Descriptor {
                fd: ours.stream.as_fd(),
                state,
            },
            buffer: b"no room",
        }))
    });
    for (operation, token) in waiting.iter_mut().zip(1..) {
        // SAFETY: the operation is cancelled below, and its completion awaited.
        let start = unsafe { driver.start(operation, Token(token)) };
        assert!(start.is_pending());
        driver.flush();
    }
    let mut receive = || {
        let operation = Operation::Socket(SocketOperation::Receive(net::Receive {
            socket: Descriptor {
                fd: ours.stream.as_fd(),
                state: &later,
            },
            buffer: &mut [0; 8],
            peek: false,
            drains: true,
        }));
        driver.perform(operation, || ())
    };
    assert_eq!([receive(), receive()], [4, 0]);
    for token in [1, 2] {
        driver.cancel(Token(token));
    }
    let mut cancelled = Vec::new();
    let mut note = |_, result| cancelled.push(result);
    driver.reap(2, &mut note);
    assert_eq!(cancelled, [Completion::last(-op::CANCELLED); 2]);
}

#[test]
fn available_bytes_are_read_at_once_and_missing_ones_cost_one_call() {
    let mut driver = new().unwrap();
    let (ours, mut peer) = Watchable::pair();
    let mut attempt = || {
        let mut operation = Operation::Socket(SocketOperation::Receive(net::Receive {
            socket: ours.descriptor(),
            buffer: &mut [0; 8],
            peek: false,
            drains: true,
        }));
        let before = driver.counts().enters;
        // SAFETY: the operation is cancelled below if it is pending.
        let start = unsafe { driver.start(&mut operation, Token(1)) };
        let calls = driver.counts().enters - before;
        if let Start::Done(result) = start {
            return (Some(in_one(result)), calls);
        }
        driver.cancel(Token(1));
        let mut cancelled = 0;
        driver.reap(2, &mut |_, _| cancelled += 1);
        assert_eq!((start.is_pending(), cancelled), (true, 1));
        if calls == 0 {
            driver.wait(Some(Duration::ZERO));
        }
        (None, calls)
    };
    assert_eq!([attempt(), attempt()], [(None, 1), (None, 0)]);
    peer.write_all(b"one").unwrap();
    // The driver notices new data when it polls.
    assert_eq!([attempt(), attempt()], [(None, 0), (Some(3), 1)]);
    // Fewer bytes than requested were available.
    assert_eq!(attempt(), (None, 0));
    peer.write_all(b"as much, and more").unwrap();
    assert_eq!([attempt(), attempt()], [(None, 0), (Some(8), 1)]);
    assert_eq!([attempt(), attempt()], [(Some(8), 1), (Some(1), 1)]);
    drop(peer);
    assert_eq!([attempt(), attempt()], [(None, 0), (Some(0), 1)]);
}

#[test]
fn two_instances_hear_of_the_same_file() {
    let (mut one, mut other) = (new().unwrap(), new().unwrap());
    let (ours, mut peer) = Watchable::pair();
    for _ in 0..3 {
        assert_eq!(one.receive(&ours, 8, || peer.write_all(b"one").unwrap()), 3);
        assert_eq!(
            other.receive(&ours, 8, || peer.write_all(b"other").unwrap()),
            5
        );
    }
}

/// Reads in one fiber on one worker, in another on a second worker, and in a third on the first
/// worker again.
#[test]
fn a_waiter_is_not_forgotten_while_others_use_the_file() {
    let (mut one, mut other) = (new().unwrap(), new().unwrap());
    let (ours, mut peer) = Watchable::pair();
    let mut buffers = [[0; 3]; 2];
    let mut waiting = buffers.each_mut().map(|buffer| {
        Operation::Socket(SocketOperation::Receive(net::Receive {
            socket: ours.descriptor(),
            buffer,
            peek: false,
            drains: true,
        }))
    });
    let mut meanwhile = Some(|| peer.write_all(b"two").unwrap());
    for (operation, token) in waiting.iter_mut().zip(0..) {
        // SAFETY: its completion is awaited below.
        let start = unsafe { one.start(operation, Token(token)) };
        assert!(start.is_pending());
        one.flush();
        if let Some(write) = meanwhile.take() {
            assert_eq!(other.receive(&ours, 8, write), 3);
        }
    }
    let mut done = Vec::new();
    peer.write_all(b"onethree").unwrap();
    while done.len() < 2 {
        one.wait(Some(TEST_TIMEOUT));
        let mut note = |token, done_as: Completion| done.push((token, done_as.result));
        one.reap(usize::MAX, &mut note);
    }
    assert_eq!(done, [(Token(0), 3), (Token(1), 3)]);
}

#[test]
fn a_send_goes_on_when_there_is_room_again() {
    let mut driver = new().unwrap();
    let (ours, mut peer) = Watchable::pair();
    let bytes = vec![7; 1024 * 1024];
    let send = |bytes| {
        Operation::Socket(SocketOperation::Send(net::Send {
            socket: ours.descriptor(),
            buffer: bytes,
        }))
    };
    let first = driver.perform(send(&bytes), || ());
    assert!((1..1024 * 1024).contains(&first), "{first}");
    let read_all = || peer.read_exact(&mut vec![0; first as usize]).unwrap();
    assert!(driver.perform(send(&bytes), read_all) > 0);
}

#[test]
fn waiters_are_served_in_order() {
    const COUNT: u64 = 20;
    let mut driver = new().unwrap();
    let (ours, mut peer) = Watchable::pair();
    let mut buffers = vec![[0_u8; 1]; COUNT as usize];
    let mut operations: Vec<_> = buffers
        .iter_mut()
        .map(|buffer| {
            Operation::Socket(SocketOperation::Receive(net::Receive {
                socket: ours.descriptor(),
                buffer,
                peek: false,
                drains: true,
            }))
        })
        .collect();
    for (operation, token) in operations.iter_mut().zip(0..) {
        // SAFETY: all completions are awaited below.
        let start = unsafe { driver.start(operation, Token(token)) };
        assert!(start.is_pending());
    }
    driver.flush();
    let mut order = Vec::new();
    for byte in 0..COUNT {
        peer.write_all(&[byte as u8]).unwrap();
        driver.wait(Some(TEST_TIMEOUT));
        let mut note = |Token(token), done: Completion| order.push((token, done.result));
        driver.reap(usize::MAX, &mut note);
    }
    let expected: Vec<_> = (0..COUNT).map(|token| (token, 1)).collect();
    assert_eq!(order, expected);
    drop(operations);
    assert!(buffers.iter().flatten().copied().eq(0..COUNT as u8));
}

#[test]
fn calls_that_succeed_at_once_do_not_keep_events_away() {
    let mut driver = new().unwrap();
    let (ours, mut peer) = Watchable::pair();
    let (busy, _sink) = Watchable::pair();
    let mut buffer = [0; 8];
    let mut waiting = Operation::Socket(SocketOperation::Receive(net::Receive {
        socket: ours.descriptor(),
        buffer: &mut buffer,
        peek: false,
        drains: true,
    }));
    // SAFETY: its completion is awaited below.
    let start = unsafe { driver.start(&mut waiting, Token(1)) };
    assert!(start.is_pending());
    driver.flush();
    peer.write_all(b"x").unwrap();
    let mut done = Vec::new();
    for _ in 0..=BLIND_WAITS_MAX {
        let mut ready = Operation::Socket(SocketOperation::Poll(net::Poll {
            descriptor: busy.descriptor(),
            events: PollFlags::OUT,
        }));
        // SAFETY: the completion is reaped just below.
        let start = unsafe { driver.start(&mut ready, Token(2)) };
        assert!(start.is_pending());
        driver.wait(Some(TEST_TIMEOUT));
        let mut note = |token, _| done.push(token);
        driver.reap(usize::MAX, &mut note);
    }
    assert_eq!(done.iter().filter(|token| **token == Token(1)).count(), 1);
    assert_eq!(done.len() as u32, BLIND_WAITS_MAX + 2);
}
