//! What a ring does after operations were cancelled: nothing.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};

use super::*;

/// An operation on a connection, and what it needs.
struct Receiving {
    ours: TcpStream,
    theirs: TcpStream,
    state: FdState,
}

impl Receiving {
    fn new() -> Receiving {
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

    fn operation<'a>(&'a self, buffer: &'a mut [u8]) -> Operation<'a> {
        Operation::Socket(SocketOperation::Receive {
            socket: Descriptor {
                fd: self.ours.as_fd(),
                state: &self.state,
            },
            buffer,
            peek: false,
            drains: true,
        })
    }

    /// Lets the connection last.
    fn age(&self) {
        while !self.state.lasts() {}
    }
}

/// Waits for so many completions, and then until the ring has nothing to cancel.
fn settle(ring: &mut Uring, completions: &mut UringCompletions, count: usize) -> Vec<(u64, i32)> {
    let done = wait_for(ring, completions, count);
    let deadline = Instant::now() + TEST_TIMEOUT;
    let cancellations = Arc::clone(&ring.ring);
    let cancellations = &cancellations.cancellations;
    while !cancellations.are_over() || cancellations.next(Instant::now).is_some() {
        assert!(Instant::now() < deadline, "a cancellation is left");
        ring.wait(Some(Duration::from_millis(1)));
        completions.reap(usize::MAX, &mut |_, _| panic!("there is no other"));
    }
    done
}

#[test]
fn nothing_is_left_of_a_cancelled_receive() {
    for (times, flushed) in [(1, false), (2, false), (3, true)] {
        for (mut ring, mut completions) in rings() {
            let receiving = Receiving::new();
            for token in 0..8 {
                let (token, mut buffer) = (Token(token), [0; 8]);
                let mut operation = receiving.operation(&mut buffer);
                // A standing poll after some, where the ring has such.
                if !ring.await_event(&operation, token) {
                    // SAFETY: its completion is awaited below.
                    unsafe { ring.submit(&mut operation, token) };
                }
                if flushed {
                    ring.flush();
                }
                (0..times).for_each(|_| ring.cancel(token));
                let done = settle(&mut ring, &mut completions, 1);
                assert_eq!(done, [(token.0, -libc::ECANCELED)]);
            }
        }
    }
}

/// Its result is known before it is cancelled, and was not handed out.
#[test]
fn nothing_is_left_of_a_receive_that_is_cancelled_when_it_is_ready() {
    for (mut ring, mut completions) in rings() {
        let mut receiving = Receiving::new();
        receiving.age();
        let mut buffer = [0; 8];
        let operation = receiving.operation(&mut buffer);
        if !ring.await_event(&operation, Token(1)) {
            continue;
        }
        receiving.theirs.write_all(b"x").unwrap();
        let done = settle(&mut ring, &mut completions, 1);
        assert_eq!(done, [(1, crate::op::READY)]);
        let operation = receiving.operation(&mut buffer);
        assert!(ring.await_event(&operation, Token(2)));
        ring.cancel(Token(2));
        let done = settle(&mut ring, &mut completions, 1);
        assert_eq!(done, [(2, crate::op::READY)]);
    }
}

/// In a round with the event for which it waits.
#[test]
fn nothing_is_left_of_a_receive_that_is_cancelled_as_its_event_comes() {
    for (mut ring, mut completions) in rings() {
        let mut receiving = Receiving::new();
        receiving.age();
        let mut buffer = [0; 8];
        let operation = receiving.operation(&mut buffer);
        if !ring.await_event(&operation, Token(1)) {
            continue;
        }
        ring.flush();
        receiving.theirs.write_all(b"x").unwrap();
        while completions.is_empty() {
            ring.flush();
        }
        (0..2).for_each(|_| ring.cancel(Token(1)));
        let done = settle(&mut ring, &mut completions, 1);
        assert_eq!(done, [(1, -libc::ECANCELED)]);
    }
}

#[test]
fn nothing_is_left_of_cancelled_requests_of_several_entries_or_completions() {
    for times in [1, 2] {
        for (mut ring, mut completions) in rings() {
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
            // SAFETY: it outlives its completion, which is awaited below.
            unsafe { ring.submit(&mut poll, Token(1)) };
            // SAFETY: as above.
            unsafe { ring.submit(&mut operation, Token(2)) };
            ring.flush();
            for token in [1, 2].repeat(times) {
                ring.cancel(Token(token));
            }
            let mut done = settle(&mut ring, &mut completions, 2);
            done.sort_unstable();
            assert_eq!(done, [(1, -libc::ECANCELED), (2, -libc::ECANCELED)]);
        }
    }
}

/// What is to be cancelled is named by a number that the next poll may get.
#[test]
fn a_poll_is_not_cancelled_for_another_that_ended() {
    let [ended, other] = [7, 8].map(Target::Poll);
    let cancellations = Cancellations::default();
    cancellations.cancel_entries([ended, other].into_iter());
    cancellations.repeat(ended);
    cancellations.forget(ended);
    let later = Instant::now() + TEST_TIMEOUT;
    assert_eq!(cancellations.take(|| later), Some(other));
    assert_eq!(cancellations.take(|| later), None);
}

#[test]
fn an_entry_that_does_not_end_is_cancelled_ever_more_rarely() {
    const SECOND: Duration = Duration::from_secs(1);
    let cancellations = Cancellations::default();
    let (token, start) = (Token(1), Instant::now());
    let (mut now, mut count) = (start, 0);
    cancellations.cancel(token);
    while now - start < SECOND {
        while let Some(Target::Operation(token)) = cancellations.take(|| now) {
            count += 1;
            cancellations.on_answer(token, -libc::EALREADY, now);
        }
        now += cancellations.next(|| now).expect("it has not ended");
    }
    assert!((10..30).contains(&count), "{count} times");
    cancellations.on_end(token);
    assert_eq!(cancellations.take(|| now + SECOND), None);
    assert!(cancellations.are_over());
}
