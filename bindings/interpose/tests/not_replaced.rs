//! The same waits in a program that does not name this crate: the tests of `replaced.rs` can fail.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

mod uses;

use uses::{THREADS_MAX, USES, on_each_driver};

#[test]
fn fibers_that_wait_take_many_threads() {
    on_each_driver(|driver, threads_of| {
        for (name, case) in USES {
            let threads = threads_of(*case);
            eprintln!("{driver}, {name}: {threads} threads");
            assert!(threads > THREADS_MAX, "{driver}, {name}: {threads} threads");
        }
    });
}
