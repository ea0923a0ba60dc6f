//! The fibers of a worker take turns: a fiber in a tight loop of calls does not starve the others.
//!
//! Turns are counted, not timed: a test counts the iterations of the loop while another fiber waits
//! for its next turn. A loop that starves the others stops at a limit, so that the test fails
//! instead of hanging.

use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{ON_ONE_LEAN_WORKER, ON_ONE_WORKER, behaviours};
use crate::support::{FREE, Flag, file_of, join, pair, pair_with_std, peer};
use uthread::net::{TcpListener, TcpStream, UnixStream};
use uthread::priority::{self, Priority};
use uthread::thread::{park, sleep_until};
use uthread::{current, sleep, spawn, yield_now};

behaviours![
    (ON_ONE_WORKER, [five_hundred_connections_are_served_alike]),
    (
        // With storage of its own, a fiber that the machine keeps waiting may be without its worker.
        ON_ONE_LEAN_WORKER,
        [
            fibers_that_yield_take_turns,
            a_loop_that_yields_starves_nobody,
            an_urgent_loop_that_yields_starves_nobody,
            an_urgent_loop_that_spawns_and_joins_starves_nobody,
            fibers_that_wake_each_other_starve_nobody,
            a_loop_that_spawns_and_joins_starves_nobody,
            a_loop_of_sleeps_that_are_over_starves_nobody,
            a_loop_that_reads_a_small_file_starves_nobody,
            a_loop_that_asks_what_a_file_is_starves_nobody,
            a_loop_that_writes_and_reads_a_socket_starves_nobody,
            an_echo_whose_peer_has_always_sent_starves_nobody
        ]
    )
];

/// Maximum number of rounds of a loop while another fiber waits for one step: eight batches. After
/// each batch of 64 turns, the worker checks timers, completions and the work of other threads. No
/// step has been seen to wait for more than two batches.
const ROUNDS_BETWEEN_MAX: usize = 8 * 64;

/// How long a loop runs after its start, or after the last completed step, before it ends by
/// itself. Far longer than any step takes, even if other processes keep this one waiting.
const TIME_MAX: Duration = Duration::from_secs(10);

/// How late a sleep may end, as its documentation says.
const LATE: Duration = Duration::from_millis(1);

/// How often each thing is tried beside each loop.
const STEPS: usize = 20;

/// The length of a message.
const MESSAGE_BYTES: usize = 16;

/// How often a loop went round.
struct Rounds {
    made: AtomicUsize,
    stopped: AtomicBool,
    /// When the loop ends by itself.
    until: Mutex<Instant>,
}

impl Rounds {
    fn new() -> Rounds {
        Rounds {
            made: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            until: Mutex::new(Instant::now() + TIME_MAX),
        }
    }

    /// Counts an iteration. Returns `true` if the loop has to continue.
    fn again(&self) -> bool {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        // Rarely, so that the loop stays short.
        if made.is_multiple_of(ROUNDS_BETWEEN_MAX) && *self.until.lock().unwrap() < Instant::now() {
            self.stop();
        }
        !self.stopped.load(Ordering::Relaxed)
    }

    /// Extends the time limit of the loop. Returns `false` if the loop has already been stopped.
    fn prolong(&self) -> bool {
        *self.until.lock().unwrap() = Instant::now() + TIME_MAX;
        !self.stopped.load(Ordering::Relaxed)
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }

    /// Returns how many rounds were made since there were `before`, or zero if another thread read
    /// that number too late.
    fn since(&self, before: usize) -> usize {
        self.made().saturating_sub(before)
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// Performs one step of the other fiber, and returns the number of iterations that it waited for.
type Step = fn(&Arc<Rounds>) -> usize;

/// Sees that everything goes on beside a fiber that runs `busy`.
#[track_caller]
fn starves_nobody(place: Place, busy: fn(&Arc<Rounds>)) {
    let steps: [(&str, Step); 7] = [
        ("a fiber that yields", yields),
        ("a new fiber", spawns),
        ("a fiber woken by another", is_woken),
        ("a fiber woken by a thread", is_woken_by_thread),
        ("a timer", sleeps),
        ("a completion of a socket", receives),
        ("a completion of a file", reads),
    ];
    let runtime = place.runtime();
    let rounds = Arc::new(Rounds::new());
    let theirs = Arc::clone(&rounds);
    let looping = runtime.spawn(move || busy(&theirs));
    while rounds.made() == 0 {
        thread::yield_now();
    }
    let check = |what, waited: usize| {
        assert!(rounds.prolong(), "{what} waited until the loop had ended");
        assert!(
            waited <= ROUNDS_BETWEEN_MAX,
            "{what} waited for {waited} rounds"
        );
    };
    for _ in 0..STEPS {
        let theirs = Arc::clone(&rounds);
        let injected = runtime.spawn(move || theirs.made());
        let before = rounds.made();
        let started = injected.join().unwrap();
        check(
            "a fiber from another thread",
            started.saturating_sub(before),
        );
        for (what, step) in steps {
            check(what, runtime.run(|| step(&rounds)));
        }
    }
    rounds.stop();
    looping.join().unwrap();
}

fn yields(rounds: &Arc<Rounds>) -> usize {
    let before = rounds.made();
    yield_now();
    rounds.since(before)
}

fn spawns(rounds: &Arc<Rounds>) -> usize {
    let before = rounds.made();
    spawn(|| ()).join().unwrap();
    rounds.since(before)
}

fn is_woken(rounds: &Arc<Rounds>) -> usize {
    let own = current();
    let before = rounds.made();
    spawn(move || own.unpark());
    park();
    rounds.since(before)
}

fn is_woken_by_thread(rounds: &Arc<Rounds>) -> usize {
    let own = current();
    let theirs = Arc::clone(rounds);
    let waker = thread::spawn(move || {
        own.unpark();
        theirs.made()
    });
    park();
    let after = rounds.made();
    after.saturating_sub(join(waker))
}

/// Returns how many rounds were made after a sleep should have ended: another fiber reads the clock
/// for it in a loop.
fn sleeps(rounds: &Arc<Rounds>) -> usize {
    const NAP: Duration = Duration::from_micros(500);
    // Fixed before the sleep, which the machine may keep waiting.
    let deadline = Instant::now() + NAP;
    let due = deadline + LATE;
    let overdue = Arc::new(OnceLock::new());
    let (watched, theirs) = (Arc::clone(&overdue), Arc::clone(rounds));
    let woken = Flag::default();
    let raised = woken.clone();
    let watch = spawn(move || {
        while !raised.is_raised() {
            if Instant::now() > due {
                watched.get_or_init(|| theirs.made());
            }
            yield_now();
        }
    });
    sleep_until(deadline);
    woken.raise();
    let late = overdue.get().map_or(0, |before| rounds.since(*before));
    watch.join().unwrap();
    late
}

/// Returns how many rounds were made while a message was sent and received. The pair delivers at
/// once, while the kernel may put off what goes over the loopback device.
fn receives(rounds: &Arc<Rounds>) -> usize {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    let before = rounds.made();
    ours.write_all(&[1; MESSAGE_BYTES]).unwrap();
    theirs.read_exact(&mut [0; MESSAGE_BYTES]).unwrap();
    rounds.since(before)
}

fn reads(rounds: &Arc<Rounds>) -> usize {
    let file = file_of(&[1; MESSAGE_BYTES]);
    let before = rounds.made();
    file.read_exact_at(&mut [0; MESSAGE_BYTES], 0).unwrap();
    rounds.since(before)
}

/// Catches a fiber that gets two turns while another gets none.
fn fibers_that_yield_take_turns(place: Place) {
    const FIBERS: usize = 10;
    const LAPS: usize = 1000;
    place.run(|| {
        let laps: Arc<[AtomicUsize; FIBERS]> = Arc::default();
        let runner = |own: usize| {
            let laps = Arc::clone(&laps);
            spawn(move || {
                // All begin together.
                laps[own].store(1, Ordering::Relaxed);
                while laps.iter().any(|laps| laps.load(Ordering::Relaxed) == 0) {
                    yield_now();
                }
                for lap in 2..LAPS {
                    laps[own].store(lap, Ordering::Relaxed);
                    yield_now();
                    for (other, laps) in laps.iter().enumerate() {
                        let theirs = laps.load(Ordering::Relaxed);
                        assert!(theirs.abs_diff(lap) <= 1, "{own}: {lap}, {other}: {theirs}");
                    }
                }
            })
        };
        let runners: Vec<_> = (0..FIBERS).map(runner).collect();
        for runner in runners {
            runner.join().unwrap();
        }
    });
}

fn a_loop_that_yields_starves_nobody(place: Place) {
    starves_nobody(place, |rounds| {
        while rounds.again() {
            yield_now();
        }
    });
}

/// Runs a loop that gets every second turn beside others, which get the rest.
fn an_urgent_loop_that_yields_starves_nobody(place: Place) {
    starves_nobody(place, |rounds| {
        priority::with(Priority::Urgent, || {
            while rounds.again() {
                yield_now();
            }
        });
    });
}

fn an_urgent_loop_that_spawns_and_joins_starves_nobody(place: Place) {
    starves_nobody(place, |rounds| {
        priority::with(Priority::Urgent, || {
            while rounds.again() {
                spawn(|| ()).join().unwrap();
            }
        });
    });
}

fn fibers_that_wake_each_other_starve_nobody(place: Place) {
    starves_nobody(place, |rounds| {
        let (first, theirs) = (current(), Arc::clone(rounds));
        let partner = Arc::new(OnceLock::new());
        let own = Arc::clone(&partner);
        let second = spawn(move || {
            own.get_or_init(current);
            first.unpark();
            while theirs.again() {
                park();
                first.unpark();
            }
        });
        while partner.get().is_none() {
            park();
        }
        let partner = partner.get().unwrap();
        while rounds.again() {
            partner.unpark();
            park();
        }
        partner.unpark();
        second.join().unwrap();
    });
}

fn a_loop_that_spawns_and_joins_starves_nobody(place: Place) {
    starves_nobody(place, |rounds| {
        while rounds.again() {
            spawn(|| ()).join().unwrap();
        }
    });
}

fn a_loop_of_sleeps_that_are_over_starves_nobody(place: Place) {
    starves_nobody(place, |rounds| {
        while rounds.again() {
            sleep(Duration::ZERO);
        }
    });
}

/// Reads from memory: the kernel completes each read at once.
fn a_loop_that_reads_a_small_file_starves_nobody(place: Place) {
    starves_nobody(place, |rounds| {
        let file = file_of(&[7; MESSAGE_BYTES]);
        while rounds.again() {
            file.read_exact_at(&mut [0; MESSAGE_BYTES], 0).unwrap();
        }
    });
}

fn a_loop_that_asks_what_a_file_is_starves_nobody(place: Place) {
    starves_nobody(place, |rounds| {
        while rounds.again() {
            uthread::fs::metadata("/").unwrap();
        }
    });
}

/// Holds both ends, so that neither ever waits for the other.
fn a_loop_that_writes_and_reads_a_socket_starves_nobody(place: Place) {
    starves_nobody(place, |rounds| {
        let (mut ours, mut theirs) = pair();
        let mut message = [0; MESSAGE_BYTES];
        while rounds.again() {
            ours.write_all(&message).unwrap();
            theirs.read_exact(&mut message).unwrap();
        }
    });
}

fn an_echo_whose_peer_has_always_sent_starves_nobody(place: Place) {
    /// Number of bytes, below what a socket accepts that nobody reads.
    const SENT: usize = 2000 * MESSAGE_BYTES;
    starves_nobody(place, |rounds| {
        while rounds.again() {
            let (mut ours, theirs) = pair_with_std();
            let mut all = vec![1; SENT];
            (&theirs).write_all(&all).unwrap();
            while ours.peek(&mut all).unwrap() < SENT {
                yield_now();
            }
            // A loop that was stopped resets the connection.
            let reader = peer(move || drop(io::copy(&mut &theirs, &mut io::sink())));
            let (mut message, mut left) = ([0; MESSAGE_BYTES], SENT / MESSAGE_BYTES);
            while left > 0 && rounds.again() {
                ours.read_exact(&mut message).unwrap();
                ours.write_all(&message).unwrap();
                left -= 1;
            }
            drop(ours);
            join(reader);
        }
    });
}

/// The connections of `connections_are_served_alike`.
const CONNECTIONS: usize = 500;

/// Counts messages per connection, once all connections are running.
struct Served {
    begun: AtomicUsize,
    counts: Vec<AtomicUsize>,
    total: AtomicUsize,
    stop: Flag,
}

impl Served {
    const TOTAL: usize = if cfg!(debug_assertions) {
        25_000
    } else {
        100_000
    };

    /// Counts until the total is reached. On one worker nobody counts at the same time.
    fn count(&self, connection: usize) {
        if self.begun.load(Ordering::Relaxed) < CONNECTIONS || self.stop.is_raised() {
            return;
        }
        self.counts[connection].fetch_add(1, Ordering::Relaxed);
        if self.total.fetch_add(1, Ordering::Relaxed) + 1 == Self::TOTAL {
            self.stop.raise();
        }
    }
}

fn serve(connection: usize, mut stream: TcpStream, served: &Served) {
    let mut message = [0; MESSAGE_BYTES];
    let mut begins = true;
    while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {
        if std::mem::take(&mut begins) {
            served.begun.fetch_add(1, Ordering::Relaxed);
        }
        served.count(connection);
    }
}

fn connections_are_served_alike(place: Place) {
    let (servers, clients) = (place.runtime(), place.runtime());
    let served = Arc::new(Served {
        begun: AtomicUsize::new(0),
        counts: (0..CONNECTIONS).map(|_| AtomicUsize::new(0)).collect(),
        total: AtomicUsize::new(0),
        stop: Flag::default(),
    });
    let listener = TcpListener::bind(FREE).unwrap();
    let address = listener.local_addr().unwrap();
    let theirs = Arc::clone(&served);
    let accepting = servers.spawn(move || {
        for connection in 0..CONNECTIONS {
            let (stream, _) = listener.accept().unwrap();
            let served = Arc::clone(&theirs);
            spawn(move || serve(connection, stream, &served));
        }
    });
    let going: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let stop = served.stop.clone();
            clients.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                let mut message = [0; MESSAGE_BYTES];
                while !stop.is_raised() {
                    stream.write_all(&message).unwrap();
                    stream.read_exact(&mut message).unwrap();
                }
            })
        })
        .collect();
    accepting.join().unwrap();
    for client in going {
        client.join().unwrap();
    }
    let counts = served
        .counts
        .iter()
        .map(|count| count.load(Ordering::Relaxed));
    let (least, most) = (counts.clone().min().unwrap(), counts.max().unwrap());
    assert!(most < 2 * least, "from {least} to {most}");
}

/// Uses closed loops: each connection has one message under way. Runs in a process of its own,
/// which needs a thousand descriptors.
fn five_hundred_connections_are_served_alike(place: Place) {
    alone(|| connections_are_served_alike(place));
}
