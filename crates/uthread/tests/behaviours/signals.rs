//! Signals as a stream. They are the whole process's, so each trial has one of its own.

use std::time::{Duration, Instant};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::standard::{Kind, with_stdin};
use crate::support::{HANG, errno, open_descriptors};
use rustix::io::Errno;
use rustix::process::{getpid, kill_process};
use uthread::io::stdin;
use uthread::signal::{Signal, Signals, ctrl_c};
use uthread::thread::Cancelled;
use uthread::{spawn, timeout};

behaviours![
    (
        EVERYWHERE,
        [
            a_waiter_receives_the_next_signal,
            each_listener_gets_each_signal,
            signals_before_the_first_wait_are_not_lost,
            equal_ones_count_as_one,
            a_storm_of_them_is_survived,
            nothing_comes_for_a_while,
            an_iterator_goes_on_and_on,
            signals_that_cannot_be_caught_are_refused,
            all_have_names_and_numbers,
            their_descriptors_are_given_back
        ]
    ),
    (
        IN_FIBERS,
        [
            a_wait_ends_with_the_runtime,
            a_wait_ends_in_time,
            ctrl_c_ends_a_program_whose_fibers_wait_for_input
        ]
    ),
];

fn raise(signal: Signal) {
    let signal = rustix::process::Signal::from_named_raw(signal.as_raw());
    kill_process(getpid(), signal.unwrap()).unwrap();
}

/// Raises SIGINT until a wait for ctrl-C has ended. A signal that comes before that wait is lost,
/// and must not end the process either.
fn interrupt_until_received() {
    let _listening = Signals::new([Signal::INT]).unwrap();
    let waiting = spawn(ctrl_c);
    while !waiting.is_finished() {
        raise(Signal::INT);
        uthread::yield_now();
    }
    waiting.join().unwrap().unwrap();
}

fn a_waiter_receives_the_next_signal(place: Place) {
    alone(|| {
        place.run(|| {
            let mut signals = Signals::new([Signal::USR1, Signal::HUP]).unwrap();
            for signal in [Signal::USR1, Signal::HUP, Signal::USR1] {
                let got = place.meanwhile(|| signals.recv(), || raise(signal));
                assert_eq!(got.unwrap(), signal);
            }
            let wait = || signals.recv_timeout(2 * HANG);
            let got = place.meanwhile(wait, || raise(Signal::HUP));
            assert_eq!(got.unwrap(), Some(Signal::HUP));
            interrupt_until_received();
        });
    });
}

fn each_listener_gets_each_signal(place: Place) {
    alone(|| {
        place.run(|| {
            let listen = || Signals::new([Signal::USR1]).unwrap();
            let (mut first, second, mut third) = (listen(), listen(), listen());
            drop(second);
            raise(Signal::USR1);
            assert_eq!(third.recv().unwrap(), Signal::USR1);
            assert_eq!(first.recv().unwrap(), Signal::USR1);
            assert_eq!((first.try_recv(), third.try_recv()), (None, None));
        });
    });
}

fn signals_before_the_first_wait_are_not_lost(place: Place) {
    alone(|| {
        let mut signals = Signals::new([Signal::USR1, Signal::TERM]).unwrap();
        let mut later = Signals::new([Signal::USR1, Signal::TERM]).unwrap();
        raise(Signal::USR1);
        raise(Signal::TERM);
        let mut seen = [later.recv().unwrap(), later.recv().unwrap()];
        seen.sort_by_key(|signal| signal.as_raw());
        assert_eq!(seen, [Signal::USR1, Signal::TERM]);
        place.run(|| {
            let mut seen = [signals.try_recv().unwrap(), signals.recv().unwrap()];
            seen.sort_by_key(|signal| signal.as_raw());
            assert_eq!(seen, [Signal::USR1, Signal::TERM]);
            assert_eq!(signals.try_recv(), None);
        });
    });
}

fn equal_ones_count_as_one(place: Place) {
    alone(|| {
        place.run(|| {
            let mut signals = Signals::new([Signal::USR1]).unwrap();
            let mut witness = Signals::new([Signal::USR1]).unwrap();
            for _ in 0..3 {
                raise(Signal::USR1);
                witness.recv().unwrap();
            }
            assert_eq!(signals.recv().unwrap(), Signal::USR1);
            assert_eq!(signals.try_recv(), None);
        });
    });
}

fn a_storm_of_them_is_survived(place: Place) {
    alone(|| {
        place.run(|| {
            // More than a socket holds.
            let mut signals = Signals::new([Signal::USR1, Signal::USR2]).unwrap();
            (0..2000).for_each(|_| raise(Signal::USR1));
            raise(Signal::USR2);
            while signals.recv().unwrap() != Signal::USR2 {}
            // The last before it may come now only, where another thread was given it.
            let next = || signals.find(|signal| *signal == Signal::USR2);
            let got = place.meanwhile(next, || raise(Signal::USR2));
            assert_eq!(got.unwrap(), Signal::USR2);
        });
    });
}

fn nothing_comes_for_a_while(place: Place) {
    alone(|| {
        place.run(|| {
            let mut signals = Signals::new([Signal::USR1]).unwrap();
            let (start, while_) = (Instant::now(), Duration::from_millis(20));
            assert_eq!(signals.recv_timeout(while_).unwrap(), None);
            assert!(start.elapsed() >= while_);
            assert_eq!(signals.recv_deadline(start).unwrap(), None);
            assert_eq!(signals.recv_timeout(Duration::ZERO).unwrap(), None);
            raise(Signal::USR1);
            assert_eq!(signals.recv().unwrap(), Signal::USR1);
        });
    });
}

fn an_iterator_goes_on_and_on(place: Place) {
    alone(|| {
        place.run(|| {
            let mut signals = Signals::new([Signal::USR1]).unwrap();
            let listener = spawn(move || {
                let seen = signals.by_ref().take(3).collect::<Vec<_>>();
                (seen, signals)
            });
            let mut own = Signals::new([Signal::USR1]).unwrap();
            while !listener.is_finished() {
                raise(Signal::USR1);
                assert_eq!(own.next(), Some(Signal::USR1));
                uthread::yield_now();
            }
            assert_eq!(listener.join().unwrap().0, [Signal::USR1; 3]);
        });
    });
}

fn signals_that_cannot_be_caught_are_refused(place: Place) {
    alone(|| {
        place.run(|| {
            use Signal as S;
            for signal in [S::KILL, S::STOP, S::ILL, S::FPE, S::SEGV, S::URG] {
                let result = Signals::new([S::USR1, signal]);
                assert_eq!(errno(result), Errno::INVAL, "{signal}");
            }
        });
    });
}

fn all_have_names_and_numbers(place: Place) {
    place.run(|| {
        let known: Vec<_> = (-1..200).filter_map(Signal::from_raw).collect();
        assert_eq!(known.len(), 31);
        for signal in known {
            assert_eq!(Signal::from_raw(signal.as_raw()), Some(signal));
            assert!(signal.to_string().starts_with("SIG"));
        }
        assert_eq!(
            format!("{} {:?}", Signal::CHLD, Signal::PWR),
            "SIGCHLD SIGPWR"
        );
    });
}

fn their_descriptors_are_given_back(place: Place) {
    alone(|| {
        place.run(|| {
            let count = open_descriptors;
            drop(Signals::new([Signal::USR1]).unwrap());
            let before = count();
            (0..100).for_each(|_| drop(Signals::new([Signal::USR1, Signal::USR2]).unwrap()));
            assert!(count() <= before + 10, "of 200");
        });
    });
}

fn a_wait_ends_with_the_runtime(place: Place) {
    alone(|| {
        let runtime = place.runtime_of(1);
        let listen = || Signals::new([Signal::USR1]).unwrap();
        let receiving = place.spawn_waiting(&runtime, move || listen().recv());
        let iterating = place.spawn_waiting(&runtime, move || listen().next());
        let timed = place.spawn_waiting(&runtime, move || listen().recv_timeout(2 * HANG));
        drop(runtime);
        assert_eq!(errno(receiving.join().unwrap()), Errno::CANCELED);
        assert_eq!(errno(timed.join().unwrap()), Errno::CANCELED);
        assert!(iterating.join().unwrap_err().is::<Cancelled>());
    });
}

fn a_wait_ends_in_time(place: Place) {
    alone(|| {
        place.run(|| {
            let mut signals = Signals::new([Signal::USR1]).unwrap();
            let soon = Duration::from_millis(5);
            assert_eq!(
                errno(timeout(soon, || signals.recv()).unwrap()),
                Errno::TIMEDOUT
            );
            let wait = || signals.recv_timeout(2 * HANG);
            assert_eq!(errno(timeout(soon, wait).unwrap()), Errno::TIMEDOUT);
            // The earlier of the two ends it: here its own.
            let wait = || signals.recv_timeout(soon);
            assert_eq!(timeout(2 * HANG, wait).unwrap().unwrap(), None);
            raise(Signal::USR1);
            assert_eq!(signals.recv().unwrap(), Signal::USR1);
        });
    });
}

fn ctrl_c_ends_a_program_whose_fibers_wait_for_input(place: Place) {
    alone(|| {
        for kind in Kind::ALL {
            let (input, _writer) = kind.input();
            with_stdin(input, || {
                let runtime = place.runtime();
                runtime.run(|| {
                    let waiting = || stdin().lines().count();
                    for _ in 0..3 {
                        spawn(waiting);
                    }
                    interrupt_until_received();
                });
            });
        }
    });
}
