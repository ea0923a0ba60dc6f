//! Without memory for another stack, new fibers end without running, and their captures are dropped
//! where destructors may wait.

use std::fs;
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use uthread::sync::oneshot;
use uthread::thread::park;
use uthread::{JoinHandle, spawn, yield_now};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{ON_WORKERS, behaviours};
use crate::support::calls::stats_of_threads;
use crate::support::{HANG, eventually};

behaviours![(
    ON_WORKERS,
    [
        destructors_of_fibers_without_a_stack_may_wait,
        destructors_of_fibers_without_a_stack_may_wait_for_each_other,
    ]
)];

/// Large enough that a limit can leave memory for everything but a stack.
const STACK_SIZE: usize = 16 << 20;

/// Runs the body in a fiber of a process of its own.
fn run(place: Place, body: impl FnOnce() + Send) {
    alone(|| {
        let runtime = place.builder().stack_size(STACK_SIZE).build().unwrap();
        runtime.run(body);
    });
}

/// No fiber gets a stack that was not there before, until this is dropped.
struct NoMemory {
    limit: Rlimit,
    parked: Vec<JoinHandle<()>>,
}

impl NoMemory {
    /// Takes all the stacks there are.
    fn begin() -> NoMemory {
        // A test that fails by a hang ends too.
        let (begun, begins) = mpsc::channel();
        thread::spawn(move || {
            begun.send(()).unwrap();
            thread::sleep(HANG);
            process::exit(2);
        });
        begins.recv().unwrap();
        // A thread that starts needs memory for the stack of its signal handlers.
        eventually("all other threads sleep", || {
            let runs = |stat: &String| !stat.contains(") S ");
            stats_of_threads().filter(runs).count() <= 1
        });
        let limit = getrlimit(Resource::As);
        let pages = fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        let lowered = Rlimit {
            // The heap may grow a little.
            current: Some(pages * rustix::param::page_size() as u64 + STACK_SIZE as u64 / 2),
            ..limit
        };
        setrlimit(Resource::As, lowered).unwrap();
        let mut parked = Vec::new();
        loop {
            let fiber = spawn(park);
            (0..3).for_each(|_| yield_now());
            if fiber.is_finished() {
                assert_refused(fiber);
                return NoMemory { limit, parked };
            }
            parked.push(fiber);
            assert!(parked.len() < 2000, "the limit has no effect");
        }
    }

    fn end(self) {
        setrlimit(Resource::As, self.limit).unwrap();
        for fiber in self.parked {
            fiber.thread().unpark();
            // One may have waited to be refused.
            let _ = fiber.join();
        }
        spawn(|| ()).join().unwrap();
    }
}

fn assert_refused<T>(fiber: JoinHandle<T>) {
    let payload = fiber
        .join()
        .err()
        .expect("the fiber was refused, but it has run");
    let message = payload.downcast::<String>().unwrap();
    assert!(
        message.starts_with("uthread: no stack for a fiber: "),
        "{message}"
    );
}

/// Waits for a message in its destructor.
struct WaitsInDrop {
    message: Option<oneshot::Receiver<()>>,
    dropped: Arc<AtomicUsize>,
}

impl Drop for WaitsInDrop {
    fn drop(&mut self) {
        let message = self.message.take().unwrap();
        message.recv().unwrap();
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Catches a destructor that waits on the worker's own stack, and keeps the worker from the fiber
/// it waits for.
fn destructors_of_fibers_without_a_stack_may_wait(place: Place) {
    run(place, || {
        const COUNT: usize = 20;
        let no_memory = NoMemory::begin();
        let dropped = Arc::new(AtomicUsize::new(0));
        let (senders, fibers): (Vec<_>, Vec<_>) = (0..COUNT)
            .map(|_| {
                let (sender, receiver) = oneshot::channel();
                let captured = WaitsInDrop {
                    message: Some(receiver),
                    dropped: Arc::clone(&dropped),
                };
                (sender, spawn(move || drop(captured)))
            })
            .unzip();
        // All of them have their turn.
        (0..10 * COUNT).for_each(|_| yield_now());
        for sender in senders {
            sender.send(()).unwrap();
        }
        for fiber in fibers {
            if place.has_more_workers() {
                // The other worker may have had a stack left.
                drop(fiber.join());
            } else {
                assert_refused(fiber);
            }
        }
        assert_eq!(dropped.load(Ordering::Relaxed), COUNT);
        no_memory.end();
    });
}

/// Joins a fiber in its destructor.
struct JoinsInDrop(Option<JoinHandle<()>>);

impl Drop for JoinsInDrop {
    fn drop(&mut self) {
        if let Some(fiber) = self.0.take() {
            let _ = fiber.join();
        }
    }
}

/// Lets each fiber hold a stack while it waits for the next, which needs one too: stacks that come
/// back serve them.
fn destructors_of_fibers_without_a_stack_may_wait_for_each_other(place: Place) {
    run(place, || {
        let mut no_memory = NoMemory::begin();
        let mut chain = spawn(|| ());
        for _ in 0..5 {
            let captured = JoinsInDrop(Some(chain));
            chain = spawn(move || drop(captured));
        }
        for fiber in no_memory.parked.drain(..10) {
            fiber.thread().unpark();
            let _ = fiber.join();
        }
        let _ = chain.join();
        no_memory.end();
    });
}
