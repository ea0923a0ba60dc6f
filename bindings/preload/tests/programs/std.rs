//! Threads of `std` that wait: for a lock, a condition, a message, each other, and to be unparked.

use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::{fs, thread};

const THREADS: usize = 120;

fn main() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let (sender, begun) = mpsc::channel();
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (gate, sender) = (Arc::clone(&gate), sender.clone());
            thread::spawn(move || {
                sender.send(number).unwrap();
                pass(&gate, number % 2 == 0);
                number
            })
        })
        .collect();
    let mut numbers: Vec<usize> = begun.iter().take(THREADS).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..THREADS));
    let tasks = fs::read_dir("/proc/self/task").unwrap().count();
    assert!(tasks < THREADS / 4, "{tasks} threads of the system");

    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    for (number, thread) in threads.into_iter().enumerate() {
        thread.thread().unpark();
        assert_eq!(thread.join().unwrap(), number);
    }
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| barrier.wait());
        }
    });
    println!("passed");
}

/// Waits until the gate is open.
fn pass((is_open, opened): &(Mutex<bool>, Condvar), by_condition: bool) {
    if by_condition {
        let waited = opened.wait_while(is_open.lock().unwrap(), |is_open| !*is_open);
        drop(waited.unwrap());
        return;
    }
    while !*is_open.lock().unwrap() {
        thread::park();
    }
}
