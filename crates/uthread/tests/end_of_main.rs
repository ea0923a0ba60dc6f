//! The end of a program with `#[uthread::main]`: remaining fibers vanish with the process, like
//! threads. This program runs itself once per case and driver, and checks the exit code and the
//! output.

use std::env;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use uthread::io::{self, Write};
use uthread::sync::mpsc::{Receiver, Sender, channel};
use uthread::sync::{Arc, Mutex};
use uthread::{shield, sleep, spawn};

/// Tells a child which case it is.
const CASE: &str = "UTHREAD_TEST_CASE";

/// By the environment: whatever is best here, and the two that are possible everywhere.
const DRIVERS: [Option<&str>; 3] = [None, Some("epoll"), Some("threads")];

const HOUR: Duration = Duration::from_secs(3600);

/// Time limit of a program's end, which only a hang exceeds.
const HANG: Duration = Duration::from_secs(60);

struct Case {
    name: &'static str,
    run: fn(),
    code: i32,
    /// The whole of the standard output.
    output: &'static str,
    /// The text that standard error must contain; if empty, there must be no output.
    error: &'static str,
}

const fn quiet(name: &'static str, run: fn()) -> Case {
    Case {
        name,
        run,
        code: 0,
        output: "",
        error: "",
    }
}

const CASES: &[Case] = &[
    quiet("a waiting fiber", leave_fibers_that_wait),
    quiet("a wait in a destructor", leave_a_wait_in_a_destructor),
    quiet("a lock held across a sleep", leave_a_lock_held),
    quiet("the pool of the Rust Book", leave_a_pool_of_workers),
    quiet("a loop that swallows panics", leave_a_loop_that_swallows),
    quiet("a shield", leave_a_shield),
    quiet("a computation", leave_a_computation),
    quiet("a fiber that has not started", leave_what_never_starts),
    quiet("a write that nobody reads", leave_a_write),
    quiet("a call on another thread", leave_a_blocking_call),
    Case {
        name: "a panic of main",
        run: leave_fibers_and_panic,
        code: 101,
        output: "",
        error: "on purpose",
    },
    Case {
        name: "output without a newline",
        run: leave_output,
        code: 0,
        output: "whole line\npiece of main, piece of std",
        error: "",
    },
    Case {
        name: "a locked standard output",
        run: leave_a_locked_output,
        code: 0,
        output: "piece of a fiber",
        error: "",
    },
];

/// Runs the case that the environment names, or all cases. Has two workers, because one computes in
/// a case.
#[uthread::main(workers = 2)]
fn main() {
    let Ok(name) = env::var(CASE) else {
        return run_cases();
    };
    let case = CASES.iter().find(|case| case.name == name);
    (case.expect("a case of this name").run)();
}

fn run_cases() {
    for case in CASES {
        for driver in DRIVERS {
            run_case(case, driver);
        }
        println!("{}: ok", case.name);
    }
}

fn run_case(case: &Case, driver: Option<&str>) {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .env(CASE, case.name)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(driver) = driver {
        command.env("UTHREAD_DRIVER", driver);
    }
    let mut child = command.spawn().unwrap();
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begin.elapsed() > HANG => {
                child.kill().unwrap();
                panic!("{} on {driver:?}: it does not end", case.name);
            }
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    let output = io::read_to_string(child.stdout.unwrap()).unwrap();
    let error = io::read_to_string(child.stderr.unwrap()).unwrap();
    // A worker that has to wait for a CPU may be reported.
    let is_stall = |line: &&str| line.contains(" has kept worker ");
    let error = error.split_inclusive('\n').filter(|line| !is_stall(line));
    let error = error.collect::<String>();
    let place = format!("{} on {driver:?}: {status}\n{error}", case.name);
    assert_eq!(status.code(), Some(case.code), "{place}");
    assert_eq!(output, case.output, "{place}");
    match case.error {
        "" => assert_eq!(error, "", "{place}"),
        expected => assert!(error.contains(expected), "{place}"),
    }
}

/// Prints when it is dropped: nothing of a fiber that vanishes is.
struct Prints(&'static str);

impl Drop for Prints {
    fn drop(&mut self) {
        eprintln!("{} was dropped", self.0);
    }
}

/// Starts a fiber and returns once it calls what it was given.
fn begin(run: impl FnOnce(&dyn Fn()) + Send + 'static) {
    let (begun, has_begun) = channel();
    spawn(move || run(&|| begun.send(()).unwrap()));
    has_begun.recv().unwrap();
}

fn leave_fibers_that_wait() {
    begin(|begun| {
        let _prints = Prints("what slept");
        begun();
        sleep(HOUR);
    });
    begin(|begun| {
        let _prints = Prints("what received");
        let (_sender, values) = channel::<()>();
        begun();
        let _ = values.recv();
    });
    begin(|begun| {
        let _prints = Prints("what accepted");
        let listener = uthread::net::TcpListener::bind("127.0.0.1:0").unwrap();
        begun();
        let _ = listener.accept();
    });
}

/// Waits in a destructor, by `recv`, until lent data is no longer used, like `scoped_threadpool`.
/// Leaving that wait early, by unwinding or an error, would be a use after free there.
fn leave_a_wait_in_a_destructor() {
    struct Lends {
        used: Arc<AtomicBool>,
        end: Receiver<()>,
    }
    impl Drop for Lends {
        fn drop(&mut self) {
            let _prints = Prints("the wait for what is lent");
            let _ = self.end.recv();
            assert!(
                !self.used.load(Ordering::Relaxed),
                "the value is still in use"
            );
        }
    }
    let used = Arc::new(AtomicBool::new(false));
    let (ended, end) = channel();
    let theirs = Arc::clone(&used);
    begin(move |begun| {
        let ended: Sender<()> = ended;
        theirs.store(true, Ordering::Relaxed);
        begun();
        // A job that is under way and ends by itself, much later.
        shield(|| sleep(HOUR));
        theirs.store(false, Ordering::Relaxed);
        ended.send(()).unwrap();
    });
    begin(move |begun| {
        let _lends = Lends { used, end };
        begun();
    });
}

fn leave_a_lock_held() {
    struct Locks(Arc<Mutex<u32>>);
    impl Drop for Locks {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let value = Arc::new(Mutex::new(0));
    let locks = Locks(Arc::clone(&value));
    begin(move |begun| {
        let mut value = value.lock().unwrap();
        begun();
        sleep(HOUR);
        *value += 1;
    });
    begin(move |begun| {
        let _locks = locks;
        begun();
        sleep(HOUR);
    });
}

/// Leaks a pool of workers that share a receiver under a lock. Nobody joins them here.
fn leave_a_pool_of_workers() {
    type Job = Box<dyn FnOnce() + Send>;
    let (sender, jobs) = channel::<Job>();
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..4 {
        let jobs = Arc::clone(&jobs);
        spawn(move || {
            loop {
                let job = jobs.lock().unwrap().recv().unwrap();
                job();
            }
        });
    }
    let (done, is_done) = channel();
    sender
        .send(Box::new(move || done.send(()).unwrap()))
        .unwrap();
    is_done.recv().unwrap();
    std::mem::forget(sender);
}

fn leave_a_loop_that_swallows() {
    begin(|begun| {
        begun();
        loop {
            let _ = std::panic::catch_unwind(|| sleep(HOUR));
        }
    });
}

fn leave_a_shield() {
    begin(|begun| {
        begun();
        shield(|| sleep(HOUR));
    });
}

fn leave_a_computation() {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    spawn(|| {
        loop {
            BEGUN.store(true, Ordering::Relaxed);
            std::hint::spin_loop();
        }
    });
    // Without a wait, so that the other worker has to start it.
    while !BEGUN.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn leave_what_never_starts() {
    for _ in 0..100 {
        let prints = Prints("a capture");
        spawn(move || {
            let _prints = prints;
            sleep(HOUR);
        });
    }
}

fn leave_a_write() {
    begin(|begun| {
        let (_reader, mut writer) = io::pipe().unwrap();
        begun();
        let _ = writer.write_all(&[0; 1 << 20]);
    });
}

fn leave_a_blocking_call() {
    begin(|begun| {
        let (begun_there, has_begun) = std::sync::mpsc::channel();
        let call = spawn(move || {
            uthread::blocking(move || {
                begun_there.send(()).unwrap();
                thread::sleep(HOUR);
            });
        });
        uthread::blocking(move || has_begun.recv()).unwrap();
        begun();
        let _ = call.join();
    });
}

fn leave_fibers_and_panic() {
    leave_fibers_that_wait();
    leave_a_lock_held();
    panic!("on purpose");
}

fn leave_output() {
    writeln!(io::stdout(), "whole line").unwrap();
    write!(io::stdout(), "piece of main, ").unwrap();
    print!("piece of std");
}

/// Locks the output in a fiber that waits. At the end, `std` gives up where its own lock is taken,
/// but ours is another one.
fn leave_a_locked_output() {
    begin(|begun| {
        let mut locked = io::stdout().lock();
        write!(locked, "piece of a fiber").unwrap();
        begun();
        sleep(HOUR);
    });
}
