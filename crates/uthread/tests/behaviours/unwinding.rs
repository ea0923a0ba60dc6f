//! The end of a runtime while fibers of its single worker are suspended in destructors. `std` then
//! counts the thread as panicking, which says nothing about the fiber that runs.

use std::sync::mpsc;
use std::time::Duration;

use crate::fixtures::fiber_or_thread::InDrop;
use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, behaviours};
use crate::support::{FREE, HOUR};
use uthread::net::TcpListener;
use uthread::thread::park;
use uthread::{JoinHandle, Runtime, sleep, spawn};

behaviours![(
    IN_FIBERS,
    [
        loops_of_waits_end_beside_a_fiber_that_panicked_and_waits,
        a_child_that_a_destructor_joins_ends,
        a_destructor_may_park_more_than_once,
        a_loop_by_way_of_another_runtime_ends
    ]
)];

/// Runs the fibers, on one worker each until it waits, and drops the runtime.
fn assert_ends(place: Place, fibers: impl FnOnce(&Runtime)) {
    let runtime = place.runtime();
    fibers(&runtime);
    let (running, runs) = mpsc::channel();
    // Begins when those before it wait: the oldest go first here, and what they spawn before it.
    runtime.run(|| {
        for _ in 0..100 {
            uthread::yield_now();
        }
    });
    std::thread::spawn(move || {
        drop(runtime);
        running.send(()).unwrap();
    });
    runs.recv_timeout(Duration::from_secs(10))
        .expect("the runtime ends");
}

fn panic_quietly() {
    std::panic::resume_unwind(Box::new("on purpose"));
}

fn loops_of_waits_end_beside_a_fiber_that_panicked_and_waits(place: Place) {
    let loops: [fn(); 2] = [
        || {
            loop {
                sleep(HOUR);
            }
        },
        || {
            loop {
                park();
            }
        },
    ];
    let waits: [fn(); 2] = [
        || sleep(HOUR),
        || drop(TcpListener::bind(FREE).unwrap().accept()),
    ];
    for endless in loops {
        for wait in waits {
            assert_ends(place, |runtime| {
                runtime.spawn(endless);
                runtime.spawn(move || {
                    let _in_drop = InDrop(wait);
                    panic_quietly();
                });
                runtime.spawn(endless);
            });
        }
    }
}

/// Asserts the end of a child that is joined by a destructor of its parent.
fn assert_joined_child_ends(place: Place, child: fn()) {
    assert_ends(place, |runtime| {
        runtime.spawn(move || {
            let mut child: Option<JoinHandle<()>> = Some(spawn(child));
            let _in_drop = InDrop(move || drop(child.take().map(JoinHandle::join)));
            sleep(HOUR);
        });
    });
}

fn a_child_that_a_destructor_joins_ends(place: Place) {
    assert_joined_child_ends(place, || {
        loop {
            sleep(HOUR);
        }
    });
    assert_joined_child_ends(place, || {
        loop {
            park();
        }
    });
    assert_joined_child_ends(place, || {
        let listener = TcpListener::bind(FREE).unwrap();
        loop {
            let _ = listener.accept();
        }
    });
}

fn a_destructor_may_park_more_than_once(place: Place) {
    assert_ends(place, |runtime| {
        runtime.spawn(|| {
            let _in_drop = InDrop(|| (0..3).for_each(|_| park()));
            sleep(HOUR);
        });
    });
}

fn a_loop_by_way_of_another_runtime_ends(place: Place) {
    let other = std::sync::Arc::new(place.runtime());
    assert_ends(place, |runtime| {
        let other = std::sync::Arc::clone(&other);
        runtime.spawn(move || {
            loop {
                other.run(|| ());
            }
        });
    });
}
