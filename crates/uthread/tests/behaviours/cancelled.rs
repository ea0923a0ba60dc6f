//! The calls of a fiber after its runtime is shut down: they fail or unwind the fiber; none of them
//! hangs.

use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, behaviours};
use crate::support::HOUR;
use uthread::thread::{Cancelled, JoinHandle};
use uthread::{blocking, scope, sleep, spawn, yield_now};

behaviours![(
    IN_FIBERS,
    [
        a_loop_of_blocking_calls_ends,
        a_loop_that_restarts_its_fibers_ends,
        a_few_fibers_spawned_in_vain_are_forgiven,
        a_scope_whose_fibers_were_cut_off_is_cut_off_too,
        a_scope_in_a_destructor_does_not_end_the_process,
        calls_on_other_threads_are_refused
    ]
)];

/// Drops a runtime while a fiber runs `behaviour`.
fn cut_off<T: Send + 'static>(
    place: Place,
    behaviour: impl FnOnce() -> T + Send + 'static,
) -> std::thread::Result<T> {
    cut_off_prepared(place, || (), |()| behaviour())
}

/// Cuts off a call that uses a value prepared before the runtime is dropped.
fn cut_off_prepared<P, T: Send + 'static>(
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
    assert_cancelled(cut_off(place, || {
        loop {
            blocking(|| ());
        }
    }));
}

fn a_loop_that_restarts_its_fibers_ends(place: Place) {
    assert_cancelled(cut_off(place, || {
        loop {
            let _ = spawn(|| sleep(HOUR)).join();
        }
    }));
    assert_cancelled(cut_off(place, || {
        loop {
            scope(|scope| {
                let _ = scope.spawn(|| sleep(HOUR)).join();
            });
        }
    }));
}

fn a_few_fibers_spawned_in_vain_are_forgiven(place: Place) {
    let joined = cut_off(place, || {
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
    assert_cancelled(cut_off(place, || {
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
    assert_cancelled(cut_off(place, move || {
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
    let errors = cut_off_prepared(place, prepare, |(file, mut started)| {
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
