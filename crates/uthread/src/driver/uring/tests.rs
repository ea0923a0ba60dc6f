//! The driver alone: operations, cancellation and wake-ups on a real ring, without fibers.
#![allow(
    unsafe_code,
    reason = "the tests keep their operations alive themselves"
)]

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::op::fs::FileOperation;
use crate::op::net::SocketOperation;

/// No single step of these tests takes longer, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(10);

fn wait_for(driver: &mut Uring, count: usize) -> Vec<(Token, i32)> {
    let deadline = Instant::now() + PATIENCE;
    let mut done = Vec::new();
    while done.len() < count {
        assert!(Instant::now() < deadline, "only {done:?} completed");
        driver.wait(Some(Duration::from_millis(100)));
        driver.reap(&mut |token, result| done.push((token, result)));
    }
    done
}

fn with_waker(waker: Waker) -> Uring {
    let mut driver = Uring::new().unwrap();
    driver.waker = waker;
    driver.arm_waker();
    driver
}

#[test]
fn more_operations_than_the_queue_holds_all_complete() {
    const COUNT: u64 = 10_000;
    let mut driver = Uring::new().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let mut operations: Vec<_> = (0..COUNT)
        .map(|_| {
            Operation::Socket(SocketOperation::Poll {
                fd: reader.as_fd(),
                events: rustix::event::PollFlags::IN,
            })
        })
        .collect();
    for (index, operation) in operations.iter_mut().enumerate() {
        // SAFETY: `operations` and the pipe outlive the completions awaited below.
        unsafe { driver.submit(operation, Token(index as u64)) };
    }
    let mut done = wait_for(&mut driver, COUNT as usize);
    done.sort_by_key(|(token, _)| token.0);
    assert!(
        done.iter()
            .zip(0..)
            .all(|((token, _), index)| token.0 == index)
    );
}

#[test]
fn a_cancelled_operation_still_completes_itself() {
    let mut driver = Uring::new().unwrap();
    let (reader, _writer) = std::io::pipe().unwrap();
    let mut buffer = [0; 8];
    let mut read = Operation::File(FileOperation::Read {
        file: reader.as_fd(),
        buffer: &mut buffer,
        offset: None,
    });
    // SAFETY: the read's completion is awaited below.
    unsafe { driver.submit(&mut read, Token(1)) };
    driver.flush();
    driver.cancel(Token(1));
    let done = wait_for(&mut driver, 1);
    assert_eq!(done, [(Token(1), -libc::ECANCELED)]);
}

#[test]
fn both_wakers_end_a_wait_again_and_again() {
    let ring_message = Uring::new().unwrap();
    for mut driver in [ring_message, with_waker(Waker::by_eventfd().unwrap())] {
        let kind = driver.waker.kind();
        for _ in 0..3 {
            let waker = driver.waker().unwrap();
            let sender = thread::spawn(move || waker.wake());
            let start = Instant::now();
            driver.wait(Some(PATIENCE));
            driver.reap(&mut |token, _| panic!("{token:?} was never submitted"));
            assert!(start.elapsed() < PATIENCE, "not woken by {kind}");
            sender.join().unwrap();
        }
    }
}

#[test]
fn a_wait_ends_at_its_timeout() {
    let mut driver = Uring::new().unwrap();
    driver.wait(Some(Duration::ZERO));
    driver.reap(&mut |_, _| {});
    let start = Instant::now();
    driver.wait(Some(Duration::from_millis(20)));
    assert!(start.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_completion_counts_once_however_early_it_was_collected() {
    let mut driver = Uring::new().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let mut operation = Operation::Socket(SocketOperation::Poll {
        fd: reader.as_fd(),
        events: rustix::event::PollFlags::IN,
    });
    // SAFETY: the operation and the pipe outlive the completion reaped below.
    unsafe { driver.submit(&mut operation, Token(1)) };
    driver.wait(Some(PATIENCE));
    driver.collect();
    assert_eq!(wait_for(&mut driver, 1).len(), 1);
    let Counts {
        submissions,
        completions,
        ..
    } = driver.counts();
    assert_eq!((submissions, completions), (1, 1));
}
