//! Sums up squares on all workers, by fork and join.
//!
//! ```sh
//! cargo run --release -p uthread --example parallel_sum 50000000
//! ```

use std::env;
use std::time::Instant;

use uthread::join;

/// Number of numbers from which sharing them saves time.
const SHARED_MIN: usize = 10_000;

fn sum_of_squares(numbers: &[u64]) -> u64 {
    numbers.iter().map(|number| number * number).sum()
}

/// Sums the squares of the numbers. An idle worker takes the second half, if there is one;
/// otherwise the calling fiber does both.
fn parallel_sum_of_squares(numbers: &[u64]) -> u64 {
    if numbers.len() < SHARED_MIN {
        return sum_of_squares(numbers);
    }
    let (left, right) = numbers.split_at(numbers.len() / 2);
    let (left, right) = join(
        || parallel_sum_of_squares(left),
        || parallel_sum_of_squares(right),
    );
    left + right
}

#[uthread::main]
fn main() {
    let count = env::args()
        .nth(1)
        .map_or(Ok(1_000_000), |text| text.parse());
    let count: u64 = count.expect("the argument is a number");
    let numbers: Vec<u64> = (0..count).map(|number| number % 1000).collect();
    for (name, sum) in [
        ("one fiber", sum_of_squares as fn(&[u64]) -> u64),
        ("all workers", parallel_sum_of_squares),
    ] {
        let start = Instant::now();
        let sum = sum(&numbers);
        eprintln!("{name}: {:?}", start.elapsed());
        println!("{name}: {sum}");
    }
}
