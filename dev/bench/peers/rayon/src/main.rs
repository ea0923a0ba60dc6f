//! The peer for fork and join. `dev/bench/peers/README.md` tells what each command measures.

#[path = "../../forks.rs"]
mod forks;

use rayon::{ThreadPoolBuilder, join};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse().expect("a number");
    match arguments[0].as_str() {
        "fib" => on(number(1), forks::fib_38),
        "sort" => on(number(1), || forks::sort(number(2))),
        unknown => panic!("unknown command {unknown}"),
    }
}

fn on(workers: usize, measured: impl FnOnce() -> f64 + Send) {
    let pool = ThreadPoolBuilder::new().num_threads(workers).build();
    println!("{:.1}", pool.expect("a pool").install(measured));
}
