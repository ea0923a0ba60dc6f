//! Dropping a runtime: whatever its fibers wait for, all end, and nothing is left. Calls that they
//! make afterwards fail or unwind the fiber; none of them hangs.

use std::io::{self, ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::fixtures::fiber_or_thread::{InDrop, is_cancelled, park_for_ever};
use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{Gap, IN_FIBERS, ON_ONE_LEAN_WORKER, OUTSIDE, behaviours};
use crate::support::{FREE, HANG, HOUR, eventually};
use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Errno;
use tempfile::tempdir;
use uthread::fs::File;
use uthread::net::TcpListener;
use uthread::thread::{Cancelled, park};
use uthread::{JoinHandle, Runtime, blocking, current, scope, sleep, spawn, yield_now};

behaviours![
    (
        IN_FIBERS,
        [
            a_call_without_an_error_unwinds_its_fiber,
            a_call_with_an_error_returns_it,
            a_join_ends_with_the_fiber_it_waits_for,
            a_scope_ends_with_its_fibers,
            a_fiber_that_ignores_errors_is_unwound_in_the_end,
            a_blocking_call_is_waited_for,
            a_runtime_dropped_at_once_loses_no_fiber,
            a_fiber_spawned_by_a_destructor_never_starts,
            destructors_may_call_what_would_wait,
            a_runtime_may_be_dropped_in_its_own_fiber,
            a_runtime_may_live_and_die_in_a_fiber_of_another,
            a_fiber_of_another_runtime_learns_of_the_end,
            handles_outlive_the_runtime,
            thousands_of_waiting_fibers_end_soon,
            no_descriptor_and_no_thread_is_left,
            a_loop_of_blocking_calls_ends,
            a_loop_that_restarts_its_fibers_ends,
            a_few_fibers_spawned_in_vain_are_forgiven,
            a_scope_whose_fibers_were_cut_off_is_cut_off_too,
            a_scope_in_a_destructor_does_not_end_the_process,
            calls_on_other_threads_are_refused,
        ]
    ),
    (
        &[
            OUTSIDE,
            Gap(
                Place::is_of_epoll,
                "no call waits in a thread of the kernel"
            )
        ],
        [a_wait_in_a_thread_of_the_kernel_is_cancelled_as_any_other]
    ),
    (
        ON_ONE_LEAN_WORKER,
        [unstarted_fibers_never_start_and_their_captures_are_dropped]
    ),
];

fn is_refused<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.raw_os_error() == Some(Errno::CANCELED.raw_os_error()))
}

/// Starts `call` in a fiber that holds a witness, drops the runtime once the fiber is in it, and
/// returns the handle. On one worker the fiber waits then, on two it may be about to.
fn cut_off<T: Send + 'static>(
    place: Place,
    call: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let runtime = place.runtime();
    let witness = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&witness);
    let handle = runtime.spawn(move || {
        theirs.store(true, Ordering::Relaxed);
        call()
    });
    runtime.run(|| {
        while !witness.load(Ordering::Relaxed) {
            yield_now();
        }
    });
    drop(runtime);
    assert!(handle.is_finished());
    assert_eq!(Arc::strong_count(&witness), 1, "a capture is left");
    handle
}

fn a_call_without_an_error_unwinds_its_fiber(place: Place) {
    assert!(is_cancelled(cut_off(place, || sleep(HOUR))));
    assert!(is_cancelled(cut_off(place, || sleep(Duration::MAX))));
    assert!(is_cancelled(cut_off(place, park)));
    assert!(is_cancelled(cut_off(place, park_for_ever)));
    assert!(is_cancelled(cut_off(place, || {
        loop {
            yield_now();
        }
    })));
}

fn a_call_with_an_error_returns_it(place: Place) {
    let listener = TcpListener::bind(FREE).unwrap();
    let accepting = cut_off(place, move || is_refused(listener.accept()));
    assert!(accepting.join().unwrap());

    let (reader, _writer) = io::pipe().unwrap();
    let mut file = File::from(OwnedFd::from(reader));
    let reading = cut_off(place, move || is_refused(file.read(&mut [0; 8])));
    assert!(reading.join().unwrap());
}

/// Catches the kernel's own errno 512, which the ring returns here.
fn a_wait_in_a_thread_of_the_kernel_is_cancelled_as_any_other(place: Place) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("fifo");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    // Creating, unlike opening, waits for the other end.
    let creating = cut_off(place, move || is_refused(File::create(path)));
    assert!(creating.join().unwrap());
}

fn a_join_ends_with_the_fiber_it_waits_for(place: Place) {
    assert!(
        cut_off(place, || is_cancelled(spawn(park_for_ever)))
            .join()
            .unwrap()
    );
}

fn a_scope_ends_with_its_fibers(place: Place) {
    let ended = Arc::new(AtomicUsize::new(0));
    let theirs = Arc::clone(&ended);
    let scoped = cut_off(place, move || {
        scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let _count = InDrop(|| {
                        theirs.fetch_add(1, Ordering::Relaxed);
                    });
                    park_for_ever();
                });
            }
            yield_now();
        });
    });
    assert!(scoped.join().is_err());
    // Fibers that had not started have nothing to drop.
    assert!(ended.load(Ordering::Relaxed) <= 3);
}

fn a_fiber_that_ignores_errors_is_unwound_in_the_end(place: Place) {
    let ignoring = cut_off(place, || {
        let listener = TcpListener::bind(FREE).unwrap();
        loop {
            let _ = listener.accept();
        }
    });
    assert!(is_cancelled::<()>(ignoring));
}

fn a_blocking_call_is_waited_for(place: Place) {
    let runtime = place.runtime();
    let (release, released) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let begun_too = begun.clone();
    let blocking = runtime.spawn(move || {
        uthread::blocking(move || {
            begun.send(()).unwrap();
            released.recv()
        })
    });
    // Unwound by the drop, it lets the call end.
    let releasing = runtime.spawn(move || {
        let _release = InDrop(move || release.send("released").unwrap());
        begun_too.send(()).unwrap();
        park_for_ever();
    });
    assert_eq!(begins.iter().take(2).count(), 2);
    drop(runtime);
    assert_eq!(blocking.join().unwrap().unwrap(), "released");
    assert!(is_cancelled(releasing));
}

fn unstarted_fibers_never_start_and_their_captures_are_dropped(place: Place) {
    let witness = Arc::new(AtomicBool::new(false));
    let runtime = Arc::new(place.runtime());
    let (own, theirs) = (Arc::clone(&runtime), Arc::clone(&witness));
    let spawner = runtime.spawn(move || {
        while Arc::strong_count(&own) > 1 {
            yield_now();
        }
        let start = |_| {
            let theirs = Arc::clone(&theirs);
            spawn(move || theirs.store(true, Ordering::Relaxed))
        };
        let from_inside: Vec<_> = (0..100).map(start).collect();
        let injected = Arc::clone(&theirs);
        let from_outside = own.spawn(move || injected.store(true, Ordering::Relaxed));
        // Nothing else has run on the one worker since.
        drop(own);
        from_inside
            .into_iter()
            .chain([from_outside])
            .all(is_cancelled)
    });
    drop(runtime);
    assert!(spawner.join().unwrap());
    eventually("the captures are dropped", || {
        Arc::strong_count(&witness) == 1
    });
    assert!(!witness.load(Ordering::Relaxed));
}

fn a_runtime_dropped_at_once_loses_no_fiber(place: Place) {
    for _ in 0..50 {
        let runtime = place.runtime();
        let witness = Arc::new(());
        let handles: Vec<_> = (0..20)
            .map(|_| {
                let witness = Arc::clone(&witness);
                runtime.spawn(move || drop(witness))
            })
            .collect();
        drop(runtime);
        assert_eq!(Arc::strong_count(&witness), 1);
        for handle in handles {
            assert!(handle.is_finished());
            // The fiber ran or was cancelled, nothing else.
            assert!(
                handle
                    .join()
                    .map_or_else(|payload| payload.is::<Cancelled>(), |()| true)
            );
        }
    }
}

fn a_fiber_spawned_by_a_destructor_never_starts(place: Place) {
    let (sender, handles) = mpsc::channel();
    let ran = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&ran);
    let parked = cut_off(place, move || {
        let _spawn = InDrop(|| {
            let theirs = Arc::clone(&theirs);
            let handle = spawn(move || theirs.store(true, Ordering::Relaxed));
            sender.send(handle).unwrap();
        });
        park_for_ever();
    });
    assert!(is_cancelled(parked));
    assert!(is_cancelled(handles.recv().unwrap()));
    assert!(!ran.load(Ordering::Relaxed));
    assert_eq!(Arc::strong_count(&ran), 1);
}

fn destructors_may_call_what_would_wait(place: Place) {
    let (sender, results) = mpsc::channel();
    let parked = cut_off(place, move || {
        let _wait = InDrop(|| {
            let start = Instant::now();
            sleep(HOUR);
            park();
            yield_now();
            let refused = is_refused(File::open("Cargo.toml"));
            sender.send(refused && start.elapsed() < HANG).unwrap();
        });
        sleep(HOUR);
    });
    assert!(is_cancelled(parked));
    assert!(results.recv().unwrap());
}

fn a_runtime_may_be_dropped_in_its_own_fiber(place: Place) {
    let runtime = Arc::new(place.runtime());
    let own = Arc::clone(&runtime);
    let other = runtime.spawn(park_for_ever);
    let last = runtime.spawn(move || {
        while Arc::strong_count(&own) > 1 {
            yield_now();
        }
        drop(own);
        is_refused(File::open("Cargo.toml"))
    });
    drop(runtime);
    assert!(last.join().unwrap());
    assert!(is_cancelled(other));
}

fn a_runtime_may_live_and_die_in_a_fiber_of_another(place: Place) {
    place.runtime().run(|| {
        let inner = place.runtime();
        let waiting = inner.spawn(park_for_ever);
        // The worker of the outer one goes on meanwhile.
        let beside = spawn(|| 1);
        assert_eq!(
            inner.run(|| place.runtime_of(1).run(|| 5)) + beside.join().unwrap(),
            6
        );
        drop(inner);
        assert!(is_cancelled(waiting));
        assert_eq!(spawn(|| 7).join().unwrap(), 7);
    });
}

fn a_fiber_of_another_runtime_learns_of_the_end(place: Place) {
    let (outer, inner) = (place.runtime(), place.runtime());
    let waited_for = inner.spawn(park_for_ever);
    let joining = outer.spawn(move || is_cancelled(waited_for));
    outer.run(yield_now);
    drop(inner);
    assert!(joining.join().unwrap());
}

fn handles_outlive_the_runtime(place: Place) {
    let runtime = place.runtime();
    let (sender, threads) = mpsc::channel();
    let done = runtime.spawn(|| "value");
    let waiting = runtime.spawn(move || {
        sender.send(current()).unwrap();
        park_for_ever();
    });
    let thread = threads.recv().unwrap();
    runtime.run(|| {
        while !done.is_finished() {
            yield_now();
        }
    });
    drop(runtime);
    thread.unpark();
    assert_eq!(thread.name(), None);
    assert_eq!(thread.id(), thread.clone().id());
    assert!(format!("{waiting:?}").contains("is_finished: true"));
    assert_eq!(done.join().unwrap(), "value");
    assert!(is_cancelled(waiting));
    drop(thread);
}

fn thousands_of_waiting_fibers_end_soon(place: Place) {
    let runtime = place.runtime();
    let handles: Vec<_> = (0..3000)
        .map(|index: u64| {
            runtime.spawn(move || match index % 3 {
                0 => sleep(HOUR + Duration::from_millis(index)),
                1 => park_for_ever(),
                _ => drop(spawn(park_for_ever).join()),
            })
        })
        .collect();
    runtime.run(yield_now);
    let start = Instant::now();
    drop(runtime);
    assert!(start.elapsed() < HANG);
    assert!(handles.iter().all(JoinHandle::is_finished));
}

/// The beginnings of the names of threads that outlive a runtime: those that make calls for it.
const CALL_THREADS: [&str; 3] = ["uthread-call", "uthread-file", "uthread-wait"];

/// Returns how many descriptors are open, and how many other threads run.
fn descriptors_and_threads() -> (usize, usize) {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let comm = |entry: io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(entry.ok()?.path().join("comm")).ok()
    };
    let own = threads
        .filter_map(comm)
        .filter(|name| !CALL_THREADS.iter().any(|call| name.starts_with(call)));
    (
        std::fs::read_dir("/proc/self/fd").unwrap().count(),
        own.count(),
    )
}

fn no_descriptor_and_no_thread_is_left(place: Place) {
    alone(|| no_descriptor_and_no_thread_is_left_here(place));
}

fn no_descriptor_and_no_thread_is_left_here(place: Place) {
    fn use_up(runtime: &Runtime) {
        let listener = TcpListener::bind(FREE).unwrap();
        runtime.spawn(move || listener.accept().map(drop));
        runtime.spawn(|| File::open("Cargo.toml").map(|file| (file, sleep(HOUR))));
        runtime.spawn(park_for_ever);
        runtime.run(|| drop(spawn(|| uthread::fs::read("Cargo.toml"))));
    }
    let before = descriptors_and_threads();
    for _ in 0..2 {
        let outside = place.runtime();
        use_up(&outside);
        assert!(descriptors_and_threads() > before);
        drop(outside);
        place.runtime_of(1).run(|| {
            let inside = place.runtime();
            use_up(&inside);
        });
        let shared = Arc::new(place.runtime());
        let own = Arc::clone(&shared);
        let last = shared.spawn(move || {
            while Arc::strong_count(&own) > 1 {
                yield_now();
            }
        });
        drop(shared);
        last.join().unwrap();
    }
    let error = place.builder().workers(1025).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    // The kernel takes a thread out of its list a little after it could be joined, and a list that
    // is read at that moment lacks the threads behind it.
    eventually("all is gone", || descriptors_and_threads() == before);
}

/// Drops a runtime while a fiber runs `behaviour`.
fn end_during<T: Send + 'static>(
    place: Place,
    behaviour: impl FnOnce() -> T + Send + 'static,
) -> std::thread::Result<T> {
    end_during_prepared(place, || (), |()| behaviour())
}

/// Cuts off a call that uses a value prepared before the runtime is dropped.
fn end_during_prepared<P, T: Send + 'static>(
    place: Place,
    prepare: impl FnOnce() -> P + Send + 'static,
    behaviour: impl FnOnce(P) -> T + Send + 'static,
) -> std::thread::Result<T> {
    let runtime = place.runtime();
    let (running, runs) = mpsc::channel();
    let handle: JoinHandle<T> = runtime.spawn(move || {
        let prepared = prepare();
        running.send(()).unwrap();
        behaviour(prepared)
    });
    runs.recv().unwrap();
    drop(runtime);
    handle.join()
}

fn assert_cancelled<T>(result: std::thread::Result<T>) {
    assert!(
        result
            .err()
            .is_some_and(|payload| payload.is::<Cancelled>())
    );
}

/// Waits until the runtime is shut down, without being unwound.
fn await_shutdown() {
    while uthread::fs::metadata("/").is_ok() {}
}

fn a_loop_of_blocking_calls_ends(place: Place) {
    assert_cancelled(end_during(place, || {
        loop {
            blocking(|| ());
        }
    }));
}

fn a_loop_that_restarts_its_fibers_ends(place: Place) {
    assert_cancelled(end_during(place, || {
        loop {
            let _ = spawn(|| sleep(HOUR)).join();
        }
    }));
    assert_cancelled(end_during(place, || {
        loop {
            scope(|scope| {
                let _ = scope.spawn(|| sleep(HOUR)).join();
            });
        }
    }));
}

fn a_few_fibers_spawned_in_vain_are_forgiven(place: Place) {
    let joined = end_during(place, || {
        await_shutdown();
        let handles: Vec<_> = (0..50).map(|_| spawn(|| ())).collect();
        handles
            .into_iter()
            .filter_map(|handle| handle.join().err())
            .filter(|payload| payload.is::<Cancelled>())
            .count()
    });
    assert_eq!(joined.unwrap(), 50);
}

fn a_scope_whose_fibers_were_cut_off_is_cut_off_too(place: Place) {
    assert_cancelled(end_during(place, || {
        scope(|scope| {
            scope.spawn(|| sleep(HOUR));
        });
    }));
}

/// Runs a scope when it is dropped.
struct ScopeInDrop(Arc<Mutex<Vec<&'static str>>>);

impl Drop for ScopeInDrop {
    fn drop(&mut self) {
        scope(|scope| {
            scope.spawn(|| ());
        });
        self.0.lock().unwrap().push("after the scope");
    }
}

fn a_scope_in_a_destructor_does_not_end_the_process(place: Place) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let in_drop = ScopeInDrop(Arc::clone(&seen));
    assert_cancelled(end_during(place, move || {
        let _in_drop = in_drop;
        loop {
            yield_now();
        }
    }));
    assert_eq!(*seen.lock().unwrap(), ["after the scope"]);
}

fn calls_on_other_threads_are_refused(place: Place) {
    let prepare = || {
        let file = uthread::fs::File::open("Cargo.toml").unwrap();
        (file, uthread::fs::read_dir("/proc").unwrap())
    };
    let errors = end_during_prepared(place, prepare, |(file, mut started)| {
        await_shutdown();
        [
            uthread::fs::read_dir(".").err(),
            started.by_ref().find_map(Result::err),
            file.set_len(0).err(),
            file.lock().err(),
            file.try_lock().map_err(io::Error::from).err(),
            file.allocate(0, 1, uthread::fs::Allocation::Extend).err(),
            uthread::fs::copy("Cargo.toml", "/dev/null").err(),
            uthread::fs::canonicalize(".").err(),
            uthread::fs::create_dir("/missing/directory").err(),
            uthread::fs::remove_file("/missing/file").err(),
            uthread::net::TcpStream::connect("localhost:1").err(),
        ]
    });
    for error in errors.unwrap() {
        let error: Option<io::Error> = error;
        let errno = error.unwrap().raw_os_error();
        assert_eq!(errno, Some(rustix::io::Errno::CANCELED.raw_os_error()));
    }
}
