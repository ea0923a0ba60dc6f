//! What the workers of a process do, recorded from outside.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::collections::{HashMap, HashSet};
use std::env;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use uthread::net::{TcpListener, TcpStream};
use uthread::root::{EventKind, Leave};
use uthread::sync::mpsc;
use uthread::thread::Builder;
use uthread::{Driver, Runtime};
use uthread_dump::{Event, Trace};

/// Selects the driver and the kind of fibers of the child, which is this test itself.
const CHILD: &str = "UTHREAD_TRACE_CHILD";

/// Number of fibers that yield, and how often each does.
const FIBERS: usize = 50;
const YIELDS: usize = 20;

/// The child. Ended when it is dropped.
struct Works(Child);

impl Drop for Works {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Works {
    fn start(kind: &str) -> Works {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "works_when_told", "--nocapture"])
            .env(CHILD, kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "ready"));
        Works(child)
    }

    /// Records while the child does its work once.
    fn trace(&mut self) -> Trace {
        let pid = self.0.id() as i32;
        let trace = thread::spawn(move || uthread_dump::trace(pid, Duration::from_millis(1300)));
        // It begins when the monitor looks, which waits for a CPU beside other load.
        thread::sleep(Duration::from_millis(500));
        self.0.stdin.as_mut().unwrap().write_all(b"!").unwrap();
        trace.join().unwrap().unwrap()
    }
}

/// The child: does the same work each time that it reads a byte.
#[test]
fn works_when_told() {
    let Ok(kind) = env::var(CHILD) else { return };
    let builder = Runtime::builder().workers(2);
    let builder = match &*kind {
        "epoll" => builder.driver(Driver::Epoll),
        "lean" => builder.lean(),
        _ => builder,
    };
    let runtime = builder.build().unwrap();
    // So that a trace begins at once.
    drop(runtime.spawn(|| {
        loop {
            uthread::sleep(Duration::from_millis(1));
        }
    }));
    println!("ready");
    while std::io::stdin().read_exact(&mut [0]).is_ok() {
        runtime.run(|| work(kind != "lean"));
    }
}

fn named<T: Send + 'static>(
    name: &str,
    call: impl FnOnce() -> T + Send + 'static,
) -> uthread::thread::JoinHandle<T> {
    Builder::new().name(name.to_owned()).spawn(call).unwrap()
}

fn work(blocks: bool) {
    let yields = || (0..YIELDS).for_each(|_| uthread::yield_now());
    let yielders: Vec<_> = (0..FIBERS).map(|_| uthread::spawn(yields)).collect();
    yielders
        .into_iter()
        .for_each(|yielder| yielder.join().unwrap());

    let (sender, messages) = mpsc::channel();
    let receiver = named("receiver", move || messages.into_iter().sum::<u32>());
    for number in 0..5 {
        sender.send(number).unwrap();
        uthread::sleep(Duration::from_millis(1));
    }
    drop(sender);
    assert_eq!(receiver.join().unwrap(), 10);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = named("client", move || {
        uthread::sleep(Duration::from_millis(2));
        TcpStream::connect(address).unwrap().write_all(b"hello")
    });
    let mut text = String::new();
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut text)
        .unwrap();
    client.join().unwrap().unwrap();
    if blocks {
        let blocks = || thread::sleep(Duration::from_millis(30));
        // More than workers, so that some wait for a worker that is blocked.
        let all: Vec<_> = (0..4).map(|_| named("blocks", blocks)).collect();
        all.into_iter().for_each(|one| one.join().unwrap());
    }
}

fn all(trace: &Trace) -> impl Iterator<Item = &Event> {
    trace.workers.iter().flat_map(|worker| &worker.events)
}

fn count(trace: &Trace, is_it: impl Fn(&Event) -> bool) -> usize {
    all(trace).filter(|event| is_it(event)).count()
}

/// Returns the place of the fibers that yield.
fn yielders(trace: &Trace) -> u64 {
    let yielded = all(trace).find(|event| event.leave == Some(Leave::Yield));
    yielded.expect("a fiber that yields").place
}

fn assert_work_is_recorded(kind: &str) {
    let mut works = Works::start(kind);
    // The second time, room for events is there.
    for _ in 0..2 {
        let trace = works.trace();
        assert_eq!((trace.workers.len(), trace.lost()), (2, 0));
        assert_times_are_in_order(&trace);

        let place = yielders(&trace);
        assert!(
            trace.places[&place].contains("tests/trace.rs:"),
            "{:?}",
            trace.places
        );
        let leaves = |leave| {
            count(&trace, |event| {
                event.place == place && event.leave == Some(leave)
            })
        };
        assert_eq!(leaves(Leave::Yield), FIBERS * YIELDS, "{kind}");
        assert_eq!(leaves(Leave::End), FIBERS, "{kind}");
        let ids: HashSet<_> = all(&trace)
            .filter(|event| event.place == place)
            .map(|event| event.fiber)
            .collect();
        assert_eq!(ids.len(), FIBERS, "{kind}");
        let spawned = |event: &Event| event.kind == EventKind::Spawn && ids.contains(&event.fiber);
        assert_eq!(count(&trace, spawned), FIBERS, "{kind}");
        let parents: HashSet<_> = all(&trace)
            .filter(|event| spawned(event))
            .map(|event| event.other)
            .collect();
        assert_eq!(parents.len(), 1, "{kind}");
        assert!(!parents.contains(&0), "{kind}");

        for leave in [Leave::Park, Leave::Operation] {
            assert!(
                count(&trace, |event| event.leave == Some(leave)) > 0,
                "{kind}: {leave:?}"
            );
        }
        let woken = |event: &Event| match event.kind {
            EventKind::Ready | EventKind::Wake => event.other != 0,
            _ => false,
        };
        // Those of the channel, and joins.
        assert!(count(&trace, woken) >= 6, "{kind}");
        let is = |kind| move |event: &Event| event.kind == kind;
        assert!(count(&trace, is(EventKind::Sleep)) > 100, "{kind}");
        let expected = usize::from(kind != "lean");
        assert!(count(&trace, is(EventKind::Detach)) >= expected, "{kind}");
        assert!(count(&trace, is(EventKind::Return)) >= expected, "{kind}");
        assert_json_is_well_formed(&trace, kind);
    }
}

/// A worker does one thing at a time, but that it may submit while a fiber runs.
fn assert_times_are_in_order(trace: &Trace) {
    for worker in &trace.workers {
        let mut end = trace.begin_ns;
        for event in &worker.events {
            assert!(event.end_ns <= trace.end_ns + 1_000_000_000, "{event:?}");
            if matches!(
                event.kind,
                EventKind::Run | EventKind::Detach | EventKind::Sleep
            ) {
                assert!(event.begin_ns >= end, "{event:?} before {end}");
                end = event.end_ns;
            }
        }
    }
}

/// Checks what viewers rely on, by the description of the Trace Event Format.
fn assert_json_is_well_formed(trace: &Trace, kind: &str) {
    let mut json = Vec::new();
    trace.write_json(&mut json, true).unwrap();
    let json: Value = serde_json::from_slice(&json).unwrap();
    let events = json["traceEvents"].as_array().unwrap();
    let mut tracks: HashMap<(i64, i64), Vec<(f64, f64)>> = HashMap::new();
    let mut arrows: HashMap<u64, Vec<&str>> = HashMap::new();
    let mut names = HashSet::new();
    for event in events {
        let phase = event["ph"].as_str().unwrap();
        let track = || {
            (
                event["pid"].as_i64().unwrap(),
                event["tid"].as_i64().unwrap(),
            )
        };
        let name = event["name"].as_str().unwrap();
        names.insert(name);
        match phase {
            "M" => drop(names.insert(event["args"]["name"].as_str().unwrap())),
            "X" => {
                let (begin, time) = (
                    event["ts"].as_f64().unwrap(),
                    event["dur"].as_f64().unwrap(),
                );
                assert!(begin >= 0.0 && time >= 0.0, "{event}");
                tracks
                    .entry(track())
                    .or_default()
                    .push((begin, begin + time));
            }
            "i" => assert!(
                event["ts"].as_f64().unwrap() >= 0.0 && track().1 >= 0,
                "{event}"
            ),
            "s" | "f" => {
                track();
                arrows
                    .entry(event["id"].as_u64().unwrap())
                    .or_default()
                    .push(phase);
            }
            _ => panic!("{event}"),
        }
    }
    assert!(arrows.len() >= FIBERS, "{}", arrows.len());
    assert!(arrows.values().all(|ends| *ends == ["s", "f"]));
    tracks.into_values().for_each(assert_slices_nest);
    for name in [
        "worker 0",
        "worker 1",
        "run",
        "ready",
        "parked",
        "operation",
        "sleep",
        "wake",
        "spawn",
    ] {
        assert!(names.contains(name), "{kind}: {name}");
    }
}

/// Checks that the slices of a track contain each other or do not meet, but for the rounding of a
/// nanosecond.
fn assert_slices_nest(mut slices: Vec<(f64, f64)>) {
    slices.sort_unstable_by(|one, next| one.0.total_cmp(&next.0).then(next.1.total_cmp(&one.1)));
    let mut open: Vec<f64> = Vec::new();
    for (begin, end) in slices {
        while open.last().is_some_and(|outer| *outer <= begin + 0.001) {
            open.pop();
        }
        assert!(
            open.last().is_none_or(|outer| end <= outer + 0.001),
            "{begin} {end} {open:?}"
        );
        open.push(end);
    }
}

#[test]
fn the_work_of_rings_is_recorded() {
    assert_work_is_recorded("uring");
}

#[test]
fn the_work_of_epoll_is_recorded() {
    assert_work_is_recorded("epoll");
}

#[test]
fn the_work_of_lean_fibers_is_recorded() {
    assert_work_is_recorded("lean");
}

/// After a trace, workers do not record any more, and are as fast as before.
#[test]
fn a_trace_ends() {
    let mut works = Works::start("uring");
    works.trace();
    thread::sleep(Duration::from_millis(200));
    let trace = uthread_dump::trace(works.0.id() as i32, Duration::ZERO).unwrap();
    assert_eq!((trace.events(), trace.lost()), (0, 0));
}

#[test]
fn a_process_that_ends_leaves_what_was_recorded() {
    let mut works = Works::start("uring");
    let pid = works.0.id() as i32;
    let trace = thread::spawn(move || uthread_dump::trace(pid, Duration::from_secs(60)));
    thread::sleep(Duration::from_millis(300));
    let ended = Instant::now();
    works.0.kill().unwrap();
    works.0.wait().unwrap();
    let trace = trace.join().unwrap().unwrap();
    assert!(ended.elapsed() < Duration::from_secs(20));
    assert!(trace.events() > 50, "{}", trace.events());
}

#[test]
fn what_cannot_be_traced_is_an_error() {
    let error = uthread_dump::trace(i32::MAX, Duration::ZERO).unwrap_err();
    assert!(
        format!("{error:#}").contains("/proc/2147483647/"),
        "{error:#}"
    );
}

/// A tool that attaches to a probe raises its semaphore, which makes the workers come by.
#[test]
fn gdb_stops_at_a_probe() {
    let works = Works::start("uring");
    let pid = works.0.id().to_string();
    let mut gdb = Command::new("timeout");
    gdb.args(["60", "gdb", "-nx", "-batch", "-p", &pid]);
    for command in [
        "info probes stap uthread",
        "break -probe-stap uthread:run",
        "continue",
        "printf \"fiber %lu ran for %ld ns and left: %lu\\n\", $_probe_arg0, $_probe_arg3 - $_probe_arg2, $_probe_arg4",
    ] {
        gdb.args(["-ex", command]);
    }
    let output = gdb.output().expect("this test needs gdb");
    let printed = String::from_utf8_lossy(&output.stdout);
    let probes = printed.lines().filter(|line| line.starts_with("stap "));
    let names = probes.filter_map(|line| line.split_whitespace().nth(2));
    let names: HashSet<_> = names.collect();
    let expected = [
        "run", "ready", "wake", "spawn", "sleep", "submit", "steal", "move", "detach", "return",
    ];
    assert_eq!(names, HashSet::from(expected), "{printed}");
    let line = printed.lines().find(|line| line.starts_with("fiber "));
    let line = line.unwrap_or_else(|| panic!("{printed}"));
    let numbers = line.split(' ').filter_map(|word| word.parse().ok());
    let numbers: Vec<i64> = numbers.collect();
    let &[fiber, ns, leave] = &*numbers else {
        panic!("{line}")
    };
    assert!(fiber > 0 && (0..1_000_000_000).contains(&ns), "{line}");
    assert!(Leave::from_byte(leave as u8).is_some(), "{line}");
}
