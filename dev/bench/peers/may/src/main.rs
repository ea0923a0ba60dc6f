//! The peer on may's stackful coroutines. `dev/bench/peers/README.md` tells what each command measures.

#[path = "../../compute.rs"]
mod compute;
mod echo;
#[path = "../../fatal.rs"]
mod fatal;
#[path = "../../measure.rs"]
mod measure;

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use may::coroutine::yield_now;
use may::go;
use may::sync::{Barrier, SyncFlag, mpsc};

use compute::Compute;
use fatal::make_panics_fatal;
use measure::{growth_per, per_operation, report, resident_bytes};

fn main() {
    make_panics_fatal();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse().expect("a number");
    match arguments[0].as_str() {
        "spawn" => {
            let count = number(1);
            report([on(1, move || spawn_join(count))]);
        }
        "yield" => {
            let (fibers, count) = (number(1), number(2));
            report([on(1, move || yields(fibers, count))]);
        }
        "create" => {
            let count = number(1);
            report(on(1, move || create(count)));
        }
        "sleepers" => {
            let count = number(1);
            report([on(2, move || sleepers(count))]);
        }
        "pingpong" => {
            let (workers, count) = (number(1), number(2));
            report([on(workers, move || pingpong(count))]);
        }
        "echo" => {
            let port = arguments[1].parse().expect("a port");
            echo::serve(port, number(2), Compute::calibrated(number(3) as u64));
        }
        unknown => panic!("unknown command {unknown}"),
    }
    // With what is left of the coroutines.
    process::exit(0);
}

fn on<T: Send + 'static>(workers: usize, measured: impl FnOnce() -> T + Send + 'static) -> T {
    may::config().set_workers(workers);
    go!(measured).join().expect("the coroutine does not panic")
}

fn spawn_join(count: usize) -> f64 {
    let begin = Instant::now();
    for _ in 0..count {
        go!(|| {}).join().expect("the coroutine does not panic");
    }
    per_operation(begin, count)
}

fn yields(fibers: usize, count: usize) -> f64 {
    let barrier = Arc::new(Barrier::new(fibers + 1));
    let each = count / fibers;
    let coroutines: Vec<_> = (0..fibers)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            go!(move || {
                barrier.wait();
                for _ in 0..each {
                    yield_now();
                }
            })
        })
        .collect();
    barrier.wait();
    let begin = Instant::now();
    for coroutine in coroutines {
        coroutine.join().expect("the coroutine does not panic");
    }
    per_operation(begin, each * fibers)
}

fn create(count: usize) -> [f64; 2] {
    let before = resident_bytes();
    let gate = Arc::new(Gate {
        begun: AtomicUsize::new(0),
        all_begun: SyncFlag::new(),
        open: SyncFlag::new(),
    });
    let begin = Instant::now();
    let coroutines: Vec<_> = (0..count)
        .map(|_| {
            let gate = Arc::clone(&gate);
            go!(move || gate.pass(count))
        })
        .collect();
    gate.all_begun.wait();
    let figures = [per_operation(begin, count), growth_per(before, count)];
    gate.open.fire();
    for coroutine in coroutines {
        coroutine.join().expect("the coroutine does not panic");
    }
    figures
}

/// Where all wait for all to have begun.
struct Gate {
    begun: AtomicUsize,
    all_begun: SyncFlag,
    open: SyncFlag,
}

impl Gate {
    fn pass(&self, count: usize) {
        if self.begun.fetch_add(1, Ordering::Relaxed) + 1 == count {
            self.all_begun.fire();
        }
        self.open.wait();
    }
}

fn sleepers(count: usize) -> f64 {
    let before = resident_bytes();
    let (began, begun) = mpsc::channel();
    for _ in 0..count {
        let began = began.clone();
        go!(move || {
            began.send(()).expect("the receiver lives");
            drop(began);
            may::coroutine::sleep(Duration::from_secs(3600));
        });
    }
    for _ in 0..count {
        begun.recv().expect("each sends once");
    }
    growth_per(before, count)
}

fn pingpong(count: usize) -> f64 {
    let (ping, pings) = mpsc::channel();
    let (pong, pongs) = mpsc::channel();
    go!(move || {
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
