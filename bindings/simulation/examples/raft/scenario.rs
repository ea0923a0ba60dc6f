//! What happens to a cluster under a seed: clients, and faults at random times.

use std::sync::Arc;
use std::time::Duration;

use uthread::{Runtime, thread, time};

use crate::bug::Bug;
use crate::client::Client;
use crate::history::History;
use crate::random::{random, random_ms};
use crate::store::Operation;
use crate::witness::Witness;
use crate::world::World;

const NODES: usize = 3;
const CLIENTS: usize = 3;

/// Number of operations of each client: they take about as long as the faults.
const OPERATIONS: u64 = 40;

const FAULTS: u64 = 10;

/// After this time, clients have their answers, as the faults are over long before.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Runs a cluster under a seed. Fails with what was wrong.
pub(crate) fn run(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let runtime = uthread_simulation::seeded(Runtime::builder(), seed).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.run(|| play(bug))
}

/// Runs a cluster in the world of the calling fiber.
pub(crate) fn play(bug: Option<Bug>) -> Result<(), String> {
    let (history, witness) = (History::default(), Arc::default());
    let world = World::new(NODES, bug, Arc::clone(&witness));
    let play = || {
        thread::scope(|scope| {
            scope.spawn(|| play_faults(&world));
            for number in 0..CLIENTS {
                let client = Client::new(number, world.addresses());
                let history = &history;
                scope.spawn(move || use_store(number, client, history));
            }
        });
    };
    let end = time::timeout(TIME_MAX, play);
    if let Some(violation) = Witness::violation(&witness) {
        return Err(violation);
    }
    end.map_err(|_| "clients have no answers".to_owned())?;
    let keys = history.violations();
    if keys.is_empty() {
        return Ok(());
    }
    Err(format!("not linearizable: {keys:?}"))
}

fn use_store(number: usize, mut client: Client, history: &History) {
    let mut seen = None;
    for count in 0..OPERATIONS {
        let key = ["x", "y"][random(0..2) as usize];
        let value = format!("{number}.{count}");
        let operation = match random(0..3) {
            0 => Operation::Get,
            1 => Operation::Put(value.clone()),
            _ => Operation::CompareAndSet {
                expected: seen.clone(),
                value: value.clone(),
            },
        };
        history.execute(number, &mut client, key, operation);
        thread::sleep(random_ms(0..200));
        seen = Some(value);
    }
}

/// Does harm at random times, often several times within an election, and repairs everything at last.
fn play_faults(world: &World) {
    world.set_latency(Duration::from_millis(1)..Duration::from_millis(5));
    for _ in 0..FAULTS {
        thread::sleep(match random(0..2) {
            0 => random_ms(0..100),
            _ => random_ms(100..800),
        });
        let one = random(0..NODES as u64) as usize;
        let other = (one + random(1..NODES as u64) as usize) % NODES;
        match random(0..7) {
            0 => world.cut(one, other),
            6 => {
                world.cut(one, other);
                world.cut(other, one);
            }
            1 => (0..NODES).filter(|node| *node != one).for_each(|other| {
                world.cut(one, other);
                world.cut(other, one);
            }),
            2 => world.reset(),
            3 => world.crash(one),
            4 => {
                for _ in 0..random(1..5) {
                    world.crash(one);
                    thread::sleep(random_ms(0..100));
                    world.restart(one);
                    thread::sleep(random_ms(0..200));
                }
            }
            _ => {
                world.heal();
                (0..NODES).for_each(|node| world.restart(node));
            }
        }
    }
    thread::sleep(random_ms(100..800));
    world.heal();
    (0..NODES).for_each(|node| world.restart(node));
}
