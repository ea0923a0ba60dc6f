//! Kernel threads that fetch submissions: the system calls saved, their sleep and wake-up, and the
//! reported details.

#[path = "restrict/small_program.rs"]
mod small_program;

use std::fs;
use std::io::{Read, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use small_program::works;
use uthread::fs::File;
use uthread::net::{TcpListener, TcpStream};
use uthread::{Driver, Runtime, yield_now};

/// Time limit of a step, which only a hang exceeds, also on a loaded machine.
const HANG: Duration = Duration::from_secs(30);

/// Time after which the kernel thread sleeps, longer than a test.
const AWAKE: Duration = Duration::from_secs(60);

/// Waits for the turn of the calling test. The threads of the kernel that poll are the process's:
/// tests that count them take turns.
fn take_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the only runtime for which the kernel polls, or returns `None` where there is no ring.
fn polled(workers: usize, idle: Duration) -> Option<Runtime> {
    eventually("those of the test before have ended", || {
        threads().is_empty()
    });
    let builder = Runtime::builder().workers(workers).kernel_polling(idle);
    let runtime = builder.build().unwrap();
    let driver = runtime.driver().to_string();
    if runtime.driver().driver() != Driver::Uring {
        assert!(
            driver.contains("no kernel polling, which requires io_uring"),
            "{driver}"
        );
        eprintln!("left out: {driver}");
        return None;
    }
    let expected = format!("kernel polling for {} ms,", idle.as_millis().max(1));
    assert!(driver.contains(&expected), "{driver}");
    Some(runtime)
}

/// Returns the states of the threads of the kernel that poll for this process, as in `/proc`: `S`
/// sleeps.
fn threads() -> Vec<char> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let stats = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("stat")).ok());
    let polls = stats.filter(|stat| stat.contains("(iou-sqp-"));
    polls
        .map(|stat| stat[stat.rfind(')').unwrap()..].chars().nth(2).unwrap())
        .collect()
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < HANG, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Performs an operation, and fails if it does not end.
fn open() {
    uthread::timeout(HANG, || File::open("Cargo.toml"))
        .unwrap()
        .unwrap();
}

#[test]
fn a_program_works_as_without_polling() {
    let _turn = take_turn();
    for workers in [1, 2] {
        if let Some(runtime) = polled(workers, Duration::ZERO) {
            works(&runtime);
            // Each worker has its own.
            assert_eq!(threads().len(), workers);
        }
    }
}

#[test]
fn a_busy_worker_does_not_enter_the_kernel() {
    const ECHOES: usize = 100;
    let _turn = take_turn();
    let Some(runtime) = polled(1, AWAKE) else {
        return;
    };
    let enters = || runtime.metrics().total().enters;
    let echo = |from: &mut TcpStream, to: &mut TcpStream| {
        let mut byte = [0];
        from.read_exact(&mut byte).unwrap();
        to.write_all(&byte).unwrap();
    };
    runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        uthread::scope(|scope| {
            let server = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut back = stream.try_clone().unwrap();
                (0..ECHOES).for_each(|_| echo(&mut stream, &mut back));
            });
            let client = scope.spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                for _ in 0..ECHOES {
                    stream.write_all(b"x").unwrap();
                    stream.read_exact(&mut [0]).unwrap();
                }
            });
            // Until here the worker may have slept, and from now on it has something to run.
            let before = enters();
            while !(server.is_finished() && client.is_finished()) {
                yield_now();
            }
            let total = runtime.metrics().total();
            assert_eq!(total.enters, before, "{total:?}");
            assert!(total.completions >= 4 * ECHOES as u64, "{total:?}");
        });
    });
}

#[test]
fn the_thread_of_the_kernel_sleeps_and_is_woken_again_and_again() {
    const ROUNDS: usize = 200;
    let _turn = take_turn();
    let Some(runtime) = polled(1, Duration::ZERO) else {
        return;
    };
    for _ in 0..ROUNDS {
        eventually("it sleeps", || threads() == ['S']);
        runtime.run(open);
    }
}

/// Hands over an operation while the thread is about to fall asleep.
#[test]
fn no_operation_is_left_lying() {
    const ROUNDS: u32 = 500;
    let _turn = take_turn();
    let Some(runtime) = polled(1, Duration::ZERO) else {
        return;
    };
    runtime.run(|| {
        for round in 0..ROUNDS {
            open();
            // From none to a tick of the kernel beyond the millisecond after which it sleeps.
            let pause = Duration::from_micros(10) * round;
            let begin = Instant::now();
            while begin.elapsed() < pause {
                std::hint::spin_loop();
            }
        }
    });
}

#[test]
fn other_drivers_say_that_it_takes_io_uring() {
    for driver in [Driver::Epoll, Driver::Threads] {
        let builder = Runtime::builder().driver(driver).workers(1);
        let plain = builder.clone().build().unwrap();
        assert!(!plain.driver().details().contains("polling"));
        let runtime = builder.kernel_polling(AWAKE).build().unwrap();
        let details = runtime.driver().details();
        assert!(
            details.ends_with(", no kernel polling, which requires io_uring"),
            "{details}"
        );
        works(&runtime);
    }
}
