//! The same waits in a program that does not name this crate: the tests of `replaced.rs` can fail.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

mod uses;

use uses::{THREADS_MAX, USES, on_each_driver};

#[test]
fn fibers_that_wait_take_many_threads() {
    on_each_driver(|driver, threads_of| {
        for (name, case) in USES {
            // On a busy machine, few workers are handed over before the wait ends.
            let threads = (0..5)
                .map(|_| threads_of(*case))
                .find(|threads| *threads > THREADS_MAX)
                .unwrap_or(0);
            eprintln!("{driver}, {name}: {threads} threads");
            assert!(
                threads > 0,
                "{driver}, {name}: never more than {THREADS_MAX} threads"
            );
        }
    });
}
