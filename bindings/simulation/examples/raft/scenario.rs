//! What happens to a cluster under a seed: clients, and faults at random times.

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use uthread::{Runtime, thread, time};
use uthread_simulation::{Host, World};

use crate::bug::Bug;
use crate::client::Client;
use crate::history::History;
use crate::node::{self, Config};
use crate::random::{random, random_ms};
use crate::store::Operation;
use crate::witness::Witness;

pub(crate) const NODES: [&str; 3] = ["a", "b", "c"];

pub(crate) const CLIENTS: usize = 3;

/// Number of operations of each client: they take about as long as the faults.
const OPERATIONS: u64 = 40;

pub(crate) const FAULTS: u64 = 15;

/// After this time, clients have their answers, as the faults are over long before.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(60);

/// A file for a picture, and the number of events in it.
pub(crate) type Drawing = (PathBuf, usize);

/// Runs a cluster under a seed. Fails with what was wrong, after it has drawn that.
pub(crate) fn run(seed: u64, bug: Option<Bug>, drawing: Option<Drawing>) -> Result<(), String> {
    let runtime = uthread_simulation::seeded(Runtime::builder(), seed).build();
    runtime.expect("a runtime").run(move || play(bug, drawing))
}

/// Runs a cluster in the runtime of the calling fiber, like [`run`].
pub(crate) fn play(bug: Option<Bug>, drawing: Option<Drawing>) -> Result<(), String> {
    let world = World::new().expect("a world");
    let result = play_in(&world, bug);
    if let (Err(_), Some((file, events))) = (&result, drawing) {
        let drawn = world.write_timeline(file, events);
        drawn.expect("the file can be written");
    }
    result
}

fn play_in(world: &World, bug: Option<Bug>) -> Result<(), String> {
    set_latency_ms(world, 1..5);
    let (history, witness) = (Arc::default(), Arc::default());
    let nodes = NODES.map(|name| start_node(world, name, bug, &witness));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| start_client(world, number, &history))
        .collect();
    play_faults(world, &nodes);
    let end = || clients.iter().try_for_each(Host::wait);
    let end = time::try_timeout(TIME_MAX, end);
    judge(&witness, &history, end)
}

/// Fails with what was wrong in a run whose clients have ended like this.
pub(crate) fn judge(
    witness: &Witness,
    history: &History,
    end: io::Result<()>,
) -> Result<(), String> {
    if let Some(violation) = witness.violation() {
        return Err(violation);
    }
    end.map_err(|error| format!("clients have no answers: {error}"))?;
    match history.violation() {
        None => Ok(()),
        Some(key) => Err(format!("not linearizable: {key}")),
    }
}

fn address(node: &str) -> String {
    format!("{node}:7000")
}

fn start_node(world: &World, name: &str, bug: Option<Bug>, witness: &Arc<Witness>) -> Host {
    let peers = NODES.iter().filter(|peer| **peer != name);
    let config = Config {
        name: name.to_owned(),
        listen: "0.0.0.0:7000".to_owned(),
        peers: peers.map(|peer| address(peer)).collect(),
        directory: world.directory(name).expect("a directory"),
        bug,
        witness: Arc::clone(witness),
    };
    world.host(name, move || node::run(&config))
}

fn start_client(world: &World, number: usize, history: &Arc<History>) -> Host {
    let history = Arc::clone(history);
    world.host(&format!("client {number}"), move || {
        use_store(number, NODES.map(address).into(), &history);
        io::Result::Ok(())
    })
}

/// Executes operations as a client of the nodes at these addresses.
pub(crate) fn use_store(number: usize, nodes: Vec<String>, history: &History) {
    let mut client = Client::new(number, nodes);
    let mut last = None;
    for count in 0..OPERATIONS {
        let key = ["x", "y"][random(0..2) as usize];
        let value = format!("{number}.{count}");
        let operation = match random(0..3) {
            0 => Operation::Get,
            1 => Operation::Put(value.clone()),
            _ => Operation::CompareAndSet {
                expected: last,
                value: value.clone(),
            },
        };
        history.execute(number, &mut client, key, operation);
        thread::sleep(random_ms(0..200));
        last = Some(value);
    }
}

/// Does harm at random times, often several times within an election, and repairs everything at last.
fn play_faults(world: &World, nodes: &[Host; 3]) {
    for _ in 0..FAULTS {
        pause();
        let one = random(0..3) as usize;
        let [name, next, other] = [0, 1, 2].map(|more| NODES[(one + more) % 3]);
        match random(0..9) {
            0 => world.link(name, next).cut(),
            1 => world.between(&[name], &[next]).cut(),
            2 => world.between(&[name], &[next, other]).cut(),
            3 => world.links().reset(),
            4 => world.links().set_loss(0.2),
            5 => set_latency_ms(world, 1..50),
            6 => nodes[one].crash(),
            7 => fail_repeatedly(&nodes[one]),
            _ => repair(world, nodes),
        }
    }
    pause();
    repair(world, nodes);
}

pub(crate) fn pause() {
    thread::sleep(match random(0..2) {
        0 => random_ms(0..100),
        _ => random_ms(100..800),
    });
}

/// Lets a node fail several times, as it loses its power or as its disk fails.
fn fail_repeatedly(node: &Host) {
    for _ in 0..random(1..8) {
        match random(0..4) {
            0 => node.set_disk_fails(true),
            _ => node.crash(),
        }
        thread::sleep(random_ms(0..50));
        node.set_disk_fails(false);
        node.restart();
        thread::sleep(random_ms(0..150));
    }
}

fn repair(world: &World, nodes: &[Host; 3]) {
    world.links().heal();
    world.links().set_loss(0.0);
    set_latency_ms(world, 1..5);
    let down = nodes.iter().filter(|node| !node.is_up());
    down.for_each(Host::restart);
}

fn set_latency_ms(world: &World, Range { start, end }: Range<u64>) {
    let latency = Duration::from_millis(start)..Duration::from_millis(end);
    world.links().set_latency(latency);
}
