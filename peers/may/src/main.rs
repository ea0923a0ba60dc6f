//! The peer on may's stackful coroutines. `peers/README.md` tells what each command measures.

#[path = "../../measure.rs"]
mod measure;

use std::sync::Arc;
use std::time::{Duration, Instant};

use may::coroutine::yield_now;
use may::go;
use may::sync::{Barrier, mpsc};

use measure::{per_operation, resident_bytes};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse().expect("a number");
    match arguments[0].as_str() {
        "spawn" => {
            let count = number(1);
            on(1, move || spawn_join(count));
        }
        "yield" => {
            let (fibers, count) = (number(1), number(2));
            on(1, move || yields(fibers, count));
        }
        "sleepers" => {
            let count = number(1);
            on(2, move || sleepers(count));
        }
        "pingpong" => {
            let (workers, count) = (number(1), number(2));
            on(workers, move || pingpong(count));
        }
        unknown => panic!("unknown command {unknown}"),
    }
}

fn on(workers: usize, measured: impl FnOnce() -> f64 + Send + 'static) {
    may::config().set_workers(workers);
    let figure = go!(measured).join().expect("it runs to its end");
    println!("{figure:.1}");
    std::process::exit(0);
}

fn spawn_join(count: usize) -> f64 {
    let begin = Instant::now();
    for _ in 0..count {
        go!(|| {}).join().expect("it runs to its end");
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
        coroutine.join().expect("it runs to its end");
    }
    per_operation(begin, each * fibers)
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
    (resident_bytes() - before) as f64 / count as f64
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
