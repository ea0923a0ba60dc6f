//! The driver alone: operations, cancellation and wake-ups on a real ring, without fibers.
#![allow(
    unsafe_code,
    reason = "the tests keep their operations alive themselves"
)]

use std::io::PipeReader;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::op::fs::FileOperation;
use crate::op::net::SocketOperation;

/// No single step of these tests takes longer, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// A driver with both its ends, as a worker has it.
struct Both {
    driver: Uring,
    completions: UringCompletions,
}

impl Both {
    fn new() -> Both {
        let (driver, completions) = super::new(false).unwrap();
        Both {
            driver,
            completions,
        }
    }

    fn reap(&mut self) -> Vec<(Token, i32)> {
        let mut done = Vec::new();
        self.completions
            .reap(usize::MAX, &mut |token, result| done.push((token, result)));
        done
    }

    fn wait_for(&mut self, count: usize) -> Vec<(Token, i32)> {
        let deadline = Instant::now() + PATIENCE;
        let mut done = Vec::new();
        while done.len() < count {
            assert!(Instant::now() < deadline, "only {done:?} completed");
            self.driver.wait(Some(Duration::from_millis(100)));
            done.append(&mut self.reap());
        }
        done
    }
}

/// So many operations that complete at once where the other end of the pipe is closed.
fn polls(reader: &PipeReader, count: usize) -> Vec<Operation<'_>> {
    let poll = |_| {
        Operation::Socket(SocketOperation::Poll {
            fd: reader.as_fd(),
            events: rustix::event::PollFlags::IN,
        })
    };
    (0..count).map(poll).collect()
}

#[test]
fn more_operations_than_the_queue_holds_all_complete() {
    const COUNT: u64 = 10_000;
    let mut both = Both::new();
    let mut done = Vec::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let mut operations = polls(&reader, COUNT as usize);
    for (index, operation) in operations.iter_mut().enumerate() {
        while !both.driver.has_room() {
            both.driver.flush();
            done.append(&mut both.reap());
        }
        // SAFETY: `operations` and the pipe outlive the completions awaited below.
        unsafe { both.driver.submit(operation, Token(index as u64)) };
    }
    done.append(&mut both.wait_for(COUNT as usize - done.len()));
    done.sort_by_key(|(token, _)| token.0);
    assert!(
        done.iter()
            .zip(0..)
            .all(|((token, _), index)| token.0 == index)
    );
}

#[test]
fn a_cancelled_operation_still_completes_itself() {
    let mut both = Both::new();
    let (reader, _writer) = std::io::pipe().unwrap();
    let mut buffer = [0; 8];
    let mut read = Operation::File(FileOperation::Read {
        file: reader.as_fd(),
        buffer: &mut buffer,
        offset: None,
    });
    // SAFETY: the read's completion is awaited below.
    unsafe { both.driver.submit(&mut read, Token(1)) };
    both.driver.flush();
    both.driver.cancel(Token(1));
    assert_eq!(both.wait_for(1), [(Token(1), -libc::ECANCELED)]);
}

#[test]
fn both_wakers_end_a_wait_again_and_again() {
    let by_message = Both::new();
    let mut by_eventfd = Both::new();
    by_eventfd.driver.waker = Waker::by_eventfd().unwrap();
    for mut both in [by_message, by_eventfd] {
        let kind = both.driver.waker.kind();
        for _ in 0..3 {
            let waker = both.driver.waker().unwrap();
            let sender = thread::spawn(move || waker.wake());
            let start = Instant::now();
            both.driver.wait(Some(PATIENCE));
            assert_eq!(both.reap(), [], "never submitted");
            assert!(start.elapsed() < PATIENCE, "not woken by {kind}");
            sender.join().unwrap();
        }
    }
}

/// Otherwise a wake-up between two waits would be forgotten with the one that came before.
#[test]
fn a_wake_up_that_comes_early_ends_the_next_wait() {
    let by_message = Both::new();
    let mut by_eventfd = Both::new();
    by_eventfd.driver.waker = Waker::by_eventfd().unwrap();
    for mut both in [by_message, by_eventfd] {
        let waker = both.driver.waker().unwrap();
        for _ in 0..2 {
            waker.wake();
            let start = Instant::now();
            both.driver.wait(Some(PATIENCE));
            assert_eq!(both.reap(), [], "never submitted");
            waker.wake();
            both.driver.wait(Some(PATIENCE));
            assert!(start.elapsed() < PATIENCE, "{}", both.driver.waker.kind());
        }
    }
}

#[test]
fn a_wait_ends_at_its_timeout() {
    let mut both = Both::new();
    both.driver.wait(Some(Duration::ZERO));
    both.reap();
    let start = Instant::now();
    both.driver.wait(Some(Duration::from_millis(20)));
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[test]
fn no_more_completions_are_reaped_than_asked_for() {
    let mut both = Both::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let mut operations = polls(&reader, 5);
    for (index, operation) in operations.iter_mut().enumerate() {
        // SAFETY: `operations` and the pipe outlive the completions awaited below.
        unsafe { both.driver.submit(operation, Token(index as u64)) };
    }
    both.driver.wait(Some(PATIENCE));
    let mut some = 0;
    both.completions.reap(2, &mut |_, _| some += 1);
    // A wake-up that the making of the ring has left there counts as one.
    assert!((1..=2).contains(&some), "{some}");
    assert_eq!(both.wait_for(5 - some).len(), 5 - some);
}
