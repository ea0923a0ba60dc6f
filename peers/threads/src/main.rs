//! The peer without a runtime: threads of the operating system, by `std` alone. `peers/README.md` tells what each command
//! measures.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender, sync_channel};
use std::sync::{Arc, Barrier, RwLock};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

#[path = "../../compute.rs"]
mod compute;
mod echo;
#[path = "../../fatal.rs"]
mod fatal;
#[path = "../../measure.rs"]
mod measure;

use compute::Compute;
use fatal::make_panics_fatal;
use measure::{growth_per, per_operation, report, resident_bytes};

/// Enough for what they do here, and about the least that the C library allows.
const STACK_BYTES: usize = 32 * 1024;

fn main() {
    make_panics_fatal();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse().expect("a number");
    match arguments[0].as_str() {
        "spawn" => report([spawn_join(number(1))]),
        "yield" => report([yields(number(1), number(2))]),
        "create" => report(create(number(1))),
        "sleepers" => report([sleepers(number(1))]),
        "pingpong" => report([pingpong(number(2))]),
        "echo" => {
            let port = arguments[1].parse().expect("a port");
            echo::serve(port, Compute::calibrated(number(3) as u64));
        }
        unknown => panic!("unknown command {unknown}"),
    }
}

fn start<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let thread = Builder::new().stack_size(STACK_BYTES).spawn(body);
    thread.expect("the system allows another thread")
}

fn spawn_join(count: usize) -> f64 {
    let begin = Instant::now();
    for _ in 0..count {
        start(|| {}).join().expect("it runs to its end");
    }
    per_operation(begin, count)
}

fn yields(fibers: usize, count: usize) -> f64 {
    let barrier = Arc::new(Barrier::new(fibers + 1));
    let each = count / fibers;
    let threads: Vec<_> = (0..fibers)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            start(move || {
                barrier.wait();
                for _ in 0..each {
                    thread::yield_now();
                }
            })
        })
        .collect();
    barrier.wait();
    let begin = Instant::now();
    for thread in threads {
        thread.join().expect("it runs to its end");
    }
    per_operation(begin, each * fibers)
}

fn create(count: usize) -> [f64; 2] {
    let before = resident_bytes();
    let (last, all_begun) = mpsc::channel();
    let gate = Arc::new(Gate {
        begun: AtomicUsize::new(0),
        last,
        open: RwLock::new(()),
    });
    let closed = gate.open.write();
    let begin = Instant::now();
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let gate = Arc::clone(&gate);
            start(move || gate.pass(count))
        })
        .collect();
    all_begun.recv().expect("the last of them sends");
    let figures = [per_operation(begin, count), growth_per(before, count)];
    drop(closed);
    for thread in threads {
        thread.join().expect("it runs to its end");
    }
    figures
}

/// Where all wait for all to have begun.
struct Gate {
    begun: AtomicUsize,
    last: Sender<()>,
    /// Locked until they have.
    open: RwLock<()>,
}

impl Gate {
    fn pass(&self, count: usize) {
        if self.begun.fetch_add(1, Ordering::Relaxed) + 1 == count {
            self.last.send(()).expect("it is waited for");
        }
        drop(self.open.read());
    }
}

fn sleepers(count: usize) -> f64 {
    let before = resident_bytes();
    let (began, begun) = mpsc::channel();
    for _ in 0..count {
        let began = began.clone();
        start(move || {
            began.send(()).expect("the receiver lives");
            drop(began);
            thread::sleep(Duration::from_secs(3600));
        });
    }
    for _ in 0..count {
        begun.recv().expect("each sends once");
    }
    growth_per(before, count)
}

fn pingpong(count: usize) -> f64 {
    let (ping, pings) = sync_channel(1);
    let (pong, pongs) = sync_channel(1);
    start(move || {
        for message in pings {
            pong.send(message).expect("ping waits for it");
        }
    });
    let begin = Instant::now();
    for message in 0..count {
        ping.send(message).expect("pong lives");
        assert_eq!(pongs.recv(), Ok(message));
    }
    per_operation(begin, count)
}
