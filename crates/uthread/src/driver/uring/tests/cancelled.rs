//! Tests that a ring is idle after operations were cancelled.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

use super::*;

/// A receive from a connection, and the objects that it needs.
pub(super) struct Receiving {
    pub(super) ours: TcpStream,
    pub(super) theirs: TcpStream,
    state: FdState,
}

impl Receiving {
    pub(super) fn new() -> Receiving {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        let state = FdState::new();
        Receiving {
            ours,
            theirs,
            state,
        }
    }

    pub(super) fn descriptor(&self) -> Descriptor<'_> {
        Descriptor {
            fd: self.ours.as_fd(),
            state: &self.state,
        }
    }

    pub(super) fn operation<'a>(&'a self, buffer: &'a mut [u8]) -> Operation<'a> {
        Operation::Socket(SocketOperation::Receive(net::Receive {
            socket: self.descriptor(),
            buffer,
            peek: false,
            drains: true,
        }))
    }

    /// Makes the connection long-lived.
    pub(super) fn age(&self) {
        while !self.state.lasts() {}
    }
}

/// Waits for `count` completions, and then until the ring has nothing to cancel.
pub(super) fn settle(ring: &mut Uring, count: usize) -> Vec<(u64, i32)> {
    let done = wait_for(ring, count);
    let deadline = Instant::now() + TEST_TIMEOUT;
    let is_settled =
        |state: &Cancellations| state.is_settled() && state.next(Instant::now).is_none();
    while !is_settled(&ring.in_flight.cancellations) {
        assert!(Instant::now() < deadline, "a cancellation is left");
        ring.wait(Some(Duration::from_millis(1)));
        ring.reap(usize::MAX, &mut |_, _| panic!("there is no other"));
    }
    done
}

#[test]
fn nothing_is_left_of_a_cancelled_receive() {
    for (times, flushed) in [(1, false), (2, false), (3, true)] {
        for mut ring in rings() {
            let receiving = Receiving::new();
            for token in 0..8 {
                let (token, mut buffer) = (Token(token), [0; 8]);
                let mut operation = receiving.operation(&mut buffer);
                // Waits for an event after some receives, if the ring has connections.
                // SAFETY: its completion is awaited below.
                let start = unsafe { ring.start(&mut operation, token) };
                assert!(start.is_pending());
                if flushed {
                    ring.flush();
                }
                (0..times).for_each(|_| ring.cancel(token));
                let done = settle(&mut ring, 1);
                assert_eq!(done, [(token.0, -libc::ECANCELED)]);
            }
        }
    }
}

/// Cancels a receive whose event has occurred and was not taken.
#[test]
fn nothing_is_left_of_a_receive_that_is_cancelled_as_its_event_comes() {
    for mut ring in rings_with_connections() {
        let receiving = Receiving::new();
        receiving.age();
        let mut buffer = [0; 8];
        let mut operation = receiving.operation(&mut buffer);
        // SAFETY: its completion is awaited below.
        let start = unsafe { ring.start(&mut operation, Token(1)) };
        assert!(start.is_pending());
        ring.wait(Some(Duration::ZERO));
        (&receiving.theirs).write_all(b"x").unwrap();
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !ring.has_results() {
            assert!(Instant::now() < deadline, "no event comes");
            ring.wait(Some(Duration::from_millis(1)));
        }
        (0..2).for_each(|_| ring.cancel(Token(1)));
        let done = settle(&mut ring, 1);
        assert_eq!(done, [(1, -libc::ECANCELED)]);
        assert_eq!(buffer, [0; 8]);
    }
}

#[test]
fn receives_that_wait_for_a_poll_get_what_comes_in_their_order() {
    // Taking the event receives the data, for each receive in turn.
    for mut ring in rings_with_connections() {
        let receiving = Receiving::new();
        receiving.age();
        let mut buffers = [[0; 3]; 3];
        let [first, second, third] = &mut buffers;
        let mut operations = [first, second, third].map(|buffer| receiving.operation(buffer));
        for (operation, token) in operations.iter_mut().zip(1..) {
            // SAFETY: its completion is awaited below.
            let start = unsafe { ring.start(operation, Token(token)) };
            assert!(start.is_pending());
        }
        let before = ring.counts().enters;
        (&receiving.theirs).write_all(b"onetwo").unwrap();
        let done = wait_for(&mut ring, 2);
        assert_eq!(done, [(1, 3), (2, 3)]);
        (&receiving.theirs).write_all(b"x").unwrap();
        assert_eq!(wait_for(&mut ring, 1), [(3, 1)]);
        assert!(ring.counts().enters > before);
        assert_eq!(buffers, [*b"one", *b"two", [b'x', 0, 0]]);
        // The last one returned fewer bytes than requested: the next waits without a system call.
        let before = ring.counts().enters;
        let mut buffer = [0; 8];
        let mut operation = receiving.operation(&mut buffer);
        // SAFETY: its completion is awaited below.
        let start = unsafe { ring.start(&mut operation, Token(4)) };
        assert_eq!((start.is_pending(), ring.counts().enters), (true, before));
        ring.cancel(Token(4));
        let done = settle(&mut ring, 1);
        assert_eq!(done, [(4, -libc::ECANCELED)]);
    }
}

#[test]
fn receives_that_cannot_wait_for_events_go_by_requests() {
    // A limit of the kernel, such as `fs.epoll.max_user_watches`, may prevent the registration.
    for mut ring in rings_with_connections() {
        let receiving = Receiving::new();
        receiving.age();
        receiving.state.set_impossible();
        let mut buffer = [0; 8];
        let mut operation = receiving.operation(&mut buffer);
        // SAFETY: its completion is awaited below.
        let start = unsafe { ring.start(&mut operation, Token(1)) };
        assert_eq!(
            (start.is_pending(), ring.flush_within().is_some()),
            (true, true)
        );
        ring.flush();
        (&receiving.theirs).write_all(b"three").unwrap();
        assert_eq!(wait_for(&mut ring, 1), [(1, 5)]);
    }
}

#[test]
fn events_come_whether_the_worker_flushes_or_sleeps() {
    // A busy worker takes the events itself; one that sleeps is woken by them.
    for mut ring in rings_with_connections() {
        let receiving = [(); 3].map(|()| Receiving::new());
        receiving.iter().for_each(Receiving::age);
        for round in 0..40_u64 {
            let mut buffers = [[0; 8]; 3];
            let mut operations = Vec::new();
            for (receiving, buffer) in receiving.iter().zip(&mut buffers) {
                operations.push(receiving.operation(buffer));
            }
            for (operation, token) in operations.iter_mut().zip(1..) {
                // SAFETY: its completion is awaited below.
                let start = unsafe { ring.start(operation, Token(token)) };
                assert!(start.is_pending());
            }
            if round % 3 == 0 {
                ring.wait(Some(Duration::ZERO));
            }
            let ready = 1 + (round % 4 / 2 * 2) as usize;
            let mut done = Vec::new();
            for part in [&receiving[..ready], &receiving[ready..]] {
                for receiving in part {
                    (&receiving.theirs).write_all(b"two").unwrap();
                }
                if round % 5 == 0 {
                    ring.flush();
                }
                done.extend(wait_for(&mut ring, part.len()));
            }
            done.sort_unstable();
            assert_eq!(done, [(1, 3), (2, 3), (3, 3)]);
        }
    }
}

/// Sleeps for a long time until `is_over`.
fn sleep_until(ring: &mut Uring, mut is_over: impl FnMut(&mut Uring) -> bool) {
    while !is_over(ring) {
        let begin = Instant::now();
        ring.wait(Some(TEST_TIMEOUT));
        assert!(
            begin.elapsed() < TEST_TIMEOUT,
            "nothing has ended the sleep"
        );
    }
}

#[test]
fn completions_and_wake_ups_end_a_sleep_for_events() {
    // While a receive waits for an event, the worker sleeps in the epoll instance.
    for mut ring in rings_with_connections() {
        let receiving = Receiving::new();
        receiving.age();
        let (reader, mut writer) = std::io::pipe().unwrap();
        let (mut buffer, state) = ([0; 8], FdState::new());
        let mut receive = receiving.operation(&mut buffer);
        for round in 0..40 {
            let mut byte = [0];
            let mut read = Operation::File(FileOperation::Read {
                file: Descriptor {
                    fd: reader.as_fd(),
                    state: &state,
                },
                buffer: &mut byte,
                offset: None,
            });
            // SAFETY: both operations outlive their completions, which are awaited below.
            let start = unsafe { ring.start(&mut read, Token(2)) };
            assert!(start.is_pending());
            if round == 0 {
                // The read is complete before the ring is to signal completions.
                ring.flush();
                writer.write_all(b"x").unwrap();
                // SAFETY: as for the read.
                let start = unsafe { ring.start(&mut receive, Token(1)) };
                assert!(start.is_pending());
            } else if round % 2 == 0 {
                ring.flush();
            }
            let waker = ring.waker().unwrap();
            let (mut done, mut is_woken) = (Vec::new(), round == 0);
            std::thread::scope(|scope| {
                if round > 0 {
                    scope.spawn(|| {
                        writer.write_all(b"x").unwrap();
                        waker.wake();
                    });
                }
                sleep_until(&mut ring, |ring| {
                    is_woken |= ring.reap(usize::MAX, &mut |token, completion| {
                        done.push((token.0, completion.result));
                    });
                    is_woken && !done.is_empty()
                });
            });
            assert_eq!(done, [(2, 1)]);
        }
        ring.cancel(Token(1));
        let done = settle(&mut ring, 1);
        assert_eq!(done, [(1, -libc::ECANCELED)]);
    }
}

#[test]
fn nothing_is_left_of_cancelled_requests_of_several_entries_or_completions() {
    for times in [1, 2] {
        for mut ring in rings() {
            let (reader, _writer) = std::io::pipe().unwrap();
            let state = FdState::new();
            let mut poll = Operation::Multishot(MultishotOperation::Poll {
                descriptor: Descriptor {
                    fd: reader.as_fd(),
                    state: &state,
                },
                events: rustix::event::PollFlags::IN,
            });
            let mut bytes = [0; 4];
            let mut raw = hard_chain(&reader, &mut bytes, Flags::empty());
            let mut operation = raw.operation();
            // SAFETY: the operation outlives its completion, which is awaited below.
            let start = unsafe { ring.start(&mut poll, Token(1)) };
            assert!(start.is_pending());
            // SAFETY: as above.
            let start = unsafe { ring.start(&mut operation, Token(2)) };
            assert!(start.is_pending());
            ring.flush();
            for token in [1, 2].repeat(times) {
                ring.cancel(Token(token));
            }
            let mut done = settle(&mut ring, 2);
            done.sort_unstable();
            assert_eq!(done, [(1, -libc::ECANCELED), (2, -libc::ECANCELED)]);
        }
    }
}

#[test]
fn an_entry_that_does_not_end_is_cancelled_ever_more_rarely() {
    const SECOND: Duration = Duration::from_secs(1);
    let mut cancellations = Cancellations::default();
    let (token, start) = (Token(1), Instant::now());
    let (mut now, mut count) = (start, 0);
    cancellations.cancel(token);
    while now - start < SECOND {
        while let Some(Target::Operation(token)) = cancellations.take(|| now) {
            count += 1;
            cancellations.on_answer(token, -libc::EALREADY, now);
        }
        now += cancellations
            .next(|| now)
            .expect("the cancellation has not ended");
    }
    assert!((10..30).contains(&count), "{count} times");
    cancellations.on_end(token);
    assert_eq!(cancellations.take(|| now + SECOND), None);
    assert!(cancellations.is_settled());
}
