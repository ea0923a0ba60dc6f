//! A low limit of locked memory, which rings need. The test runs in a process of its own, whose
//! limit it lowers.

mod restrict;
#[path = "restrict/small_program.rs"]
mod small_program;

use restrict::{become_nobody, restricted};
use rustix::process::{Resource, Rlimit, setrlimit};
use small_program::works;
use uthread::ring::RegisteredBuffer;
use uthread::{Driver, Runtime};

const KIB: u64 = 1024;

fn limit_locked_memory(bytes: u64) {
    let limit = Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    setrlimit(Resource::Memlock, limit).unwrap();
}

/// Starts runtimes beyond the limit: the kernel counts the rings of a user together, and at the
/// limit a runtime has smaller rings or another driver.
fn many_rings_share_the_limit() {
    works(&Runtime::builder().workers(32).build().unwrap());
    let start = |_| Runtime::builder().workers(4).build().unwrap();
    let runtimes: Vec<Runtime> = (0..8).map(start).collect();
    runtimes.iter().for_each(works);
    let without_ring = |runtime: &&Runtime| runtime.driver().driver() == Driver::Epoll;
    for runtime in runtimes.iter().filter(without_ring) {
        let reason = runtime.driver().to_string();
        assert!(reason.contains("no io_uring"), "{reason}");
    }
}

#[test]
fn little_locked_memory_is_enough() {
    let best = Runtime::new().unwrap().driver().driver();
    restricted(become_nobody, || {
        // The default of many systems: too little for one ring of full size, where the kernel
        // counts rings.
        limit_locked_memory(64 * KIB);
        let runtime = Runtime::builder().workers(2).build().unwrap();
        assert_eq!(runtime.driver().driver(), best);
        works(&runtime);
        // Registered memory is counted by every kernel.
        let is_registered = || RegisteredBuffer::new(1 << 20).unwrap().is_registered();
        assert!(!runtime.run(is_registered));
        drop(runtime);
        many_rings_share_the_limit();

        // Less than the smallest ring.
        limit_locked_memory(4 * KIB);
        match Runtime::builder().driver(Driver::Uring).build() {
            // This kernel does not count rings.
            Ok(runtime) => works(&runtime),
            Err(error) if best == Driver::Uring => {
                assert!(error.to_string().contains("ulimit -l"), "{error}");
                let runtime = Runtime::new().unwrap();
                assert_eq!(runtime.driver().driver(), Driver::Epoll);
                assert!(runtime.driver().to_string().contains("ulimit -l"));
                works(&runtime);
            }
            Err(error) => eprintln!("left out: less memory than a ring takes: {error}"),
        }
    });
}
