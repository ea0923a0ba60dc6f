//! The peer for fork and join. `peers/README.md` tells what each command measures.

use std::time::Instant;

use rayon::{ThreadPoolBuilder, join};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse().expect("a number");
    match arguments[0].as_str() {
        "fib" => {
            let pool = ThreadPoolBuilder::new().num_threads(number(1)).build();
            println!("{:.1}", pool.expect("a pool").install(|| fork(38)));
        }
        unknown => panic!("unknown command {unknown}"),
    }
}

fn fork(n: u64) -> f64 {
    let begin = Instant::now();
    std::hint::black_box(fib(n));
    begin.elapsed().as_secs_f64() * 1e3
}

fn fib(n: u64) -> u64 {
    if n < 20 {
        return fib_alone(n);
    }
    let (a, b) = join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn fib_alone(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    std::hint::black_box(fib_alone(n - 1)) + fib_alone(n - 2)
}
