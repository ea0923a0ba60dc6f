//! The peer on Tokio's multi-threaded runtime. `dev/bench/peers/README.md` tells what each command
//! measures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Barrier, mpsc};
use tokio::task::{spawn, yield_now};

#[path = "../../compute.rs"]
mod compute;
mod echo;
#[path = "../../database.rs"]
mod database;
#[path = "../../fatal.rs"]
mod fatal;
mod gate;
#[path = "../../measure.rs"]
mod measure;
mod memory;
#[path = "../../page.rs"]
mod page;
mod service;
#[path = "../../stack.rs"]
mod stack;

use compute::Compute;
use fatal::make_panics_fatal;
use gate::Gate;
use measure::{growth_per, per_operation, report, resident_bytes};

fn main() {
    make_panics_fatal();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse().expect("a number");
    match arguments[0].as_str() {
        "spawn" => report([on(1, spawn_join(number(1)))]),
        "yield" => report([on(1, yields(number(1), number(2)))]),
        "create" => report(on(1, create(number(1)))),
        "sleepers" => report([on(2, sleepers(number(1)))]),
        "memory" => memory::returned(number(1), number(2)),
        "memory-held" => memory::held(number(1), number(2)),
        "echo" => {
            let port = arguments[1].parse().expect("a port");
            let compute = Compute::calibrated(number(3) as u64);
            echo::serve(port, number(2), compute);
        }
        "service" => {
            let port = arguments[1].parse().expect("a port");
            let database = arguments.get(3).map(String::as_str);
            service::serve(port, number(2), database);
        }
        "pingpong" => report([on(number(1), pingpong(number(2)))]),
        unknown => panic!("unknown command {unknown}"),
    }
}

fn on<T: Send + 'static>(workers: usize, measured: impl Future<Output = T> + Send + 'static) -> T {
    let runtime: Runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_time()
        .build()
        .expect("a runtime");
    // In a task: `block_on` alone would run it on a thread that is no worker.
    let result =
        runtime.block_on(async { spawn(measured).await.expect("the task does not panic") });
    runtime.shutdown_background();
    result
}

async fn spawn_join(count: usize) -> f64 {
    let begin = Instant::now();
    for _ in 0..count {
        spawn(async {}).await.expect("the task does not panic");
    }
    per_operation(begin, count)
}

async fn yields(fibers: usize, count: usize) -> f64 {
    let barrier = Arc::new(Barrier::new(fibers + 1));
    let each = count / fibers;
    let tasks: Vec<_> = (0..fibers)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            spawn(async move {
                barrier.wait().await;
                for _ in 0..each {
                    yield_now().await;
                }
            })
        })
        .collect();
    barrier.wait().await;
    let begin = Instant::now();
    for task in tasks {
        task.await.expect("the task does not panic");
    }
    per_operation(begin, each * fibers)
}

async fn create(count: usize) -> [f64; 2] {
    let before = resident_bytes();
    let gate = Gate::new();
    let begin = Instant::now();
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let gate = Arc::clone(&gate);
            spawn(async move { gate.pass(count).await })
        })
        .collect();
    gate.all_begun.notified().await;
    let figures = [per_operation(begin, count), growth_per(before, count)];
    gate.open.close();
    for task in tasks {
        task.await.expect("the task does not panic");
    }
    figures
}

async fn sleepers(count: usize) -> f64 {
    let before = resident_bytes();
    let (began, mut begun) = mpsc::unbounded_channel();
    for _ in 0..count {
        let began = began.clone();
        spawn(async move {
            began.send(()).expect("the receiver lives");
            drop(began);
            tokio::time::sleep(Duration::from_secs(3600)).await;
        });
    }
    for _ in 0..count {
        begun.recv().await.expect("each sends once");
    }
    growth_per(before, count)
}

async fn pingpong(count: usize) -> f64 {
    let (ping, mut pings) = mpsc::channel(1);
    let (pong, mut pongs) = mpsc::channel(1);
    spawn(async move {
        while let Some(message) = pings.recv().await {
            pong.send(message).await.expect("ping waits for it");
        }
    });
    let begin = Instant::now();
    for message in 0..count {
        ping.send(message).await.expect("pong lives");
        assert_eq!(pongs.recv().await, Some(message));
    }
    per_operation(begin, count)
}
