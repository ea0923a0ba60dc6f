//! Tests of each driver alone: operations, cancellation and wake-ups in a real kernel, without
//! fibers.
#![allow(
    unsafe_code,
    reason = "the tests keep their operations alive themselves"
)]

use std::io::PipeReader;
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::*;
use crate::op::fs::FileOperation;
use crate::op::net::{self, SocketOperation};
use crate::resource::descriptor::{Descriptor, FdState};

/// Time limit of a step of these tests, on the slowest machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

type Make = fn() -> io::Result<Box<dyn Driver>>;

/// Returns the drivers available on this machine.
fn drivers() -> Vec<Make> {
    match ring() {
        Err(error) if uring::is_refusal(&error) => {
            eprintln!("left out: {error}");
            vec![epoll::make]
        }
        _ => vec![epoll::make, ring, moving_ring, polled_ring],
    }
}

fn ring() -> io::Result<Box<dyn Driver>> {
    uring::make(uring::Options::default())
}

/// Makes a ring that several threads may use, one after another.
fn moving_ring() -> io::Result<Box<dyn Driver>> {
    uring::make(uring::Options {
        moves: true,
        ..uring::Options::default()
    })
}

fn polled_ring() -> io::Result<Box<dyn Driver>> {
    uring::make(uring::Options {
        kernel_polling: Some(Duration::ZERO),
        io_polling: true,
        ..uring::Options::default()
    })
}

/// Runs a test on each driver.
fn on_each(test: fn(Box<dyn Driver>)) {
    for make in drivers() {
        test(make().unwrap());
    }
}

impl dyn Driver {
    fn reap_all(&mut self) -> Vec<(Token, i32)> {
        let mut done = Vec::new();
        self.reap(usize::MAX, &mut |token, completion| {
            done.push((token, completion.result))
        });
        done
    }

    fn wait_for(&mut self, count: usize) -> Vec<(Token, i32)> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut done = Vec::new();
        while done.len() < count {
            assert!(Instant::now() < deadline, "only {done:?} completed");
            self.wait(Some(Duration::from_millis(100)));
            done.append(&mut self.reap_all());
        }
        done
    }
}

fn descriptor<'a>(reader: &'a PipeReader, state: &'a FdState) -> Descriptor<'a> {
    Descriptor {
        fd: reader.as_fd(),
        state,
    }
}

/// Creates `count` operations that complete when the other end of the pipe is closed.
fn polls<'a>(reader: &'a PipeReader, state: &'a FdState, count: usize) -> Vec<Operation<'a>> {
    let poll = |_| {
        Operation::Socket(SocketOperation::Poll(net::Poll {
            descriptor: descriptor(reader, state),
            events: rustix::event::PollFlags::IN,
        }))
    };
    (0..count).map(poll).collect()
}

#[test]
fn a_flush_begins_operations_in_the_order_of_their_priorities() {
    // The pipe is ready, so the kernel completes each poll while it takes it: the completions have
    // the order of the submissions.
    on_each(|mut driver| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        let state = FdState::new();
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let count = random.usize(1..24);
            let priorities = (0..count).map(|_| Priority::ALL[random.usize(..3)]);
            let priorities = Vec::from_iter(priorities);
            let mut operations = polls(&reader, &state, count);
            // From the first operation of another priority on, a ring gathers them.
            driver.set_priority(Priority::Urgent);
            for (index, operation) in operations.iter_mut().enumerate() {
                driver.set_priority(priorities[index]);
                // SAFETY: `operations` and the pipe outlive the completions awaited below.
                let start = unsafe { driver.start(operation, Token(index as u64)) };
                assert!(start.is_pending());
            }
            driver.set_priority(Priority::Normal);
            let done = driver.wait_for(count).into_iter();
            let done: Vec<_> = done.map(|(token, _)| token.0 as usize).collect();
            let mut expected = Vec::from_iter(0..count);
            expected.sort_by_key(|index| priorities[*index] as usize);
            assert_eq!(done, expected, "seed {seed}: {priorities:?}");
        }
    });
}

#[test]
fn an_operation_of_any_priority_is_cancelled_before_it_is_submitted() {
    on_each(|mut driver| {
        let (reader, _writer) = std::io::pipe().unwrap();
        let state = FdState::new();
        let mut operations = polls(&reader, &state, 3);
        for (index, operation) in operations.iter_mut().enumerate() {
            driver.set_priority(Priority::ALL[index]);
            // SAFETY: `operations` and the pipe outlive the completions awaited below.
            let start = unsafe { driver.start(operation, Token(index as u64)) };
            assert!(start.is_pending());
        }
        driver.set_priority(Priority::Normal);
        (0..3).for_each(|index| driver.cancel(Token(index)));
        let mut done = driver.wait_for(3);
        done.sort_unstable_by_key(|(token, _)| token.0);
        let cancelled = -Errno::CANCELED.raw_os_error();
        let expected = [0, 1, 2].map(|index| (Token(index), cancelled));
        assert_eq!(done, expected);
    });
}

#[test]
fn more_operations_than_the_queue_holds_all_complete() {
    const COUNT: u64 = 10_000;
    on_each(|mut driver| {
        let mut done = Vec::new();
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        let state = FdState::new();
        let mut operations = polls(&reader, &state, COUNT as usize);
        for (index, operation) in operations.iter_mut().enumerate() {
            // SAFETY: `operations` and the pipe outlive the completions awaited below.
            while unsafe { driver.start(operation, Token(index as u64)) } == Start::Full {
                driver.flush();
                done.append(&mut driver.reap_all());
            }
        }
        done.append(&mut driver.wait_for(COUNT as usize - done.len()));
        done.sort_by_key(|(token, _)| token.0);
        assert!(
            done.iter()
                .zip(0..)
                .all(|((token, _), index)| token.0 == index)
        );
    });
}

#[test]
fn a_cancelled_operation_still_completes_itself() {
    for flushed in [false, true] {
        let make_and_cancel = |mut driver: Box<dyn Driver>| {
            let (reader, _writer) = std::io::pipe().unwrap();
            let (state, mut buffer) = (FdState::new(), [0; 8]);
            let mut read = Operation::File(FileOperation::Read {
                file: descriptor(&reader, &state),
                buffer: &mut buffer,
                offset: None,
            });
            // SAFETY: the read's completion is awaited below.
            let start = unsafe { driver.start(&mut read, Token(1)) };
            assert!(start.is_pending());
            if flushed {
                driver.flush();
            }
            driver.cancel(Token(1));
            assert_eq!(driver.wait_for(1), [(Token(1), -libc::ECANCELED)]);
        };
        for make in drivers() {
            make_and_cancel(make().unwrap());
        }
    }
}

/// Returns one driver of each kind.
fn wakers() -> impl Iterator<Item = Box<dyn Driver>> {
    let mut drivers = drivers();
    if drivers.len() > 1 {
        drivers.push(uring::make_with_eventfd);
    }
    drivers.into_iter().map(|make| make().unwrap())
}

#[test]
fn each_waker_ends_a_wait_again_and_again() {
    for mut driver in wakers() {
        for _ in 0..3 {
            let waker = driver.waker().unwrap();
            let sender = thread::spawn(move || waker.wake());
            let start = Instant::now();
            driver.wait(Some(TEST_TIMEOUT));
            assert_eq!(driver.reap_all(), [], "never submitted");
            let description = driver.description();
            assert!(start.elapsed() < TEST_TIMEOUT, "not woken: {description}");
            sender.join().unwrap();
        }
    }
}

/// Catches a wake-up between two waits that is lost together with an earlier one.
#[test]
fn a_wake_up_that_comes_early_ends_the_next_wait() {
    for mut driver in wakers() {
        let waker = driver.waker().unwrap();
        for _ in 0..2 {
            waker.wake();
            let start = Instant::now();
            driver.wait(Some(TEST_TIMEOUT));
            assert_eq!(driver.reap_all(), [], "never submitted");
            waker.wake();
            driver.wait(Some(TEST_TIMEOUT));
            let description = driver.description();
            assert!(start.elapsed() < TEST_TIMEOUT, "{description}");
        }
    }
}

#[test]
fn a_wait_ends_at_its_timeout() {
    const TIMEOUT: Duration = Duration::from_micros(20_500);
    on_each(|mut driver| {
        driver.wait(Some(Duration::ZERO));
        driver.reap_all();
        let end = Instant::now() + TIMEOUT;
        let mut waits = 0;
        while let Some(rest) = end.checked_duration_since(Instant::now()) {
            driver.wait(Some(rest));
            waits += 1;
        }
        assert!(end.elapsed() < TEST_TIMEOUT);
        // The kernel's work for a closed ring interrupts some waits.
        let description = driver.description();
        assert!(waits < 10, "{waits} waits, {description}");
    });
}

#[test]
fn no_more_completions_are_reaped_than_asked_for() {
    on_each(|mut driver| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        let state = FdState::new();
        let mut operations = polls(&reader, &state, 5);
        for (index, operation) in operations.iter_mut().enumerate() {
            // SAFETY: `operations` and the pipe outlive the completions awaited below.
            let start = unsafe { driver.start(operation, Token(index as u64)) };
            assert!(start.is_pending());
        }
        let mut some = 0;
        let deadline = Instant::now() + TEST_TIMEOUT;
        // A wake-up left by the creation of the ring counts as one, and may have arrived alone.
        while some == 0 {
            assert!(Instant::now() < deadline, "none completed");
            driver.wait(Some(TEST_TIMEOUT));
            driver.reap(2, &mut |_, _| some += 1);
        }
        assert!(some <= 2, "{some}");
        assert_eq!(driver.wait_for(5 - some).len(), 5 - some);
    });
}
