//! Fork and join, by whichever `join` the including program has: the same work for each.

use std::hint::black_box;
use std::time::Instant;

use super::join;

/// Pieces below this are sorted by one fiber: some 100 us.
const SORTED_ALONE_MAX: usize = 5_000;

/// Computes the 38th Fibonacci number, forked down to the 20th, and returns the milliseconds it
/// takes.
pub(crate) fn fib_38() -> f64 {
    let begin = Instant::now();
    black_box(fib(38));
    milliseconds_since(begin)
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
    black_box(fib_alone(n - 1)) + fib_alone(n - 2)
}

/// Sorts `count` numbers, by halves around a pivot, and returns the milliseconds it takes.
pub(crate) fn sort(count: usize) -> f64 {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut numbers: Vec<u64> = (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        })
        .collect();
    let begin = Instant::now();
    sort_halves(&mut numbers);
    let time = milliseconds_since(begin);
    assert!(numbers.is_sorted(), "sorted wrongly");
    time
}

fn sort_halves(numbers: &mut [u64]) {
    if numbers.len() <= SORTED_ALONE_MAX {
        return numbers.sort_unstable();
    }
    let middle = numbers.len() / 2;
    let (below, _, above) = numbers.select_nth_unstable(middle);
    join(|| sort_halves(below), || sort_halves(above));
}

fn milliseconds_since(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}
