//! Properties of selections that hold under every seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::programs::{Choices, dawdle};
use super::{Simulation, under_seeds};
use crate::sync::mpsc::{Receiver, SyncSender, sync_channel};
use crate::thread::{self, spawn};

const FIBERS: usize = 4;
const VALUES: usize = 6;

/// The sender, the index among its values, and a witness that detects loss and duplication.
type Value = (usize, usize, Arc<()>);

/// A fiber that sends to the others, and receives from them at the same time.
struct Member {
    name: usize,
    others: Vec<SyncSender<Value>>,
    own: Receiver<Value>,
    witness: Arc<()>,
    /// Number of values that all have received.
    received: Arc<AtomicUsize>,
}

fn members(bound: usize) -> (Vec<Member>, Arc<()>) {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..FIBERS).map(|_| sync_channel(bound)).unzip();
    let (witness, received) = (Arc::new(()), Arc::default());
    let member = |(name, own)| Member {
        name,
        others: senders.clone(),
        own,
        witness: Arc::clone(&witness),
        received: Arc::clone(&received),
    };
    let members = receivers.into_iter().enumerate().map(member).collect();
    (members, witness)
}

impl Member {
    /// Sends its values, each to whichever of two takes it first, and goes on until all are
    /// received.
    fn run(self, mut choices: Choices) {
        let mut last_from = [None; FIBERS];
        let mut sent = 0;
        while self.received.load(Ordering::Relaxed) < FIBERS * VALUES {
            let value = || (self.name, sent, Arc::clone(&self.witness));
            let [mut one, mut two] = [0, 1].map(|_| (sent < VALUES).then(value));
            let [to_one, to_two] = [0, 1].map(|_| choices.below(FIBERS as u64) as usize);
            let pause = Duration::from_micros(choices.below(500));
            crate::select! {
                send(&self.others[to_one], &mut one) -> result => {
                    assert!(result.is_ok() && one.is_none() && two.is_some());
                    sent += 1;
                }
                send(&self.others[to_two], &mut two) -> result => {
                    assert!(result.is_ok() && two.is_none() && one.is_some());
                    sent += 1;
                }
                recv(&self.own) -> value => {
                    let (from, number, _) = value.expect("the fiber has a sender itself");
                    assert!(last_from[from] < Some(number), "of {from}: not in order, or twice");
                    last_from[from] = Some(number);
                    self.received.fetch_add(1, Ordering::Relaxed);
                }
                after(pause) => {}
            }
            dawdle(&mut choices);
        }
    }
}

#[test]
fn choices_lose_nothing_and_keep_each_senders_order() {
    under_seeds(|seed| {
        for bound in [0, 1, 3] {
            let witness = Simulation::new(seed, 3).run(move || {
                let (members, witness) = members(bound);
                let fibers: Vec<_> = members
                    .into_iter()
                    .map(|member| {
                        let choices = Choices(seed * 17 + member.name as u64);
                        spawn(move || member.run(choices))
                    })
                    .collect();
                fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
                witness
            });
            assert_eq!(Arc::strong_count(&witness), 1);
        }
    });
}

#[test]
fn choices_may_end_at_any_moment() {
    under_seeds(|seed| {
        for bound in [0, 1] {
            let mut simulation = Simulation::new(seed, 3);
            let (members, witness) = members(bound);
            let fibers: Vec<_> = members
                .into_iter()
                .map(|member| {
                    let choices = Choices(seed * 19 + member.name as u64);
                    simulation.spawn(move || member.run(choices))
                })
                .collect();
            simulation.step_some(100);
            simulation.shut_down();
            assert!(fibers.iter().all(thread::JoinHandle::is_finished));
            drop(simulation);
            drop(fibers);
            assert_eq!(Arc::strong_count(&witness), 1);
        }
    });
}
