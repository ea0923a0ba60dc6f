//! Fibers that are threads: joining one returns after the destructors of its `thread_local!` values
//! have run, as in `std`; the end of a scope does not wait for them, as in `std`.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{Gap, behaviours};
use uthread::{JoinHandle, spawn};

behaviours![(
    &[Gap(
        |place| !place.is_of_threads(),
        "a worker's thread-locals outlive its fibers"
    )],
    [
        a_join_waits_for_destructors_of_thread_locals,
        the_end_of_a_scope_waits_for_none,
        a_destructor_may_join_its_own_fiber
    ]
)];

/// Time after which a join that does not wait for it has long returned.
const LATE: Duration = Duration::from_millis(50);

/// Calls a function when it is dropped.
struct InDrop(Option<Box<dyn FnOnce()>>);

impl Drop for InDrop {
    fn drop(&mut self) {
        if let Some(action) = self.0.take() {
            action();
        }
    }
}

thread_local! {
    static AT_END: RefCell<InDrop> = const { RefCell::new(InDrop(None)) };
}

/// Runs `action` when the thread-locals of the calling thread are dropped.
fn at_end(action: impl FnOnce() + 'static) {
    AT_END.set(InDrop(Some(Box::new(action))));
}

/// Sets `dropped` when the thread-locals of the calling thread are dropped, after a while.
fn tell_late(dropped: &Arc<AtomicBool>) {
    let dropped = Arc::clone(dropped);
    at_end(move || {
        thread::sleep(LATE);
        dropped.store(true, Ordering::Relaxed);
    });
}

fn a_join_waits_for_destructors_of_thread_locals(place: Place) {
    let check = |run: &dyn Fn(&Arc<AtomicBool>)| {
        let dropped = Arc::new(AtomicBool::new(false));
        run(&dropped);
        assert!(dropped.load(Ordering::Relaxed));
    };
    let runtime = place.runtime();
    check(&|dropped| runtime.run(|| tell_late(dropped)));
    check(&|dropped| {
        let dropped = Arc::clone(dropped);
        runtime.spawn(move || tell_late(&dropped)).join().unwrap();
    });
    runtime.run(|| {
        check(&|dropped| {
            let dropped = Arc::clone(dropped);
            spawn(move || tell_late(&dropped)).join().unwrap();
        });
        check(&|dropped| {
            let dropped = Arc::clone(dropped);
            let panics = move || {
                tell_late(&dropped);
                panic!("the fiber panics");
            };
            assert!(spawn(panics).join().is_err());
        });
        check(&|dropped| {
            uthread::scope(|scope| scope.spawn(|| tell_late(dropped)).join().unwrap());
        });
        check(&|dropped| {
            uthread::join(|| (), || tell_late(dropped));
        });
    });
    // From a worker, which must not block.
    let workers = uthread::Runtime::builder().workers(1).build().unwrap();
    check(&|dropped| {
        let dropped = Arc::clone(dropped);
        let fiber = runtime.spawn(move || tell_late(&dropped));
        workers.run(|| {
            let beside = spawn(|| thread::current().id());
            fiber.join().unwrap();
            beside.join().unwrap();
        });
    });
}

fn the_end_of_a_scope_waits_for_none(place: Place) {
    place.run(|| {
        let (go, wait_to_go) = channel::<()>();
        let (ended, end) = channel();
        uthread::scope(|scope| {
            scope.spawn(move || {
                at_end(move || {
                    let _ = wait_to_go.recv();
                    ended.send(()).unwrap();
                });
            });
        });
        go.send(()).unwrap();
        end.recv().unwrap();
    });
}

fn a_destructor_may_join_its_own_fiber(place: Place) {
    place.run(|| {
        let (handles, handle) = channel::<JoinHandle<()>>();
        let (ended, end): (Sender<bool>, _) = channel();
        let fiber = spawn(move || {
            at_end(move || {
                let joined = handle.recv().unwrap().join();
                ended.send(joined.is_ok()).unwrap();
            });
        });
        handles.send(fiber).unwrap();
        assert!(end.recv().unwrap());
    });
}
