//! Dedicated fibers: each blocks a thread of its own and no worker, and is otherwise a fiber of its
//! runtime.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{Pid, gettid};
use uthread::priority::{self, Priority};
use uthread::runtime::Metrics;
use uthread::thread::{Builder, Cancelled, park, yield_now};
use uthread::time::Elapsed;
use uthread::{blocking, join, local, scope, sleep, spawn};
use uthread::{select, timeout};

use crate::fixtures::dedicated::{dedicated, waiting};
use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, ON_A_THREAD, ON_WORKERS, behaviours};
use crate::support::requests::submit_all;
use crate::support::{HANG, HOUR, errno, eventually, pair, wait_until_asleep};

behaviours![
    (
        IN_FIBERS,
        [
            its_value_and_its_panic_reach_the_joiner,
            a_select_learns_of_its_end,
            a_cancelled_call_of_it_returns,
            a_cancelled_wait_of_it_unwinds_it,
            scopes_contain_it_and_it_has_scopes,
            dedicated_fibers_spawn_and_join,
            dedicated_fibers_have_a_name_and_local_values,
            a_deadline_ends_its_calls,
            dedicated_fibers_are_counted_once,
            hundreds_block_at_once,
            without_a_thread_it_is_refused,
        ]
    ),
    (
        ON_WORKERS,
        [
            dedicated_fibers_keep_their_thread,
            a_blocked_one_delays_no_other_fiber,
            fibers_that_it_spawns_run_on_workers,
            a_nested_one_has_another_thread,
            dedicated_fibers_have_no_ring,
        ]
    ),
    (
        ON_A_THREAD,
        [outside_of_a_runtime_it_belongs_to_the_default_one]
    ),
];

/// Returns the name of a thread of this process.
fn name_of(thread: Pid) -> String {
    let path = format!("/proc/self/task/{}/comm", thread.as_raw_nonzero());
    std::fs::read_to_string(path).unwrap().trim_end().to_owned()
}

fn dedicated_fibers_keep_their_thread(place: Place) {
    place.run(|| {
        let (mut reader, mut writer) = uthread::io::pipe().unwrap();
        let (begun, begins) = mpsc::channel();
        let threads = dedicated(move || {
            let mut threads = vec![gettid()];
            begun.send(gettid()).unwrap();
            reader.read_exact(&mut [0]).unwrap();
            threads.push(gettid());
            sleep(Duration::from_millis(1));
            threads.push(gettid());
            yield_now();
            threads.push(blocking(gettid));
            assert!(name_of(gettid()) != "home-0");
            threads
        });
        blocking(move || wait_until_asleep(begins.recv().unwrap()));
        writer.write_all(&[1]).unwrap();
        let mut threads = threads.join().unwrap();
        threads.dedup();
        assert_eq!(threads.len(), 1);
        assert!(threads[0] != gettid());
    });
}

fn a_blocked_one_delays_no_other_fiber(place: Place) {
    place.runtime_of(1).run(|| {
        let (sender, receiver) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let blocked = dedicated(move || {
            begun.send(gettid()).unwrap();
            receiver.recv().unwrap()
        });
        let sending = spawn(move || {
            blocking(move || wait_until_asleep(begins.recv().unwrap()));
            sender.send(7).unwrap();
        });
        sending.join().unwrap();
        assert_eq!(blocked.join().unwrap(), 7);
    });
}

fn its_value_and_its_panic_reach_the_joiner(place: Place) {
    place.run(|| {
        let text = dedicated(|| "value".to_owned());
        assert_eq!(text.join().unwrap(), "value");
        let panics = dedicated(|| std::panic::resume_unwind(Box::new("a bug")));
        let result: std::thread::Result<()> = panics.join();
        assert_eq!(result.unwrap_err().downcast_ref(), Some(&"a bug"));
        let sleeping = dedicated(|| sleep(HOUR));
        let sleeping = sleeping.join_timeout(Duration::from_millis(1)).unwrap_err();
        assert!(!sleeping.is_finished());
        sleeping.cancel();
        assert!(sleeping.join_timeout(HANG).unwrap().is_err());
    });
}

fn a_select_learns_of_its_end(place: Place) {
    place.run(|| {
        let (end, is_ending) = mpsc::channel();
        let mut fiber = dedicated(move || is_ending.recv().unwrap());
        select! {
            ended(&mut fiber) => panic!("the fiber ended while it waits"),
            after(Duration::from_millis(1)) => {}
        }
        end.send(7).unwrap();
        select! {
            ended(&mut fiber) => assert_eq!(fiber.join().unwrap(), 7),
            after(HANG) => panic!("the fiber does not end"),
        }
        let beside = spawn(|| sleep(HOUR));
        let (sender, receiver) = uthread::sync::mpsc::channel();
        let selecting = dedicated(move || {
            select! {
                recv(&receiver) -> message => message,
                after(HANG) => panic!("nothing comes"),
            }
        });
        sender.send(3).unwrap();
        assert_eq!(selecting.join().unwrap(), Ok(3));
        beside.cancel();
    });
}

fn a_cancelled_call_of_it_returns(place: Place) {
    let (mut stream, _peer) = pair();
    let (pipe, _end) = io::pipe().unwrap();
    let mut pipe = uthread::fs::File::from(OwnedFd::from(pipe));
    let calls: [Box<dyn FnOnce() -> io::Result<usize> + Send>; 2] = [
        Box::new(move || stream.read(&mut [0; 16])),
        Box::new(move || pipe.read(&mut [0; 16])),
    ];
    let runtime = place.runtime();
    for call in calls {
        let fiber = waiting(&runtime, call);
        fiber.cancel();
        assert_eq!(errno(fiber.join().unwrap()), Errno::CANCELED);
    }
}

fn a_cancelled_wait_of_it_unwinds_it(place: Place) {
    let runtime = place.runtime();
    let (_sender, receiver) = uthread::sync::mpsc::channel::<()>();
    let waits: [Box<dyn FnOnce() + Send>; 4] = [
        Box::new(park),
        Box::new(|| sleep(HOUR)),
        Box::new(move || assert!(receiver.recv().is_err())),
        Box::new(|| drop(spawn(|| sleep(HOUR)).join())),
    ];
    for wait in waits {
        let fiber = waiting(&runtime, wait);
        fiber.cancel();
        assert!(fiber.join().unwrap_err().is::<Cancelled>());
    }
}

fn fibers_that_it_spawns_run_on_workers(place: Place) {
    let runtime = place.builder().name("home").build().unwrap();
    let (own, others, larger, urgent) = runtime.run(|| {
        let spawner = Builder::new().priority(Priority::Urgent).dedicated();
        let spawner = spawner.spawn(|| {
            let others = [(); 20].map(|()| spawn(|| name_of(gettid())));
            let others = others.map(|other| other.join().unwrap());
            let deep = Builder::new().stack_size(8 << 20);
            let deep = deep.spawn(|| {
                let used = [1_u8; 3 << 20];
                std::hint::black_box(&used);
                name_of(gettid())
            });
            let urgent = spawn(priority::current).join().unwrap();
            (gettid(), others, deep.unwrap().join().unwrap(), urgent)
        });
        spawner.unwrap().join().unwrap()
    });
    assert!(own != gettid());
    for name in others.iter().chain([&larger]) {
        assert!(name.starts_with("home-"), "{name}");
    }
    assert_eq!(urgent, Priority::Urgent);
}

fn a_nested_one_has_another_thread(place: Place) {
    place.run(|| {
        let outer = dedicated(|| {
            let inner = dedicated(|| {
                let worker = spawn(gettid).join().unwrap();
                (gettid(), worker)
            });
            (gettid(), inner.join().unwrap())
        });
        let (outer, (inner, worker)) = outer.join().unwrap();
        assert!(outer != inner && worker != inner && worker != outer);
    });
}

fn scopes_contain_it_and_it_has_scopes(place: Place) {
    place.run(|| {
        let mut numbers = [1, 2, 3, 4];
        let (left, right) = numbers.split_at_mut(2);
        scope(|scope| {
            let of_thread = Builder::new().dedicated();
            let doubling = move || {
                uthread::scope(|scope| {
                    for number in left.iter_mut() {
                        scope.spawn(|| *number *= 2);
                    }
                });
            };
            of_thread.spawn_scoped(scope, doubling).unwrap();
            scope.spawn(|| right[0] = 10);
        });
        assert_eq!(numbers, [2, 4, 10, 4]);
        // Its children are cancelled with it.
        let (begun, begins) = mpsc::channel();
        let parent = dedicated(move || {
            scope(|scope| {
                scope.spawn(|| {
                    begun.send(()).unwrap();
                    sleep(HOUR);
                });
            });
        });
        blocking(move || begins.recv().unwrap());
        parent.cancel();
        assert!(parent.join().unwrap_err().is::<Cancelled>());
    });
}

fn sum(numbers: &[u64]) -> u64 {
    match numbers {
        [] => 0,
        [one] => *one,
        _ => {
            let (left, right) = numbers.split_at(numbers.len() / 2);
            let (left, right) = join(|| sum(left), || sum(right));
            left + right
        }
    }
}

fn dedicated_fibers_spawn_and_join(place: Place) {
    place.run(|| {
        let numbers: Vec<u64> = (0..200).collect();
        let summing = dedicated(move || sum(&numbers));
        assert_eq!(summing.join().unwrap(), 199 * 100);
    });
}

local! {
    static NUMBER: Cell<u32> = const { Cell::new(1) };
}

thread_local! {
    static AT_END: RefCell<Option<SetsLate>> = const { RefCell::new(None) };
}

/// Sets the flag when it is dropped, but late.
struct SetsLate(Arc<AtomicBool>);

impl Drop for SetsLate {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(20));
        self.0.store(true, Ordering::Relaxed);
    }
}

fn dedicated_fibers_have_a_name_and_local_values(place: Place) {
    let dropped = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&dropped);
    place.run(move || {
        NUMBER.set(2);
        let named = Builder::new().name("device".into()).dedicated();
        let named = named.spawn(move || {
            AT_END.set(Some(SetsLate(theirs)));
            assert_eq!(uthread::current().name(), Some("device"));
            assert_eq!(std::thread::current().name(), Some("device"));
            NUMBER.replace(3)
        });
        let named = named.unwrap();
        assert_eq!(named.thread().name(), Some("device"));
        assert_eq!(named.join().unwrap(), 1);
        assert_eq!(NUMBER.get(), 2);
    });
    assert!(dropped.load(Ordering::Relaxed));
}

fn a_deadline_ends_its_calls(place: Place) {
    place.run(|| {
        let slept = dedicated(|| {
            let (mut stream, _peer) = pair();
            let read = timeout(Duration::from_millis(1), || stream.read(&mut [0; 16]));
            let slept = timeout(Duration::from_millis(1), || sleep(HOUR));
            (errno(read.unwrap_or(Err(Elapsed.into()))), slept)
        });
        assert_eq!(slept.join().unwrap(), (Errno::TIMEDOUT, Err(Elapsed)));
        // A scoped fiber inherits the deadline of its scope.
        let result = timeout(Duration::from_millis(1), || {
            scope(|scope| {
                let sleeping = Builder::new().dedicated();
                drop(sleeping.spawn_scoped(scope, || sleep(HOUR)).unwrap());
            });
        });
        assert_eq!(result, Err(Elapsed));
    });
}

fn dedicated_fibers_are_counted_once(place: Place) {
    let runtime = place.runtime();
    // The switches of the workers, which have switched to the fiber that waits here.
    let switches = runtime.run(|| {
        let looking = dedicated(|| Metrics::current().unwrap().total().switches);
        looking.join().unwrap()
    });
    assert_eq!(switches > 0, place.is_of_fibers());
    eventually("both fibers are counted", || {
        let total = runtime.metrics().total();
        total.fibers == 2 && total.ended == 2
    });
}

fn hundreds_block_at_once(place: Place) {
    const COUNT: usize = 200;
    let runtime = place.runtime_of(1);
    runtime.run(|| {
        let all = Arc::new(Barrier::new(COUNT));
        let fibers: Vec<_> = (0..COUNT)
            .map(|index| {
                let all = Arc::clone(&all);
                dedicated(move || {
                    all.wait();
                    index
                })
            })
            .collect();
        let indices = fibers.into_iter().map(|fiber| fiber.join().unwrap());
        assert!(indices.eq(0..COUNT));
    });
    drop(runtime);
}

fn without_a_thread_it_is_refused(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        runtime.run(|| dedicated(|| ()).join().unwrap());
        let limit = getrlimit(Resource::As);
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        // Enough for all but that stack: the C library reserves 128 MiB for the heap of a thread.
        let lowered = Rlimit {
            current: Some(pages * rustix::param::page_size() as u64 + (900 << 20)),
            ..limit
        };
        setrlimit(Resource::As, lowered).unwrap();
        let witness = Arc::new(());
        for _ in 0..100 {
            let theirs = Arc::clone(&witness);
            let refused = runtime.run(|| {
                let huge = Builder::new().stack_size(1 << 30).dedicated();
                huge.spawn(move || drop(theirs)).map(drop)
            });
            let error = refused.unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::OutOfMemory),
                "{error:?}"
            );
            assert_eq!(Arc::strong_count(&witness), 1);
        }
        setrlimit(Resource::As, limit).unwrap();
        assert_eq!(runtime.run(|| dedicated(|| 7).join().unwrap()), 7);
        drop(runtime);
    });
}

fn dedicated_fibers_have_no_ring(place: Place) {
    place.run(|| {
        let refused = dedicated(|| submit_all([]).unwrap_err());
        let refused = refused.join().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.to_string().contains("dedicated"), "{refused}");
    });
}

fn outside_of_a_runtime_it_belongs_to_the_default_one(place: Place) {
    assert!(place.is_outside());
    let fiber = dedicated(|| {
        let child = spawn(gettid).join().unwrap();
        (gettid(), child, Metrics::current().is_some())
    });
    let (own, child, has_metrics) = fiber.join().unwrap();
    assert!(own != gettid() && own != child && has_metrics);
}
