//! What a program prints of its fibers: the report of a deadlock, and the list on `SIGQUIT`. This
//! program runs itself once per case and driver: a process must have no other threads for a report.

use std::env;
use std::hint;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use uthread::net::TcpListener;
use uthread::runtime::Builder;
use uthread::signal::{Signal, Signals};
use uthread::sync::{Arc, Barrier, Mutex, mpsc};
use uthread::{Runtime, sleep, spawn};

/// Tells a child which case it is.
const CASE: &str = "UTHREAD_TEST_CASE";

/// Tells a child to print a line once its runtime runs.
const ANNOUNCES: &str = "UTHREAD_TEST_ANNOUNCES";

/// By the environment: whatever is best here, and epoll, which is possible everywhere.
const DRIVERS: [Option<&str>; 2] = [None, Some("epoll")];

/// More than the time after which a deadlock is reported.
const LONG: Duration = Duration::from_secs(4);

/// Time limit of a line, which only a hang exceeds.
const HANG: Duration = Duration::from_secs(60);

struct Case {
    name: &'static str,
    run: fn(Builder),
    /// Whether fibers are lean, too.
    places: &'static [bool],
    /// Parts of the report, which never ends by itself. If there are none, the program does, and
    /// there is no report.
    report: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        name: "two locks",
        run: lock_crosswise,
        places: &[false, true],
        report: &[
            "3 fibers wait, and nothing can wake one of them",
            "2 fibers, parked, spawned at",
            "    cycle: fiber ",
            " waits for a lock of fiber ",
            "\"first\"",
            "\"second\"",
        ],
    },
    Case {
        name: "a lost message",
        run: wait_for_a_lost_message,
        places: &[false],
        report: &[
            "1 fiber waits, and nothing can wake it\n    1 fiber, ",
            "uthread dump ",
        ],
    },
    Case {
        name: "beside inactive workers",
        run: wait_beside_inactive_workers,
        places: &[false, true],
        report: &["21 fibers wait, and nothing can wake one of them"],
    },
    Case {
        name: "a timer of an inactive worker",
        run: wait_for_a_timer_of_an_inactive_worker,
        places: &[false, true],
        report: &[],
    },
    Case {
        name: "a barrier of many",
        run: wait_at_a_barrier,
        places: &[false],
        report: &[
            "1001 fibers wait",
            "1000 fibers, parked, spawned at",
            ", ..",
        ],
    },
    Case {
        name: "a lock of std",
        run: lock_std_crosswise,
        places: &[false],
        report: &[
            "3 fibers wait, and nothing can wake one of them",
            "1 fiber, keeps a thread, spawned at",
        ],
    },
    Case {
        name: "a lock of std by the only fiber of a worker",
        run: lock_std_alone,
        places: &[false],
        report: &[
            "2 fibers wait, and nothing can wake one of them",
            "1 fiber, keeps a thread, spawned at",
        ],
    },
    Case {
        name: "after a call on another thread",
        run: block_before,
        places: &[false],
        report: &["1 fiber waits, and nothing can wake it"],
    },
    Case {
        name: "a foreign thread that wakes",
        run: wait_for_a_thread,
        places: &[false, true],
        report: &[],
    },
    Case {
        name: "a blocking call",
        run: wait_for_a_call,
        places: &[false, true],
        report: &[],
    },
    Case {
        name: "a timer",
        run: wait_for_a_timer,
        places: &[false, true],
        report: &[],
    },
    Case {
        name: "a connection",
        run: wait_for_a_connection,
        places: &[false],
        report: &[],
    },
    Case {
        name: "a signal",
        run: wait_beside_a_handler,
        places: &[false],
        report: &[],
    },
    Case {
        name: "another runtime",
        run: wait_for_another_runtime,
        places: &[false],
        report: &[],
    },
];

fn main() {
    let Ok(name) = env::var(CASE) else {
        return run_cases();
    };
    let (kind, name) = name.split_once(' ').expect("a kind and a name");
    let case = CASES.iter().find(|case| case.name == name);
    let builder = Runtime::builder().workers(2);
    let builder = match kind {
        "lean" => builder.lean(),
        "listed" => builder.dump_on_quit(),
        _ => builder,
    };
    (case.expect("a case of this name").run)(builder);
}

/// Runs all at once, as each waits most of the time.
fn run_cases() {
    let places = CASES.iter().flat_map(|case| {
        let lean = case.places.iter();
        lean.flat_map(move |lean| DRIVERS.map(|driver| (case, *lean, driver)))
    });
    let children: Vec<_> = places
        .map(|(case, lean, driver)| (case, lean, driver, begin(case, lean, driver)))
        .collect();
    for (case, lean, driver, mut child) in children {
        let place = format!(
            "{} on {driver:?}{}",
            case.name,
            if lean { ", lean" } else { "" }
        );
        let lines = Lines::of(&mut child);
        check(case, &mut child, &lines, &place);
        println!("{place}: ok");
    }
    for (driver, kind) in DRIVERS.into_iter().zip(["default", "listed"]) {
        check_list_on_quit(driver, kind);
        println!("a list on {driver:?}: ok");
    }
}

/// A child, which is killed at the end of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn begin(case: &Case, lean: bool, driver: Option<&str>) -> Killed {
    let kind = if lean { "lean" } else { "default" };
    Killed(command(case, kind, driver).spawn().unwrap())
}

fn command(case: &Case, kind: &str, driver: Option<&str>) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .env(CASE, format!("{kind} {}", case.name))
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    if let Some(driver) = driver {
        command.env("UTHREAD_DRIVER", driver);
    }
    command
}

/// The lines that a child prints. A thread reads them, so that a wait for one has a limit.
struct Lines(Receiver<String>);

impl Lines {
    fn of(Killed(child): &mut Killed) -> Lines {
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, received) = std::sync::mpsc::channel();
        thread::spawn(move || {
            lines
                .map(Result::unwrap)
                .try_for_each(|line| sender.send(line))
        });
        Lines(received)
    }

    /// Adds the next line to `printed`; returns `false` if the child has ended.
    fn add_next(&self, printed: &mut String, place: &str) -> bool {
        match self.0.recv_timeout(HANG) {
            // A worker that has to wait for a CPU may be reported.
            Ok(line) if line.contains(" has kept worker ") => self.add_next(printed, place),
            Ok(line) => {
                *printed += &format!("{line}\n");
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("{place}: no end and no line: {printed}"),
        }
    }
}

/// Reads what a child prints until its report, or its end.
fn check(case: &Case, Killed(child): &mut Killed, lines: &Lines, place: &str) {
    let mut printed = String::new();
    while !printed.contains("shows what each waits in") && lines.add_next(&mut printed, place) {}
    if case.report.is_empty() {
        let status = child.wait().unwrap();
        let has_ended = status.success() || status.signal() == Some(9);
        assert!(has_ended, "{place}: {status}: {printed}");
        assert_eq!(printed, "", "{place}");
        return;
    }
    assert!(
        printed.starts_with("uthread: deadlock: "),
        "{place}: {printed}"
    );
    let timeless = without_times(&printed);
    for part in case.report {
        assert!(timeless.contains(part), "{place}: {part}: {printed}");
    }
}

/// Leaves out for how long fibers are suspended.
fn without_times(report: &str) -> String {
    let is_time = |after: &str| after.starts_with(|first: char| first.is_ascii_digit());
    let mut left = String::new();
    for part in report.split(", ") {
        let times = part
            .match_indices(" for ")
            .map(|(at, text)| (at, &part[at + text.len()..]));
        let mut times = times.filter(|(_, after)| is_time(after) || after.starts_with("up to "));
        let end = times.next().map_or(part.len(), |(at, _)| at);
        let comma = if left.is_empty() { "" } else { ", " };
        left += &format!("{comma}{}", &part[..end]);
    }
    left
}

/// A program that lists its fibers on `SIGQUIT` goes on, and still reports a deadlock. It is asked to
/// by the environment, unless it does by itself.
fn check_list_on_quit(driver: Option<&str>, kind: &str) {
    let case = CASES.iter().find(|case| case.name == "a lost message");
    let case = case.expect("a case of this name");
    let mut command = command(case, kind, driver);
    command.env(ANNOUNCES, "1");
    if kind == "default" {
        command.env("UTHREAD_DUMP", "1");
    }
    let mut child = Killed(command.spawn().unwrap());
    let lines = Lines::of(&mut child);
    let mut line = String::new();
    lines.add_next(&mut line, "before a list");
    assert_eq!(line, "running\n");
    let process = Pid::from_child(&child.0);
    for _ in 0..2 {
        kill_process(process, rustix::process::Signal::QUIT).unwrap();
        let mut list = String::new();
        for _ in 0..3 {
            lines.add_next(&mut list, "a list");
        }
        assert!(
            list.starts_with("uthread: fibers: 1, workers: 2\n    1 fiber, "),
            "{list}"
        );
        assert!(list.contains("tests/reports.rs:"), "{list}");
        assert!(list.ends_with(" shows what each waits in\n"), "{list}");
    }
    check(case, &mut child, &lines, "beside a list");
}

fn run(builder: Builder, main: impl FnOnce() + Send) {
    builder.build().unwrap().run(|| {
        if env::var_os(ANNOUNCES).is_some() {
            eprintln!("running");
        }
        main();
    });
}

fn lock_crosswise(builder: Builder) {
    run(builder, || {
        let locks = [(); 2].map(|()| Arc::new(Mutex::new(())));
        let both_have_one = Arc::new(Barrier::new(2));
        let fibers = ["first", "second"]
            .into_iter()
            .enumerate()
            .map(|(own, name)| {
                let locks = locks.clone();
                let both_have_one = Arc::clone(&both_have_one);
                let cross = move || {
                    let _own = locks[own].lock();
                    both_have_one.wait();
                    let _other = locks[1 - own].lock();
                };
                let builder = uthread::thread::Builder::new().name(name.into());
                builder.spawn(cross).unwrap()
            });
        for fiber in fibers.collect::<Vec<_>>() {
            fiber.join().unwrap();
        }
    });
}

fn wait_for_a_lost_message(builder: Builder) {
    run(builder, || {
        let (_sender, messages) = mpsc::channel::<()>();
        messages.recv().unwrap();
    });
}

/// Reduces the number of workers while fibers run on all of them, and others after that.
fn wait_beside_inactive_workers(builder: Builder) {
    let runtime = builder.workers(4).build().unwrap();
    let (_sender, messages) = mpsc::channel::<()>();
    let messages = Arc::new(Mutex::new(messages));
    let spawn_waiting = |_| {
        let messages = Arc::clone(&messages);
        runtime.spawn(move || {
            sleep(Duration::from_millis(20));
            messages.lock().unwrap().recv().unwrap();
        })
    };
    let fibers: Vec<_> = (0..20).map(spawn_waiting).collect();
    runtime.run(|| {
        runtime.set_workers(2).unwrap();
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    });
}

/// Reduces the number of workers while fibers sleep on all of them.
fn wait_for_a_timer_of_an_inactive_worker(builder: Builder) {
    let runtime = builder.workers(4).build().unwrap();
    let fibers: Vec<_> = (0..20).map(|_| runtime.spawn(|| sleep(LONG))).collect();
    runtime.run(|| sleep(Duration::from_millis(20)));
    runtime.set_workers(1).unwrap();
    runtime.run(|| fibers.into_iter().for_each(|fiber| fiber.join().unwrap()));
}

fn wait_at_a_barrier(builder: Builder) {
    run(builder, || {
        let barrier = Arc::new(Barrier::new(1001));
        let fibers = (0..1000).map(|_| {
            let barrier = Arc::clone(&barrier);
            spawn(move || barrier.wait())
        });
        for fiber in fibers.collect::<Vec<_>>() {
            fiber.join().unwrap();
        }
    });
}

/// A fiber that is blocked by the lock keeps a thread of the runtime.
fn lock_std_crosswise(builder: Builder) {
    run(builder, || {
        let lock = Arc::new(std::sync::Mutex::new(()));
        let (sender, messages) = mpsc::channel::<()>();
        let (holds, held) = mpsc::channel();
        let theirs = Arc::clone(&lock);
        let holder = spawn(move || {
            let _guard = theirs.lock();
            holds.send(()).unwrap();
            let _ = messages.recv();
        });
        held.recv().unwrap();
        let waiter = spawn(move || {
            let _guard = lock.lock();
            drop(sender);
        });
        waiter.join().unwrap();
        holder.join().unwrap();
    });
}

/// No other fiber waits for the worker of the one that is blocked.
fn lock_std_alone(builder: Builder) {
    run(builder, || {
        let lock = Arc::new(std::sync::Mutex::new(()));
        let has_begun = Arc::new(AtomicBool::new(false));
        let (theirs, begins) = (Arc::clone(&lock), Arc::clone(&has_begun));
        let _guard = lock.lock();
        let waiter = spawn(move || {
            begins.store(true, Ordering::Relaxed);
            let _guard = theirs.lock();
        });
        // This worker is kept, so that another one runs it.
        while !has_begun.load(Ordering::Relaxed) {
            hint::spin_loop();
        }
        waiter.join().unwrap();
    });
}

/// Leaves idle threads of pools behind, which end after a while.
fn block_before(builder: Builder) {
    run(builder, || {
        let folder = env::temp_dir();
        assert!(uthread::fs::read_dir(folder).unwrap().count() > 0);
        uthread::blocking(|| thread::sleep(Duration::from_millis(10)));
        let (_sender, messages) = mpsc::channel::<()>();
        messages.recv().unwrap();
    });
}

fn wait_for_a_thread(builder: Builder) {
    run(builder, || {
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            thread::sleep(LONG);
            sender.send(()).unwrap();
        });
        messages.recv().unwrap();
    });
}

fn wait_for_a_call(builder: Builder) {
    run(builder, || uthread::blocking(|| thread::sleep(LONG)));
}

fn wait_for_a_timer(builder: Builder) {
    run(builder, || {
        let sleeper = spawn(|| sleep(LONG));
        sleeper.join().unwrap();
    });
}

fn wait_for_a_connection(builder: Builder) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // A process of its own, so that this one has no other threads.
    let connects = format!(
        "sleep {}; exec 3<>/dev/tcp/127.0.0.1/{}",
        LONG.as_secs(),
        address.port()
    );
    let mut client = Command::new("bash")
        .args(["-c", &connects])
        .spawn()
        .unwrap();
    run(builder, || drop(listener.accept().unwrap()));
    client.wait().unwrap();
}

/// The handler might wake the fiber.
fn wait_beside_a_handler(builder: Builder) {
    let _signals = Signals::new([Signal::USR1]).unwrap();
    let (_sender, messages) = mpsc::channel::<()>();
    let end = format!(
        "sleep {}; kill -KILL {}",
        LONG.as_secs(),
        std::process::id()
    );
    let killer = Command::new("sh").args(["-c", &end]).spawn();
    run(builder, move || messages.recv().unwrap());
    killer.unwrap().wait().unwrap();
}

fn wait_for_another_runtime(builder: Builder) {
    let other = Runtime::builder().workers(1).build().unwrap();
    let (sender, messages) = mpsc::channel();
    other.spawn(move || {
        sleep(LONG);
        sender.send(()).unwrap();
    });
    run(builder, move || messages.recv().unwrap());
}
