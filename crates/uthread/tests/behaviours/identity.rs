//! The identity of fibers and threads: names, ids, and the view of system tools.

use std::collections::HashSet;

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{
    EVERYWHERE, IN_FIBERS, ON_A_THREAD, ON_ONE_LEAN_WORKER, OUTSIDE, OWN_TLS, THREADS, behaviours,
};
use crate::support::eventually;
use uthread::thread::Builder;
use uthread::{current, sleep, spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            a_fiber_has_the_name_it_was_given,
            a_fiber_without_a_name_has_none
        ]
    ),
    (ON_A_THREAD, [outside_the_identity_is_the_threads]),
    (
        &[OUTSIDE, THREADS, OWN_TLS],
        [workers_are_named_and_numbered]
    ),
    (
        ON_ONE_LEAN_WORKER,
        [the_default_thread_names_start_with_uthread]
    ),
    (
        IN_FIBERS,
        [
            the_fiber_of_run_is_main,
            no_two_fibers_have_the_same_identifier,
            a_runtime_describes_itself,
            a_handle_knows_whether_its_fiber_has_ended
        ]
    ),
];

fn a_fiber_has_the_name_it_was_given(place: Place) {
    place.run(|| {
        for name in [
            "bee",
            "",
            "with space",
            "gr\u{fc}n \u{1f41d}",
            &"long".repeat(1000),
        ] {
            let fiber = Builder::new().name(name.into()).spawn(|| {
                yield_now();
                let thread = current();
                (thread.name().map(str::to_owned), format!("{thread:?}"))
            });
            let fiber = fiber.unwrap();
            let debug = format!("{fiber:?}");
            let (seen, own_debug) = fiber.join().unwrap();
            assert_eq!(seen.as_deref(), Some(name));
            assert!(debug.contains(&format!("{name:?}")), "{debug}");
            assert!(own_debug.contains(&format!("{name:?}")), "{own_debug}");
        }
    });
}

fn a_fiber_without_a_name_has_none(place: Place) {
    place.run(|| {
        let name = || current().name().map(str::to_owned);
        assert_eq!(spawn(name).join().unwrap(), None);
        assert_eq!(Builder::new().spawn(name).unwrap().join().unwrap(), None);
        assert_eq!(
            uthread::scope(|scope| scope.spawn(name).join().unwrap()),
            None
        );
    });
}

fn the_fiber_of_run_is_main(place: Place) {
    place.run(|| assert_eq!(current().name(), Some("main")));
}

fn outside_the_identity_is_the_threads(place: Place) {
    place.run(|| {
        let named = std::thread::Builder::new().name("outside".into());
        let thread = named.spawn(|| {
            assert_eq!(current().name(), Some("outside"));
            assert_eq!(current().id(), current().id());
            (current(), current().id())
        });
        let (thread, id) = thread.unwrap().join().unwrap();
        assert_eq!(thread.id(), id);
        assert_ne!(current().id(), id);
    });
}

fn no_two_fibers_have_the_same_identifier(place: Place) {
    let runtimes = [place.runtime(), place.runtime_of(1)];
    let identify = || {
        let before = current().id();
        yield_now();
        assert_eq!(current().id(), before);
        assert_eq!(current().clone().id(), before);
        before
    };
    let mut handles = Vec::new();
    for _ in 0..500 {
        handles.extend(runtimes.iter().map(|runtime| runtime.spawn(identify)));
        handles.push(spawn(identify));
    }
    let mut ids: HashSet<_> = handles
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .collect();
    assert_eq!(ids.len(), 1500);
    assert!(ids.insert(current().id()), "a thread's is another");
}

/// Returns the names of this process's threads, as the system tells them: 15 bytes at most.
fn system_names() -> Vec<String> {
    std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("comm")).ok())
        .map(|name| name.trim_end().to_owned())
        .collect()
}

/// Runs in a process of its own, where nobody else has threads of these names.
fn workers_are_named_and_numbered(place: Place) {
    alone(|| see_names_and_numbers(place));
}

fn see_names_and_numbers(place: Place) {
    let named = |name: &str, workers| {
        let builder = place.builder().name(name).workers(workers);
        builder.build().unwrap()
    };
    let kept = (named("hive", 3), named("a-very-long-name-indeed", 1));
    // A list that is read while another thread ends lacks those behind it.
    for name in ["hive-0", "hive-1", "hive-2", "a-very-long-nam"] {
        eventually(name, || system_names().iter().any(|seen| seen == name));
    }
    assert!(!system_names().iter().any(|seen| seen == "hive-3"));
    let std_name = || std::thread::current().name().map(str::to_owned);
    assert!(kept.0.run(std_name).unwrap().starts_with("hive-"));
    assert_eq!(
        kept.1.run(std_name).as_deref(),
        Some("a-very-long-name-indeed-0")
    );
}

fn the_default_thread_names_start_with_uthread(place: Place) {
    let runtime = place.runtime();
    let name = || std::thread::current().name().map(str::to_owned);
    assert_eq!(runtime.run(name).as_deref(), Some("uthread-0"));
    let blocking = runtime.run(|| uthread::blocking(name)).unwrap();
    assert!(blocking.starts_with("uthread-call-"), "{blocking}");
}

fn a_runtime_describes_itself(place: Place) {
    let runtime = place.runtime();
    assert_eq!(runtime.workers(), place.workers());
    assert_eq!(runtime.driver().driver(), place.driver());
    let driver = runtime.driver().to_string();
    assert!(
        driver.starts_with(&format!("{} (", place.driver())),
        "{driver}"
    );
    assert!(driver.ends_with("), as the program asked"), "{driver}");
    let debug = format!("{runtime:?}");
    assert!(
        debug.contains(&format!("workers: {}", place.workers())) && debug.contains(&driver),
        "{debug}"
    );
}

fn a_handle_knows_whether_its_fiber_has_ended(place: Place) {
    place.run(|| {
        let waiting = spawn(uthread::thread::park);
        assert!(!waiting.is_finished());
        let done = spawn(|| sleep(std::time::Duration::from_micros(10)));
        while !done.is_finished() {
            yield_now();
        }
        assert!(format!("{done:?}").contains("is_finished: true"));
        assert!(format!("{waiting:?}").contains("is_finished: false"));
        drop(waiting);
    });
}
