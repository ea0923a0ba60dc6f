//! What a seed decides.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::process::Command;
use std::time::{Duration, SystemTime};
use std::{env, thread};

use uthread::fs::{self, File};
use uthread::net::{TcpListener, TcpStream};
use uthread::sync::{Mutex, mpsc};
use uthread::{Driver, Runtime};
use uthread_simulation::World;

use crate::times::MS;

const FIBERS: u64 = 8;

/// Returns what fibers do in which order and when, by their numbers.
fn trace(seed: u64) -> Vec<(u64, Vec<u32>, Duration)> {
    let builder = uthread_simulation::seeded(Runtime::builder(), seed);
    let runtime = builder.build().unwrap();
    let trace = runtime.spawn(|| {
        let (sender, receiver) = mpsc::channel();
        for number in 0..FIBERS {
            let sender = sender.clone();
            let body = move || {
                for round in 0..4 {
                    let keys: HashMap<_, _> = (0..8_u32).map(|key| (key, ())).collect();
                    let time = SystemTime::UNIX_EPOCH.elapsed().unwrap();
                    let keys = keys.into_keys().collect::<Vec<_>>();
                    sender.send((number, keys, time)).unwrap();
                    match round {
                        0 => uthread::yield_now(),
                        1 => thread::sleep(Duration::from_secs(1)),
                        _ => thread::sleep(Duration::from_secs(number / 2)),
                    }
                }
            };
            match number % 2 {
                0 => drop(uthread::spawn(body)),
                _ => drop(thread::spawn(body)),
            }
        }
        drop(sender);
        receiver.into_iter().collect::<Vec<_>>()
    });
    trace.join().unwrap()
}

#[test]
fn a_seed_decides_everything_that_a_program_sees() {
    let traces: Vec<_> = (0..50).map(trace).collect();
    for (seed, first) in (0..).zip(&traces) {
        assert_eq!(*first, trace(seed), "seed {seed}");
    }
    let orders = traces.iter().map(|trace| {
        let numbers = trace.iter().map(|(number, ..)| *number);
        numbers.collect::<Vec<_>>()
    });
    assert_eq!(orders.collect::<HashSet<_>>().len(), traces.len());
    let (_, _, begin) = traces[0][0];
    assert_eq!(begin.as_secs(), 946_684_800);
}

/// Returns the order in which a server gets what clients send, on this driver.
fn arrivals(driver: Driver, seed: u64) -> Option<Vec<u8>> {
    let builder = uthread_simulation::seeded(Runtime::builder().driver(driver), seed);
    let runtime = builder.build().ok()?; // A container may refuse io_uring.
    let order = runtime.spawn(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let order = Mutex::new(Vec::new());
        uthread::scope(|scope| {
            for number in 0..FIBERS as u8 {
                scope.spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    for _ in 0..4 {
                        stream.write_all(&[number]).unwrap();
                        stream.read_exact(&mut [0]).unwrap();
                        uthread::sleep(Duration::from_millis(number.into()));
                    }
                });
            }
            for _ in 0..FIBERS {
                let (mut stream, _) = listener.accept().unwrap();
                let order = &order;
                scope.spawn(move || {
                    let mut byte = [0];
                    while stream.read(&mut byte).unwrap() > 0 {
                        order.lock().unwrap().push(byte[0]);
                        stream.write_all(&byte).unwrap();
                    }
                });
            }
        });
        order.into_inner().unwrap()
    });
    Some(order.join().unwrap())
}

#[test]
fn a_seed_decides_the_order_on_sockets() {
    for driver in [Driver::Uring, Driver::Epoll] {
        let orders: Vec<_> = (0..20).map(|seed| arrivals(driver, seed)).collect();
        for (seed, first) in (0..).zip(&orders) {
            assert_eq!(*first, arrivals(driver, seed), "{driver}, seed {seed}");
        }
        let all = orders.iter().flatten().collect::<HashSet<_>>();
        assert!(all.is_empty() || all.len() > orders.len() / 2);
    }
}

/// Returns the order in which fibers are done with files, on this driver.
fn file_order(driver: Driver, seed: u64) -> Option<Vec<u64>> {
    let builder = uthread_simulation::seeded(Runtime::builder().driver(driver), seed);
    let runtime = builder.build().ok()?; // A container may refuse io_uring.
    let order = runtime.spawn(|| {
        let directory = tempfile::tempdir().unwrap();
        let order = Mutex::new(Vec::new());
        uthread::scope(|scope| {
            for number in 0..FIBERS {
                let (order, path) = (&order, directory.path().join(number.to_string()));
                scope.spawn(move || {
                    for _ in 0..4 {
                        let mut file = File::create(&path).unwrap();
                        file.write_all(b"whole").unwrap();
                        file.sync_all().unwrap();
                        fs::rename(&path, path.with_extension("old")).unwrap();
                        order.lock().unwrap().push(number);
                    }
                });
            }
        });
        order.into_inner().unwrap()
    });
    Some(order.join().unwrap())
}

#[test]
fn a_seed_decides_the_order_on_files() {
    for driver in [Driver::Uring, Driver::Epoll] {
        let orders: Vec<_> = (0..10).map(|seed| file_order(driver, seed)).collect();
        for (seed, first) in (0..).zip(&orders) {
            assert_eq!(*first, file_order(driver, seed), "{driver}, seed {seed}");
        }
        let all = orders.iter().flatten().collect::<HashSet<_>>();
        assert!(all.is_empty() || all.len() > orders.len() / 2);
    }
}

/// Counts to two, with a race.
fn count() -> u32 {
    let total = Mutex::new(0);
    let add = || {
        let before = *total.lock().unwrap();
        *total.lock().unwrap() = before + 1;
    };
    uthread::join(add, add);
    total.into_inner().unwrap()
}

#[test]
fn a_race_is_found_by_some_seeds_and_not_by_others() {
    let results = |seed| {
        let builder = uthread_simulation::seeded(Runtime::builder(), seed);
        builder.build().unwrap().run(count)
    };
    let lost = (0..100).filter(|seed| results(*seed) == 1).count();
    assert!((1..100).contains(&lost), "{lost} of 100");
}

#[uthread::test(virtual_time, seeds = 100)]
#[ignore = "fails on purpose, as a part of another test"]
fn race() {
    assert_eq!(count(), 2);
}

/// Runs the test above with a variable. Returns whether it has passed, and its output.
fn run_race(variable: &str, value: &str) -> (bool, String) {
    run("seeds::race", &[(variable, value)])
}

/// Runs a test that fails on purpose with these variables. Returns whether it has passed, and its output.
pub(crate) fn run(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test]);
    for variable in [
        "SEED",
        "SEEDS",
        "FAULTS",
        "SHRINK",
        "TIMELINE",
        "TIMELINE_EVENTS",
    ] {
        command.env_remove(format!("UTHREAD_{variable}"));
    }
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn a_run_that_fails_can_be_repeated() {
    let (passed, output) = run_race("UTHREAD_SEEDS", "100");
    assert!(!passed);
    let hint = "uthread: seed ";
    let seed = output
        .split(hint)
        .nth(1)
        .and_then(|rest| rest.split(' ').next());
    let seed = seed.unwrap_or_else(|| panic!("no seed in: {output}"));
    let command =
        format!("{hint}{seed} fails: UTHREAD_SEED={seed} cargo test -- --exact seeds::race");
    assert!(output.contains(&command), "{output}");
    assert!(!run_race("UTHREAD_SEED", seed).0);
    let earlier = run_race("UTHREAD_SEEDS", seed);
    assert!(earlier.0, "{}", earlier.1);
    let (passed, output) = run_race("UTHREAD_SEED", "x");
    assert!(
        !passed && output.contains("UTHREAD_SEED=x: give a number"),
        "{output}"
    );
    // Otherwise the test would pass, as it would not run.
    let (passed, output) = run_race("UTHREAD_SEEDS", "0");
    assert!(
        !passed && output.contains("no seeds: choose at least 1"),
        "{output}"
    );
}

#[uthread::test(virtual_time, seeds = 100)]
#[ignore = "ends its process, as a part of another test"]
fn aborts() {
    if count() != 2 {
        std::process::abort();
    }
}

#[test]
fn a_run_that_ends_its_process_is_found() {
    let (passed, output) = run("seeds::aborts", &[("UTHREAD_SEEDS", "100")]);
    let command = " cargo test -- --exact seeds::aborts";
    assert!(!passed && output.contains(command), "{output}");
}

/// A client of two servers, one of which is crashed, and the other cut off: the sixth and the ninth of its
/// faults. The others do no harm.
#[uthread::test(virtual_time, seeds = 2)]
#[ignore = "fails on purpose, as a part of another test"]
fn nobody_answers() {
    let world = World::new().unwrap();
    world.links().set_latency(MS..MS);
    let serve = || {
        let listener = TcpListener::bind("0.0.0.0:7000")?;
        listener.incoming().try_for_each(|stream| stream.map(drop))
    };
    world.host("first", serve);
    let second = world.host("second", serve);
    let client = world.host("client", || {
        uthread::sleep(Duration::from_secs(60));
        ["first", "second"]
            .iter()
            .map(|server| TcpStream::connect((*server, 7000)).map(drop))
            .reduce(io::Result::or)
            .unwrap()
    });
    let harmless = || world.link("first", "second").cut();
    (0..5).for_each(|_| harmless());
    second.crash();
    (0..2).for_each(|_| harmless());
    world.link("client", "first").cut();
    (0..7).for_each(|_| harmless());
    client.wait().unwrap();
}

#[test]
fn faults_that_do_no_harm_are_left_out() {
    let test = "seeds::nobody_answers";
    let run = |variables: &[_]| run(test, variables);
    let (passed, output) = run(&[("UTHREAD_SHRINK", "1")]);
    let left =
        format!("seed 0 fails: UTHREAD_SEED=0 UTHREAD_FAULTS=6,9 cargo test -- --exact {test}");
    assert!(!passed && output.contains(&left), "{output}");
    assert!(output.contains("2 of 16 faults are left"), "{output}");
    assert!(output.contains("second: crashes (fault 6)"), "{output}");
    assert!(!run(&[("UTHREAD_SEED", "0"), ("UTHREAD_FAULTS", "6,9")]).0);
    for others in ["", "1-8,10-99", "9"] {
        let (passed, output) = run(&[("UTHREAD_FAULTS", others)]);
        assert!(passed, "{others}: {output}");
    }
    let (passed, output) = run(&[("UTHREAD_FAULTS", "x")]);
    assert!(
        !passed && output.contains("UTHREAD_FAULTS=x: give numbers"),
        "{output}"
    );
}
