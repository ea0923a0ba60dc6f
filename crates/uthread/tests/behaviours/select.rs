//! `select!` over channels and times, with a fiber or a thread at either end, and the arms that it
//! may have.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::fixtures::fiber_or_thread::{Counted, Running, mixed};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::{HANG, SHORT};
use uthread::sync::mpsc::{Receiver, RecvError, SendError, SyncSender, channel, sync_channel};
use uthread::sync::select::{self, Select};
use uthread::time::interval;
use uthread::{select, sleep};

behaviours![(
    EVERYWHERE,
    [
        values_of_all_channels_arrive_in_their_order,
        values_go_to_all_channels_in_their_order,
        two_selections_meet_at_a_rendezvous,
        a_selection_does_not_meet_itself,
        crossed_selections_lose_nothing,
        the_end_of_a_channel_is_an_event,
        the_case_not_chosen_keeps_what_it_has,
        cases_may_be_chosen_again,
        every_value_is_dropped_once,
        the_default_is_run_if_nothing_has_come,
        times_are_events,
        ticks_are_kept_for_the_next_selection,
        a_condition_that_does_not_hold_excludes_its_arm,
        a_selection_without_arms_that_take_part_panics,
        a_body_may_leave_the_loop_around_it
    ]
)];

type Ends<T> = ([SyncSender<T>; 2], [Receiver<T>; 2]);

fn two_channels<T: std::fmt::Debug>(bounds: [usize; 2]) -> Ends<T> {
    let (senders, receivers): (Vec<_>, Vec<_>) = bounds.into_iter().map(sync_channel).unzip();
    (senders.try_into().unwrap(), receivers.try_into().unwrap())
}

/// Receives 200 numbers in their order from each, until both have ended.
fn receive_all(receivers: &[Receiver<usize>; 2]) {
    let (mut next, mut open) = ([0, 0], [true, true]);
    while open.contains(&true) {
        let (from, value) = select! {
            recv(&receivers[0]) -> value if open[0] => (0, value),
            recv(&receivers[1]) -> value if open[1] => (1, value),
        };
        match value {
            Ok(value) => {
                assert_eq!(value, next[from], "of channel {from}");
                next[from] += 1;
            }
            Err(RecvError) => open[from] = false,
        }
    }
    assert_eq!(next, [200, 200]);
}

/// Sends so many numbers to each.
fn send_all(senders: &[SyncSender<usize>; 2], count: usize) {
    let mut next = [0, 0];
    while next != [count, count] {
        let [mut first, mut second] = next.map(|next| (next < count).then_some(next));
        let (to, sent) = select! {
            send(&senders[0], &mut first) -> sent => (0, sent),
            send(&senders[1], &mut second) -> sent => (1, sent),
        };
        sent.unwrap();
        let kept = [first, second].map(|value| value.is_some());
        assert!(!kept[to], "the value was sent, but is still here");
        assert!(
            kept[1 - to] == (next[1 - to] < count),
            "the value was not sent, but is gone"
        );
        next[to] += 1;
    }
}

/// Sends numbers to each channel and receives them, with a selection at one side or at both.
fn check_order(place: Place, sender_chooses: bool, receiver_chooses: bool) {
    mixed(place, |sending, receiving| {
        for bounds in [[0, 0], [0, 1], [3, usize::MAX]] {
            let (senders, receivers) = two_channels(bounds);
            let received: Vec<_> = if receiver_chooses {
                vec![receiving.start(move || receive_all(&receivers))]
            } else {
                receivers
                    .map(|receiver| receiving.start(move || assert!(receiver.iter().eq(0..200))))
                    .into()
            };
            if sender_chooses {
                sending.start(move || send_all(&senders, 200)).join();
            } else {
                let send = |sender: SyncSender<_>| (0..200).for_each(|n| sender.send(n).unwrap());
                let sends = senders.map(|sender| sending.start(move || send(sender)));
                sends.into_iter().for_each(Running::join);
            }
            received.into_iter().for_each(Running::join);
        }
    });
}

fn values_of_all_channels_arrive_in_their_order(place: Place) {
    check_order(place, false, true);
}

fn values_go_to_all_channels_in_their_order(place: Place) {
    check_order(place, true, false);
}

fn two_selections_meet_at_a_rendezvous(place: Place) {
    check_order(place, true, true);
}

/// Catches a selection that looks for itself without an end, and keeps its worker from the fiber
/// that it waits for.
fn a_selection_does_not_meet_itself(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(0);
        for _ in 0..10 {
            let (other, others) = channel();
            let sent = uthread::spawn(move || other.send(2));
            let mut value = Some(1);
            select! {
                send(&sender, &mut value) => panic!("to whom?"),
                recv(&receiver) => panic!("from whom?"),
                recv(&others) -> other => assert_eq!(other, Ok(2)),
            }
            assert_eq!(value, Some(1));
            sent.join().unwrap().unwrap();
        }
    });
}

/// Makes each side send on the channel on which the other receives: at the same time both may find
/// the other about to leave.
fn crossed_selections_lose_nothing(place: Place) {
    fn exchange(sender: &SyncSender<usize>, receiver: &Receiver<usize>) {
        let (mut sent, mut received) = (0, 0);
        while (sent, received) != (200, 200) {
            let mut value = (sent < 200).then_some(sent);
            select! {
                send(sender, &mut value) -> result => {
                    result.unwrap();
                    sent += 1;
                }
                recv(receiver) -> value if received < 200 => {
                    assert_eq!(value, Ok(received));
                    received += 1;
                }
            }
        }
    }
    mixed(place, |here, there| {
        for bounds in [[0, 0], [0, 1]] {
            let ([ours, theirs], [from_us, from_them]) = two_channels(bounds);
            let there = there.start(move || exchange(&theirs, &from_us));
            here.start(move || exchange(&ours, &from_them)).join();
            there.join();
        }
    });
}

fn the_end_of_a_channel_is_an_event(place: Place) {
    mixed(place, |sending, receiving| {
        for bound in [0, 1, usize::MAX] {
            let (sender, receiver) = sync_channel::<i32>(bound);
            let (_other, silent) = channel::<i32>();
            let received = receiving.start(move || {
                select! {
                    recv(&receiver) -> value => value,
                    recv(&silent) => panic!("nothing was sent there"),
                }
            });
            sending.start(move || drop(sender)).join();
            assert_eq!(received.join(), Err(RecvError));
        }
        let (sender, receiver) = sync_channel(0);
        let sent = sending.start(move || {
            let mut value = Some(7);
            select! {
                send(&sender, &mut value) -> sent => sent,
                after(HANG) => panic!("the sender does not notice the end of the receiver"),
            }
        });
        receiving.start(move || drop(receiver)).join();
        assert_eq!(sent.join(), Err(SendError(7)));
    });
}

fn the_case_not_chosen_keeps_what_it_has(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(100);
        let (full, _unread) = sync_channel(0);
        (0..100).for_each(|n| sender.send(n).unwrap());
        let (numbers, rest) = (sync_channel(100), &receiver);
        (0..100).for_each(|n| numbers.0.send(n).unwrap());
        let (mut received, mut unsent) = ([0, 0], Some("unsent"));
        for _ in 0..200 {
            select! {
                recv(rest) -> value => {
                    assert_eq!(value, Ok(received[0]));
                    received[0] += 1;
                }
                recv(&numbers.1) -> value => {
                    assert_eq!(value, Ok(received[1]));
                    received[1] += 1;
                }
                send(&full, &mut unsent) => panic!("a message was sent, but there is no receiver"),
            }
            assert_eq!(unsent, Some("unsent"));
        }
        assert_eq!(received, [100, 100]);
    });
}

fn cases_may_be_chosen_again(place: Place) {
    mixed(place, |sending, receiving| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..5).map(sync_channel).unzip();
        let received = receiving.start(move || {
            let mut sum = 0;
            let mut cases: Vec<_> = receivers.iter().map(select::recv).collect();
            let mut ended = [false; 5];
            while ended.contains(&false) {
                let open = cases.iter_mut().enumerate();
                let open = open.filter(|(index, _)| !ended[*index]);
                let (names, mut choices): (Vec<_>, Vec<&mut dyn Select>) = open
                    .map(|(index, case)| (index, case as &mut dyn Select))
                    .unzip();
                let chosen = names[select::select(&mut choices)];
                match cases[chosen].take().unwrap() {
                    Ok(value) => sum += value,
                    Err(RecvError) => ended[chosen] = true,
                }
            }
            sum
        });
        let sent: Vec<_> = senders
            .into_iter()
            .map(|sender| sending.start(move || (1..=100).for_each(|n| sender.send(n).unwrap())))
            .collect();
        sent.into_iter().for_each(Running::join);
        assert_eq!(received.join(), 5 * 5050);
    });
}

fn every_value_is_dropped_once(place: Place) {
    mixed(place, |sending, receiving| {
        for bound in [0, 2] {
            let drops = Arc::new(AtomicUsize::new(0));
            let (sender, receiver) = sync_channel(bound);
            let senders: Vec<_> = (0..4)
                .map(|_| {
                    let (sender, drops) = (sender.clone(), Arc::clone(&drops));
                    sending.start(move || {
                        (0..25).for_each(|_| {
                            let mut value = Some(Counted(Arc::clone(&drops)));
                            select! {
                                send(&sender, &mut value) -> sent => drop(sent),
                                after(HANG) => panic!("the sender does not notice the end of the receiver"),
                            }
                            assert!(value.is_none());
                        });
                    })
                })
                .collect();
            let received = receiving.start(move || {
                for _ in 0..30 {
                    select! { recv(&receiver) -> value => drop(value.unwrap()) }
                }
            });
            received.join();
            senders.into_iter().for_each(Running::join);
            assert_eq!(drops.load(Ordering::Relaxed), 100);
        }
    });
}

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
            default(SHORT) => assert!(start.elapsed() >= SHORT),
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
            recv(&receiver) => panic!("a message was received, but none was sent"),
            after(SHORT) => assert!(start.elapsed() >= SHORT),
            default(HANG) => panic!("the latest one"),
        }
        let deadline = Instant::now() + SHORT;
        select! {
            recv(&receiver) => panic!("a message was received, but none was sent"),
            at(deadline) => assert!(Instant::now() >= deadline),
            after(Duration::MAX) => panic!("an age has passed"),
        }
        select! {
            at(start) => {}
            default => panic!("the deadline has passed, but the default was chosen"),
        }
    });
}

fn ticks_are_kept_for_the_next_selection(place: Place) {
    place.run(|| {
        let (sender, receiver) = channel();
        let start = Instant::now();
        let mut ticks = interval(SHORT);
        sleep(2 * SHORT);
        // Two are due: the later one is kept.
        let due = select! { tick(&mut ticks) -> due => due };
        assert!(due >= start + 2 * SHORT && due <= Instant::now());
        // One that never waits does not miss them.
        let (mut seen, mut sent) = (0, 0..1_000_000);
        while seen < 3 {
            let number = sent.next().expect("no tick among a million");
            sender.send(number).unwrap();
            select! {
                recv(&receiver) -> value => assert!(value.is_ok()),
                tick(&mut ticks) -> next => {
                    assert!(next > due);
                    seen += 1;
                }
            }
        }
        assert!(start.elapsed() >= 5 * SHORT);
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

fn a_selection_without_arms_that_take_part_panics(place: Place) {
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
