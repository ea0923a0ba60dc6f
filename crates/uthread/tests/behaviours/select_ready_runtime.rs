//! `select!` over descriptors in a runtime: the end of a wait with its fiber or with the runtime, and
//! fairness beside a fiber that never waits.

use std::io::{Read, Write};
use std::sync::{Arc, mpsc as native};
use std::time::Duration;

use rustix::io::Errno;
use uthread::net::TcpStream;
use uthread::sync::mpsc::{Receiver, channel};
use uthread::thread::park;
use uthread::{select, shield};

use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, ON_ONE_WORKER, behaviours};
use crate::support::sides::{InDrop, assert_neighbour_runs, is_cancelled};
use crate::support::{HANG, errno, pair, spawn_begun};

behaviours![
    (
        ON_ONE_WORKER,
        [a_fiber_that_never_waits_does_not_starve_its_neighbours]
    ),
    (
        IN_FIBERS,
        [
            who_is_cancelled_is_unwound_and_the_socket_stays_usable,
            the_end_of_the_runtime_unwinds_those_who_choose,
            the_end_of_the_runtime_ends_loops_of_choices,
            at_the_end_of_the_runtime_a_destructor_is_told,
            a_choice_may_wait_in_a_destructor,
            a_shield_holds_off_cancellation_and_the_end_of_the_runtime
        ]
    ),
];

fn wait_for_either(socket: &TcpStream, silent: &Receiver<()>) {
    select! {
        readable(socket) -> ready => ready.unwrap(),
        recv(silent) => panic!("nobody sends"),
    }
}

fn a_fiber_that_never_waits_does_not_starve_its_neighbours(place: Place) {
    let (ours, mut peer) = pair();
    peer.write_all(b"x").unwrap();
    assert_neighbour_runs(place, move || {
        select! { readable(&ours) -> ready => ready.unwrap() }
    });
    let (ours, _peer) = pair();
    assert_neighbour_runs(place, move || {
        select! {
            readable(&ours) => panic!("nobody has written"),
            default => {}
        }
    });
}

fn who_is_cancelled_is_unwound_and_the_socket_stays_usable(place: Place) {
    let runtime = place.runtime();
    let (ours, mut peer) = pair();
    let ours = Arc::new(ours);
    for round in 0..5_u8 {
        let theirs = Arc::clone(&ours);
        let (_sender, silent) = channel();
        let choosing = place.spawn_waiting(&runtime, move || wait_for_either(&theirs, &silent));
        choosing.cancel();
        assert!(is_cancelled(choosing));
        assert_eq!(Arc::strong_count(&ours), 1, "it was not unwound");
        peer.write_all(&[round]).unwrap();
        let theirs = Arc::clone(&ours);
        let read = runtime.run(move || {
            let (_sender, silent) = channel();
            wait_for_either(&theirs, &silent);
            let mut byte = [0xff];
            (&*theirs).read_exact(&mut byte).map(|()| byte[0])
        });
        assert_eq!(read.unwrap(), round);
    }
}

fn the_end_of_the_runtime_unwinds_those_who_choose(place: Place) {
    let runtime = place.runtime();
    let (ours, mut peer) = pair();
    let (_sender, silent) = channel();
    let choosing = place.spawn_waiting(&runtime, move || wait_for_either(&ours, &silent));
    drop(runtime);
    assert!(is_cancelled(choosing));
    assert_eq!(peer.read(&mut [0]).unwrap(), 0, "the socket is not closed");
}

fn the_end_of_the_runtime_ends_loops_of_choices(place: Place) {
    let loops: [fn(TcpStream); 3] = [
        |ready| {
            loop {
                select! { writable(&ready) => {} }
            }
        },
        |silent| {
            loop {
                select! {
                    readable(&silent) => {}
                    default => {}
                }
            }
        },
        |silent| {
            loop {
                select! {
                    readable(&silent) => {}
                    default(Duration::from_micros(1)) => {}
                }
            }
        },
    ];
    for endless in loops {
        let runtime = place.runtime();
        let (ours, _peer) = pair();
        let (fiber, _) = spawn_begun(&runtime, move || endless(ours));
        drop(runtime);
        assert!(is_cancelled(fiber));
    }
}

fn at_the_end_of_the_runtime_a_destructor_is_told(place: Place) {
    let runtime = place.runtime();
    let (outcome, outcomes) = native::channel();
    let fiber = place.spawn_waiting(&runtime, move || {
        let _in_drop = InDrop(|| {
            let (ours, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
            let (_sender, silent) = channel::<()>();
            let refused = select! {
                readable(&ours) -> ready => ready,
                recv(&silent) => Ok(()),
            };
            let waited = select! {
                readable(&ours) => true,
                default(HANG) => false,
            };
            peer.write_all(b"x").unwrap();
            // What has come is chosen all the same.
            let ready = select! {
                readable(&ours) -> ready => ready.is_ok(),
                recv(&silent) => false,
            };
            outcome.send((errno(refused), waited, ready)).unwrap();
        });
        park();
    });
    drop(runtime);
    assert!(is_cancelled(fiber));
    assert_eq!(outcomes.recv().unwrap(), (Errno::CANCELED, false, true));
}

fn a_choice_may_wait_in_a_destructor(place: Place) {
    let runtime = place.runtime();
    let (ours, mut peer) = pair();
    let (sender, receiver) = channel::<()>();
    let fiber = place.spawn_waiting(&runtime, move || {
        let _in_drop = InDrop(|| {
            select! {
                readable(&ours) -> ready => ready.unwrap(),
                recv(&receiver) => panic!("nobody sends"),
            }
        });
        panic!("it unwinds, and waits meanwhile");
    });
    peer.write_all(b"x").unwrap();
    let payload = fiber.join().unwrap_err();
    assert!(payload.is::<&str>());
    drop(sender);
}

fn a_shield_holds_off_cancellation_and_the_end_of_the_runtime(place: Place) {
    for ends in [false, true] {
        let runtime = place.runtime();
        let (ours, mut peer) = pair();
        let (sender, receiver) = channel();
        let shielded = place.spawn_waiting(&runtime, move || {
            shield(|| {
                let (_sender, silent) = channel();
                wait_for_either(&ours, &silent);
                (&ours).read_exact(&mut [0]).unwrap();
                // Begun after the end of the runtime has begun.
                select! {
                    readable(&ours) => panic!("nobody has written"),
                    recv(&receiver) -> value => value.unwrap(),
                }
            })
        });
        shielded.cancel();
        let dropping = std::thread::spawn(move || drop(ends.then_some(runtime)));
        std::thread::sleep(Duration::from_millis(5)); // Either order is right.
        peer.write_all(b"x").unwrap();
        std::thread::sleep(Duration::from_millis(5)); // Here too.
        sender.send("kept").unwrap();
        assert_eq!(shielded.join().unwrap(), "kept");
        dropping.join().unwrap();
    }
}
