//! The arms of `select!`: defaults, times, conditions, bodies.

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::HANG;
use uthread::sync::mpsc::{Receiver, RecvError, channel};
use uthread::time::interval;
use uthread::{select, sleep};

behaviours![(
    EVERYWHERE,
    [
        the_default_is_run_if_nothing_has_come,
        times_are_events,
        ticks_are_kept_for_the_next_choice,
        a_condition_that_does_not_hold_excludes_its_arm,
        a_choice_without_arms_that_take_part_panics,
        a_body_may_leave_the_loop_around_it
    ]
)];

const SOON: Duration = Duration::from_millis(3);

fn the_default_is_run_if_nothing_has_come(place: Place) {
    place.run(|| {
        let (sender, receiver) = channel();
        let receive = || {
            select! {
                recv(&receiver) -> value => value.ok(),
                default => None,
            }
        };
        assert_eq!(receive(), None);
        sender.send(1).unwrap();
        assert_eq!(receive(), Some(1));
        let start = Instant::now();
        select! {
            recv(&receiver) => panic!("nothing is left"),
            default(SOON) => assert!(start.elapsed() >= SOON),
        }
        sender.send(2).unwrap();
        select! {
            recv(&receiver) -> value => assert_eq!(value, Ok(2)),
            default(Duration::ZERO) => panic!("there is a value"),
        }
        select! {
            recv(&receiver) => panic!("nothing is left"),
            default(Duration::ZERO) => {}
        }
    });
}

fn times_are_events(place: Place) {
    place.run(|| {
        let (_sender, receiver) = channel::<()>();
        let start = Instant::now();
        select! {
            after(HANG) => panic!("the later one"),
            recv(&receiver) => panic!("nobody sends"),
            after(SOON) => assert!(start.elapsed() >= SOON),
            default(HANG) => panic!("the latest one"),
        }
        let deadline = Instant::now() + SOON;
        select! {
            recv(&receiver) => panic!("nobody sends"),
            at(deadline) => assert!(Instant::now() >= deadline),
            after(Duration::MAX) => panic!("an age has passed"),
        }
        select! {
            at(start) => {}
            default => panic!("it has passed"),
        }
    });
}

fn ticks_are_kept_for_the_next_choice(place: Place) {
    place.run(|| {
        let (sender, receiver) = channel();
        let start = Instant::now();
        let mut ticks = interval(SOON);
        sleep(2 * SOON);
        // Two are due: the later one is kept.
        let due = select! { tick(&mut ticks) -> due => due };
        assert!(due >= start + 2 * SOON && due <= Instant::now());
        // One that never waits does not miss them.
        (0..1_000_000).for_each(|n| sender.send(n).unwrap());
        let mut seen = 0;
        while seen < 3 {
            select! {
                recv(&receiver) -> value => assert!(value.is_ok(), "no tick among a million"),
                tick(&mut ticks) -> next => {
                    assert!(next > due);
                    seen += 1;
                }
            }
        }
        assert!(start.elapsed() >= 5 * SOON);
    });
}

fn a_condition_that_does_not_hold_excludes_its_arm(place: Place) {
    place.run(|| {
        let (sender, receiver) = channel();
        sender.send(1).unwrap();
        let never = |looked: bool| -> &Receiver<i32> {
            assert!(looked, "the argument is looked at");
            &receiver
        };
        for (first, second) in [(true, false), (false, true)] {
            let chosen = select! {
                recv(never(first)) -> value if first => value.map(|value| (1, value)),
                recv(never(second)) -> value if second => value.map(|value| (2, value)),
                default => Ok((3, 0)),
            };
            assert_eq!(chosen, Ok(if first { (1, 1) } else { (2, 2) }));
            sender.send(2).unwrap();
        }
        assert_eq!(
            select! {
                recv(&receiver) -> value if false => value.ok(),
                default => None,
            },
            None
        );
    });
}

fn a_choice_without_arms_that_take_part_panics(place: Place) {
    place.run(|| {
        let (sender, receiver) = channel::<i32>();
        let mut nothing = None;
        let payload = panic::catch_unwind(AssertUnwindSafe(|| {
            select! {
                recv(&receiver) if false => {}
                send(&sender, &mut nothing) => {}
            }
        }));
        assert!(payload.is_err());
    });
}

fn a_body_may_leave_the_loop_around_it(place: Place) {
    fn first_even(receiver: &Receiver<i32>) -> Result<i32, RecvError> {
        loop {
            let value = select! {
                recv(receiver) -> value => value?,
                after(HANG) => return Ok(0),
            };
            if value % 2 == 0 {
                break Ok(value);
            }
        }
    }
    place.run(|| {
        let (sender, receiver) = channel();
        (3..6).for_each(|n| sender.send(n).unwrap());
        drop(sender);
        assert_eq!(first_even(&receiver), Ok(4));
        assert_eq!(first_even(&receiver), Err(RecvError));
        let mut rounds = 0;
        loop {
            rounds += 1;
            select! {
                at(Instant::now()) if rounds < 3 => continue,
                default => break,
            }
        }
        assert_eq!(rounds, 3);
    });
}
