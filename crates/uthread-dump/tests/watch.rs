//! Processes whose workers and fibers are counted from outside, while they run.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::env;
use std::io::{BufRead as _, BufReader, Lines, Write as _, stdin};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use uthread::net::TcpListener;
use uthread::runtime::Builder;
use uthread::{Driver, Runtime};
use uthread_dump::{Sample, Site, States, Watch};

/// Selects what the child does, which is this test itself.
const CHILD: &str = "UTHREAD_WATCH_CHILD";

/// Time limit of a condition, which only a hang exceeds.
const HANG: Duration = Duration::from_secs(30);

/// Numbers of fibers that wait.
const PARKED: usize = 5;
const ACCEPTING: usize = 3;
/// Number of fibers that yield.
const YIELDING: usize = 2;

/// A child. Killed when it is dropped.
struct Watched {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Watched {
    /// Starts a child of this kind. Returns it once it is ready.
    fn start(kind: &str) -> Watched {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "works", "--nocapture"])
            .env(CHILD, kind)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut watched = Watched { child, lines };
        watched.line("ready");
        watched
    }

    /// Returns the rest of the next line that begins so.
    fn line(&mut self, start: &str) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        let line = lines.find_map(|line| Some(line.strip_prefix(start)?.to_owned()));
        line.expect("the child has ended")
    }

    fn watch(&self) -> Watch {
        Watch::open(self.child.id() as i32).unwrap()
    }

    /// Returns the numbers of each worker by the child itself.
    fn metrics(&mut self) -> Vec<u64> {
        let mut stdin = self.child.stdin.as_ref().unwrap();
        stdin.write_all(b"metrics\n").unwrap();
        let line = self.line("metrics ");
        let numbers = line.split(' ').map(|number| number.parse().unwrap());
        numbers.collect()
    }
}

/// Watches for some time.
fn sample(watch: &mut Watch) -> Sample {
    for _ in 0..20 {
        watch.look().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    watch.sample().unwrap()
}

/// Watches until a sample is as wanted, or returns the last one when that takes too long.
fn sample_until(watch: &mut Watch, is_wanted: impl Fn(&Sample) -> bool) -> Sample {
    let deadline = Instant::now() + HANG;
    loop {
        let sample = sample(watch);
        if is_wanted(&sample) || Instant::now() >= deadline {
            return sample;
        }
    }
}

/// Returns the places that have fibers in a state.
fn sites_with(sample: &Sample, number: impl Fn(&States) -> usize) -> Vec<&Site> {
    let sites = sample.sites.iter();
    sites.filter(|site| number(&site.fibers) > 0).collect()
}

/// Returns the number of switches per second.
fn switches(sample: &Sample) -> f64 {
    let workers = sample.workers.iter();
    workers.map(|worker| worker.per_second.switches).sum()
}

/// The first fiber and the others, spread over their states and places.
fn states_are_counted(kind: &str) {
    let watched = Watched::start(kind);
    let mut watch = watched.watch();
    let all = 1 + PARKED + ACCEPTING + YIELDING;
    let waits = |sample: &Sample| {
        let States {
            parked, operation, ..
        } = sample.fibers;
        // One that has not been started yet is in no list.
        let is_whole = sample.fibers.sum() == all && sample.dropped == 0;
        let has_run = sites_with(sample, |states| states.running + states.ready);
        let has_run = has_run.iter().all(|site| site.busy > 0.0) && switches(sample) > 1000.0;
        (parked, operation) == (PARKED + 1, ACCEPTING) && is_whole && has_run
    };
    let sample = sample_until(&mut watch, waits);
    assert!(waits(&sample), "{sample:#?}");
    assert_eq!(sample.workers.len(), 2);
    assert_eq!(sample.problems, [""; 0]);
    let by_worker: usize = sample.workers.iter().map(|at| at.fibers.sum()).sum();
    assert_eq!(by_worker, all, "{sample:#?}");

    let accepting = sites_with(&sample, |states| states.operation);
    assert_eq!(accepting.len(), 1, "{sample:#?}");
    assert_eq!(accepting[0].fibers.operation, ACCEPTING);
    let mut parked = sites_with(&sample, |states| states.parked);
    parked.sort_by_key(|site| site.fibers.parked);
    let numbers: Vec<_> = parked.iter().map(|site| site.fibers.parked).collect();
    assert_eq!(numbers, [1, PARKED], "{sample:#?}");
    for site in &sample.sites {
        assert!(site.spawned_at.contains("tests/watch.rs:"), "{site:?}");
    }
    let yielding = sites_with(&sample, |states| states.running + states.ready);
    assert_eq!(yielding.len(), 1, "{sample:#?}");
    assert_eq!(yielding[0].fibers.sum(), YIELDING);
    assert_eq!(parked[1].busy, 0.0, "{sample:#?}");
    assert!(sample.cpus <= 64.0 && sample.looks == 21, "{sample:#?}");
}

#[test]
fn states_are_counted_on_a_ring() {
    states_are_counted("uring");
}

#[test]
fn states_are_counted_on_epoll() {
    states_are_counted("epoll");
}

#[test]
fn states_of_lean_fibers_are_counted() {
    states_are_counted("lean");
}

#[test]
fn the_longest_wait_is_known() {
    let watched = Watched::start("uring");
    let mut watch = watched.watch();
    let waited = |sample: &Sample| {
        let parked = sites_with(sample, |states| states.parked);
        let long = Duration::from_millis(50);
        parked.len() == 2 && parked.iter().all(|site| site.longest_wait > Some(long))
    };
    let begun = Instant::now();
    let sample = sample_until(&mut watch, waited);
    assert!(waited(&sample), "{sample:#?}");
    for site in &sample.sites {
        // It has waited since before the watch began.
        let max = begun.elapsed() + HANG;
        assert!(site.longest_wait <= Some(max), "{sample:#?}");
    }
}

/// Those that the process counts by itself, before and afterwards.
#[test]
fn counts_are_those_of_the_metrics() {
    let mut watched = Watched::start("uring");
    let mut watch = watched.watch();
    for _ in 0..3 {
        let before = watched.metrics();
        let sample = sample(&mut watch);
        let after = watched.metrics();
        let numbers = sample.workers.iter().flat_map(|worker| {
            let total = worker.total;
            [
                total.fibers,
                total.ended,
                total.switches,
                total.steals,
                total.injected,
                total.enters,
                total.submissions,
                total.completions,
                total.stalls,
                total.sleeps,
                total.idle_ns,
            ]
        });
        let numbers: Vec<_> = numbers.collect();
        assert_eq!(numbers.len(), before.len());
        let bounds = before.iter().zip(&after);
        for (index, (number, (before, after))) in numbers.iter().zip(bounds).enumerate() {
            let is_between = before <= number && number <= after;
            assert!(is_between, "{index}: {before} <= {number} <= {after}");
        }
    }
}

/// A fiber computes, its worker was taken from it, and another one yields.
#[test]
fn a_fiber_without_its_worker_runs() {
    let watched = Watched::start("alone");
    let mut watch = watched.watch();
    let is_wanted = |sample: &Sample| {
        let computes = sample.sites.iter().any(|site| site.fibers.running == 1);
        let switches = sample.workers[0].per_second.switches > 0.0;
        // The only worker is busy with the other one.
        let busy = sample.sites.iter().map(|site| site.busy);
        let is_busy = busy.clone().any(|busy| busy > 0.9) && busy.sum::<f64>() > 1.1;
        computes && switches && is_busy && sample.fibers.running == 2
    };
    let sample = sample_until(&mut watch, is_wanted);
    assert!(is_wanted(&sample), "{sample:#?}");
    // None is counted twice.
    assert!(
        sample.sites.iter().all(|site| site.busy <= 1.0),
        "{sample:#?}"
    );
}

#[test]
fn steals_are_counted() {
    let watched = Watched::start("steals");
    let mut watch = watched.watch();
    let steals = |sample: &Sample| {
        let rates = sample.workers.iter();
        rates.map(|worker| worker.per_second.steals).sum::<f64>() > 0.0
    };
    let sample = sample_until(&mut watch, steals);
    assert!(steals(&sample), "{sample:#?}");
}

/// Fibers start and end as fast as they can, and lists grow and shrink.
#[test]
fn changes_make_no_nonsense() {
    let watched = Watched::start("churn");
    let mut watch = watched.watch();
    for _ in 0..100 {
        let sample = watch.sample().unwrap();
        assert!(sample.fibers.sum() <= 2 * CHURN + 1, "{sample:#?}");
        assert!(sample.sites.len() <= 3, "{sample:#?}");
        for site in &sample.sites {
            assert!(site.spawned_at.contains("tests/watch.rs:"), "{site:?}");
        }
        assert!(sample.workers.len() == 2, "{sample:#?}");
    }
}

/// Workers start and end meanwhile.
#[test]
fn runtimes_come_and_go() {
    let watched = Watched::start("runtimes");
    let mut watch = watched.watch();
    let mut numbers = Vec::new();
    let deadline = Instant::now() + HANG;
    while !(numbers.contains(&0) && numbers.iter().any(|number| *number > 0)) {
        assert!(Instant::now() < deadline, "{numbers:?}");
        for _ in 0..100 {
            watch.look().unwrap();
        }
        let sample = watch.sample().unwrap();
        assert!(sample.workers.len() <= 3, "{sample:#?}");
        numbers.push(sample.workers.len());
    }
}

#[test]
fn the_end_of_the_process_is_told() {
    let mut watched = Watched::start("uring");
    let mut watch = watched.watch();
    watch.sample().unwrap();
    watched.child.kill().unwrap();
    watched.child.wait().unwrap();
    let pid = watched.child.id();
    for error in [watch.look().unwrap_err(), watch.sample().unwrap_err()] {
        assert_eq!(error.to_string(), format!("process {pid} has ended"));
    }
}

#[test]
fn a_process_without_fibers_is_refused() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let error = Watch::open(child.id() as i32).err().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        error.to_string().contains("does not use uthread"),
        "{error}"
    );
}

#[test]
fn a_missing_process_is_named() {
    let error = format!("{:#}", Watch::open(i32::MAX).err().unwrap());
    assert!(error.contains(&i32::MAX.to_string()), "{error}");
}

/// Number of fibers that a churning fiber starts at a time.
const CHURN: usize = 300;

/// The child.
#[test]
fn works() {
    let Ok(kind) = env::var(CHILD) else { return };
    let builder = Runtime::builder().workers(2).on_stall(|_| ());
    match &*kind {
        "epoll" => waits(builder.driver(Driver::Epoll)),
        "lean" => waits(builder.lean()),
        "alone" => computes_alone(builder.workers(1)),
        "steals" => spawns(builder, 64),
        "churn" => spawns(builder, CHURN),
        "runtimes" => starts_runtimes(),
        _ => waits(builder),
    }
}

/// Lets fibers wait and yield, and answers what the metrics are.
fn waits(builder: Builder) {
    let runtime = builder.build().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            runtime.run(|| {
                spawn_waiting();
                println!("ready");
                uthread::thread::park();
            });
        });
        for _ in stdin().lines() {
            let metrics = runtime.metrics();
            let numbers = metrics.workers.iter().flat_map(|worker| {
                [
                    worker.fibers,
                    worker.ended,
                    worker.switches,
                    worker.steals,
                    worker.injected,
                    worker.enters,
                    worker.submissions,
                    worker.completions,
                    worker.stalls,
                    worker.sleeps,
                    worker.idle.as_nanos() as u64,
                ]
            });
            let numbers: Vec<_> = numbers.map(|number| number.to_string()).collect();
            println!("metrics {}", numbers.join(" "));
        }
    });
}

fn spawn_waiting() {
    for _ in 0..PARKED {
        drop(uthread::spawn(|| {
            loop {
                uthread::thread::park();
            }
        }));
    }
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    for _ in 0..ACCEPTING {
        drop(uthread::spawn(move || {
            drop(TcpListener::bind(any).unwrap().accept());
        }));
    }
    for _ in 0..YIELDING {
        drop(uthread::spawn(|| {
            loop {
                uthread::yield_now();
            }
        }));
    }
}

fn computes_alone(builder: Builder) {
    builder.build().unwrap().run(|| {
        drop(uthread::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        }));
        println!("ready");
        loop {
            uthread::yield_now();
        }
    });
}

/// Starts fibers that end at once, this number at a time.
fn spawns(builder: Builder, number: usize) {
    builder.build().unwrap().run(|| {
        println!("ready");
        loop {
            let fibers: Vec<_> = (0..number)
                .map(|_| uthread::spawn(uthread::yield_now))
                .collect();
            for fiber in fibers {
                fiber.join().unwrap();
            }
        }
    });
}

fn starts_runtimes() {
    println!("ready");
    loop {
        let runtime = Runtime::builder().workers(3).build().unwrap();
        runtime.run(|| uthread::sleep(Duration::from_millis(5)));
        drop(runtime);
        std::thread::sleep(Duration::from_millis(5));
    }
}
