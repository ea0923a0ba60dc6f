//! The threads that make blocking calls: those of a runtime are its own, and end with it.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use uthread::net::ToSocketAddrs;
use uthread::{blocking, fs};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{OUTSIDE, OWN_THREAD, THREADS, behaviours};
use crate::support::calls::{Gate, stats_of_threads};
use crate::support::{HOUR, SHORT, eventually};

behaviours![(
    &[OUTSIDE, THREADS, OWN_THREAD],
    [
        busy_threads_do_not_delay_other_calls,
        threads_end_when_idle_and_with_their_runtime,
        a_runtime_without_such_threads_is_refused
    ]
)];

fn busy_threads_do_not_delay_other_calls(place: Place) {
    let builder = place.builder().blocking_threads(1);
    let runtime = builder.build().unwrap();
    let gate = Arc::<Gate>::default();
    let calls = [(), ()].map(|()| {
        let gate = Arc::clone(&gate);
        runtime.spawn(move || blocking(|| gate.pass()))
    });
    let usage = || {
        let usage = runtime.metrics().blocking;
        (usage.threads, usage.idle, usage.queued, usage.calls)
    };
    eventually("a thread makes a call", || usage() == (1, 0, 1, 1));
    runtime.run(|| {
        assert!(fs::read_dir(".").unwrap().count() > 0);
        assert!("localhost:80".to_socket_addrs().unwrap().count() > 0);
    });
    assert_eq!(usage(), (1, 0, 1, 1));
    std::thread::sleep(SHORT);
    gate.open();
    calls.into_iter().for_each(|call| call.join().unwrap());
    eventually("a thread makes a call", || usage() == (1, 1, 0, 2));
    assert!(runtime.metrics().blocking.waited >= SHORT);
}

fn threads_end_when_idle_and_with_their_runtime(place: Place) {
    alone(|| {
        for keep_alive in [Duration::from_millis(1), HOUR] {
            let builder = place.builder().blocking_keep_alive(keep_alive);
            let runtime = builder.build().unwrap();
            runtime.run(|| blocking(|| ()));
            match keep_alive {
                // A list that is read while another thread ends lacks those behind it.
                HOUR => eventually("one thread stays", || count_call_threads() == 1),
                _ => await_end_of_call_threads(),
            }
            drop(runtime);
            await_end_of_call_threads();
        }
    });
}

fn a_runtime_without_such_threads_is_refused(place: Place) {
    let refused = place.builder().blocking_threads(0).build().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("at least 1"), "{refused}");
}

fn await_end_of_call_threads() {
    eventually("the threads end", || count_call_threads() == 0);
}

fn count_call_threads() -> usize {
    let is_call = |stat: &String| stat.contains("(uthread-call");
    stats_of_threads().filter(is_call).count()
}
