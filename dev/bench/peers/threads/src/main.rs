//! The peer without a runtime: threads of the operating system, by `std` alone.
//! `dev/bench/peers/README.md` tells what each command measures.

#[path = "../../compute.rs"]
mod compute;
mod echo;
#[path = "../../fatal.rs"]
mod fatal;
#[path = "../../measure.rs"]
mod measure;
#[path = "../../spawned.rs"]
mod spawned;
#[path = "../../stack.rs"]
mod stack;

use compute::Compute;
use fatal::make_panics_fatal;
use measure::report;
use spawned::{create, memory, pingpong, sleepers, spawn_join, yields};
use stack::stage;

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
        "memory" => memory(number(1), number(2), false, stage),
        "memory-held" => memory(number(1), number(2), true, stage),
        "echo" => {
            let port = arguments[1].parse().expect("a port");
            echo::serve(port, Compute::calibrated(number(3) as u64));
        }
        unknown => panic!("unknown command {unknown}"),
    }
}

/// The functions of `std`, with threads whose stacks are as small as those of fibers.
mod threads {
    use std::thread::{Builder, JoinHandle};
    pub(crate) use std::thread::{sleep, yield_now};
    pub(crate) use std::{sync, thread};

    /// Stack size of the threads: enough for these programs, and about the least that the C library
    /// allows.
    const STACK_BYTES: usize = 32 * 1024;

    pub(crate) fn spawn<T: Send + 'static>(
        body: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let thread = Builder::new().stack_size(STACK_BYTES).spawn(body);
        thread.expect("the system allows another thread")
    }
}
