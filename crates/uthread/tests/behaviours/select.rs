//! `select!` over channels and times, with a fiber or a thread at either end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::HANG;
use crate::support::sides::{Counted, Running, mixed};
use uthread::sync::mpsc::{
    Receiver, RecvError, SendError, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use uthread::sync::select::{self, Select};
use uthread::{select, sleep};

behaviours![(
    EVERYWHERE,
    [
        values_of_all_channels_arrive_in_their_order,
        values_go_to_all_channels_in_their_order,
        two_choices_meet_at_a_rendezvous,
        a_choice_does_not_meet_itself,
        crossed_choices_lose_nothing,
        the_end_of_a_channel_is_an_event,
        the_case_not_chosen_keeps_what_it_has,
        all_that_have_come_get_their_turn,
        a_choice_leaves_nothing_behind,
        cases_may_be_chosen_again,
        every_value_is_dropped_once
    ]
)];

const SOON: Duration = Duration::from_millis(3);

type Ends<T> = ([SyncSender<T>; 2], [Receiver<T>; 2]);

fn two_channels<T: std::fmt::Debug>(bounds: [usize; 2]) -> Ends<T> {
    let (senders, receivers): (Vec<_>, Vec<_>) = bounds.into_iter().map(sync_channel).unzip();
    (senders.try_into().unwrap(), receivers.try_into().unwrap())
}

/// Receives from both until both have ended; how many of each, which are numbered.
fn receive_all(receivers: &[Receiver<usize>; 2]) -> [usize; 2] {
    let mut next = [0, 0];
    let mut open = [true, true];
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
    next
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
        assert!(!kept[to], "it was sent, and is still here");
        assert_eq!(
            kept[1 - to],
            next[1 - to] < count,
            "it was not sent, and is gone"
        );
        next[to] += 1;
    }
}

fn values_of_all_channels_arrive_in_their_order(place: Place) {
    mixed(place, |sending, receiving| {
        for bounds in [[0, 0], [0, 1], [3, usize::MAX]] {
            let (senders, receivers) = two_channels(bounds);
            let received = receiving.start(move || receive_all(&receivers));
            let sent = senders.map(|sender| {
                sending.start(move || (0..200).for_each(|n| sender.send(n).unwrap()))
            });
            sent.into_iter().for_each(Running::join);
            assert_eq!(received.join(), [200, 200]);
        }
    });
}

fn values_go_to_all_channels_in_their_order(place: Place) {
    mixed(place, |sending, receiving| {
        for bounds in [[0, 0], [0, 1], [3, usize::MAX]] {
            let (senders, receivers) = two_channels(bounds);
            let received = receivers
                .map(|receiver| receiving.start(move || receiver.iter().collect::<Vec<_>>()));
            sending.start(move || send_all(&senders, 200)).join();
            for received in received {
                assert_eq!(received.join(), (0..200).collect::<Vec<_>>());
            }
        }
    });
}

fn two_choices_meet_at_a_rendezvous(place: Place) {
    mixed(place, |sending, receiving| {
        for bounds in [[0, 0], [0, 2]] {
            let (senders, receivers) = two_channels(bounds);
            let received = receiving.start(move || receive_all(&receivers));
            sending.start(move || send_all(&senders, 200)).join();
            assert_eq!(received.join(), [200, 200]);
        }
    });
}

/// Nor does it look for itself without an end, and keep its worker from the fiber that it waits for.
fn a_choice_does_not_meet_itself(place: Place) {
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

/// Each side sends on the channel on which the other receives: at the same time both may find the other
/// about to leave.
fn crossed_choices_lose_nothing(place: Place) {
    fn exchange(sender: &SyncSender<usize>, receiver: &Receiver<usize>) {
        const COUNT: usize = 200;
        let (mut sent, mut received) = (0, 0);
        while (sent, received) != (COUNT, COUNT) {
            let mut value = (sent < COUNT).then_some(sent);
            select! {
                send(sender, &mut value) -> result => {
                    result.unwrap();
                    sent += 1;
                }
                recv(receiver) -> value if received < COUNT => {
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
                after(HANG) => panic!("it does not notice"),
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
                send(&full, &mut unsent) => panic!("nobody receives"),
            }
            assert_eq!(unsent, Some("unsent"));
        }
        assert_eq!(received, [100, 100]);
    });
}

fn all_that_have_come_get_their_turn(place: Place) {
    place.run(|| {
        const ROUNDS: usize = 1000;
        let channels: Vec<_> = (0..3).map(|_| channel()).collect();
        for (sender, _) in &channels {
            (0..ROUNDS).for_each(|n| sender.send(n).unwrap());
        }
        let mut counts = [0; 3];
        for _ in 0..ROUNDS {
            select! {
                recv(&channels[0].1) => counts[0] += 1,
                recv(&channels[1].1) => counts[1] += 1,
                recv(&channels[2].1) => counts[2] += 1,
            }
        }
        assert!(counts.iter().all(|&count| count > ROUNDS / 5), "{counts:?}");
    });
}

fn a_choice_leaves_nothing_behind(place: Place) {
    place.run(|| {
        let (sender, receiver) = sync_channel(0);
        select! {
            recv(&receiver) => panic!("nobody sends"),
            default(SOON) => {}
        }
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
        let mut value = Some(2);
        select! {
            send(&sender, &mut value) => panic!("nobody receives"),
            after(SOON) => {}
        }
        assert_eq!(value, Some(2));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        // Nor one that was chosen otherwise.
        let (other, others) = channel();
        let sent = {
            let sender = sender.clone();
            std::thread::spawn(move || {
                sleep(SOON);
                other.send(3).unwrap();
                sender
            })
        };
        select! {
            send(&sender, &mut value) => panic!("nobody receives"),
            recv(&others) -> value => assert_eq!(value, Ok(3)),
        }
        assert_eq!(value, Some(2));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        drop(sent.join().unwrap());
        drop(sender);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
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
                                after(HANG) => panic!("it waits for ever"),
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
