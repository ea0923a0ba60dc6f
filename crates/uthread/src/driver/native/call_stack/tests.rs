//! The calls of a thread that continues all the time are never those of another place.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::capture;
use crate::driver::native::blocked::{Blocked, Task};

const HANG: Duration = Duration::from_secs(30);

/// Meanwhile the thread continues during many captures.
const CAPTURES: usize = 100;

const IN_READ: Blocked = Blocked::Other(Some("read"));

/// Reads a byte. Returns `false` at the end.
#[inline(never)]
fn near(reader: &mut io::PipeReader) -> bool {
    let count = reader.read(&mut [0]).unwrap();
    black_box(count) > 0
}

/// Calls [`near`] from another place of the stack.
#[inline(never)]
fn far(reader: &mut io::PipeReader, room: &[u8; 200]) -> bool {
    black_box(*black_box(room));
    black_box(near(reader))
}

/// Captures until the calls are others than `former`.
fn capture_others(task: Task, former: &[usize]) -> Vec<usize> {
    let begin = Instant::now();
    loop {
        if let Some(calls) = capture(task, IN_READ).filter(|calls| calls != former) {
            return calls;
        }
        assert!(begin.elapsed() < HANG, "never blocked elsewhere");
    }
}

#[test]
fn a_thread_that_continues_has_no_calls_of_two_places() {
    let (mut reader, mut writer) = io::pipe().unwrap();
    let (sender, task) = mpsc::channel();
    let thread = thread::spawn(move || {
        sender.send(Task::current()).unwrap();
        while near(&mut reader) && far(&mut reader, &[1; 200]) {}
    });
    let task = task.recv().unwrap();
    let first = capture_others(task, &[]);
    writer.write_all(&[0]).unwrap();
    let second = capture_others(task, &first);
    assert!(first.len() > 4, "{first:x?}");
    assert!(second.len() > first.len(), "{first:x?} {second:x?}");
    assert_eq!(first.last(), second.last(), "the first call of the thread");

    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                writer.write_all(&[0]).unwrap();
                thread::sleep(Duration::from_micros(20));
            }
        });
        let (begin, mut captured) = (Instant::now(), 0);
        while captured < CAPTURES && begin.elapsed() < HANG {
            if let Some(calls) = capture(task, IN_READ) {
                captured += 1;
                let is_known = calls == first || calls == second;
                end.fetch_or(!is_known, Ordering::Relaxed);
                assert!(is_known, "{calls:x?}, not {first:x?} or {second:x?}");
            }
        }
        end.store(true, Ordering::Relaxed);
        assert_eq!(captured, CAPTURES, "too seldom blocked");
    });
    drop(writer);
    thread.join().unwrap();
}
