//! Programs in virtual time, on each driver.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use uthread::{Driver, Runtime};

use crate::drivers::on_each_driver;
use crate::times::assert_takes_within;

const HOUR: Duration = Duration::from_secs(3600);

/// How late a timer may be.
const TICK: Duration = Duration::from_micros(132);

/// Returns the virtual time that `f` takes, and expects that it takes little real time.
fn time_of<T>(f: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = f();
    (value, start.elapsed())
}

#[track_caller]
fn assert_takes(expected: Duration, taken: Duration) {
    assert_takes_within(TICK, expected, taken);
}

#[test]
fn sleeps_of_each_kind_take_no_time() {
    let real = Instant::now();
    on_each_driver(|| {
        let date = SystemTime::now();
        let (_, taken) = time_of(|| uthread::sleep(HOUR));
        assert_takes(HOUR, taken);
        let (_, taken) = time_of(|| thread::sleep(HOUR));
        assert_takes(HOUR, taken);
        let (_, taken) = time_of(|| uthread::timeout(HOUR, uthread::thread::park));
        assert_takes(HOUR, taken);
        let by_date = date.elapsed().unwrap();
        assert!((3 * HOUR..3 * HOUR + 3 * TICK).contains(&by_date));
    });
    assert!(real.elapsed() < HOUR);
}

/// Sends requests in two parts each, as by a header and a body. By Nagle's algorithm, the second one would wait for
/// the receiver's acknowledgement, which the kernel delays.
fn send_in_parts(mut stream: impl Read + Write) -> io::Result<()> {
    for _ in 0..50 {
        stream.write_all(b"1")?;
        stream.write_all(b"2")?;
        stream.read_exact(&mut [0])?;
    }
    Ok(())
}

#[track_caller]
fn assert_sends_at_once(stream: impl Read + Write) {
    let (sent, taken) = time_of(|| send_in_parts(stream));
    sent.unwrap();
    assert_takes(Duration::ZERO, taken);
}

/// Answers each two bytes with one.
fn answer_in_parts(mut stream: impl Read + Write) -> io::Result<()> {
    while stream.read_exact(&mut [0; 2]).is_ok() {
        stream.write_all(b"3")?;
    }
    Ok(())
}

#[test]
fn parts_of_a_message_arrive_before_time_goes_on() {
    on_each_driver(|| {
        uthread::spawn(|| {
            loop {
                uthread::sleep(Duration::from_millis(1));
            }
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        uthread::spawn(move || answer_in_parts(listener.accept()?.0));
        assert_sends_at_once(std::net::TcpStream::connect(address).unwrap());

        let listener = uthread::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        uthread::spawn(move || answer_in_parts(listener.accept()?.0));
        assert_sends_at_once(uthread::net::TcpStream::connect(address).unwrap());
    });
}

#[test]
#[allow(unsafe_code, reason = "functions of the C library")]
fn the_clocks_of_c_agree() {
    on_each_driver(|| {
        let read = |clock| {
            let mut time = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            // SAFETY: the time is valid for a write.
            assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut time) }, 0);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        let (monotonic, cpu) = (
            read(libc::CLOCK_MONOTONIC),
            read(libc::CLOCK_THREAD_CPUTIME_ID),
        );
        // SAFETY: a null pointer is allowed.
        let date = unsafe { libc::time(std::ptr::null_mut()) };
        uthread::sleep(HOUR);
        assert_takes(HOUR, read(libc::CLOCK_MONOTONIC) - monotonic);
        assert!(read(libc::CLOCK_THREAD_CPUTIME_ID) - cpu < HOUR);
        let mut now = libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        // SAFETY: the time is valid for a write.
        unsafe { libc::gettimeofday(&raw mut now, std::ptr::null_mut()) };
        assert!([3600, 3601].contains(&(now.tv_sec - date)));
    });
}

#[test]
fn time_stands_still_while_a_fiber_computes() {
    on_each_driver(|| {
        let sleeper = uthread::spawn(|| time_of(|| uthread::sleep(Duration::from_millis(1))).1);
        let (_, taken) = time_of(|| {
            for _ in 0..1000 {
                std::hint::black_box((0..1000).sum::<u64>());
                uthread::yield_now();
            }
        });
        assert_eq!(taken, Duration::ZERO);
        assert_takes(Duration::from_millis(1), sleeper.join().unwrap());
    });
}

#[test]
fn loops_that_read_a_clock_end() {
    on_each_driver(|| {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let timer = uthread::spawn(|| uthread::sleep(Duration::from_millis(50)));
        while !timer.is_finished() && start.elapsed() < HOUR {
            thread::yield_now();
        }
        assert!(timer.is_finished());
        assert_takes(Duration::from_millis(100), start.elapsed());
    });
}

#[test]
fn sleepers_wake_in_the_order_of_their_times() {
    on_each_driver(|| {
        let (sender, receiver) = uthread::sync::mpsc::channel();
        for minutes in [30, 10, 20] {
            let sender = sender.clone();
            uthread::spawn(move || {
                thread::sleep(Duration::from_secs(60 * minutes));
                sender.send(minutes).unwrap();
            });
        }
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [10, 20, 30]);
    });
}

/// Answers what it gets after a minute, and ends at the end of the stream.
fn echo_slowly(mut stream: impl Read + Write) -> io::Result<()> {
    let mut buffer = [0; 16];
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        thread::sleep(Duration::from_secs(60));
        stream.write_all(&buffer[..length])?;
    }
}

fn ask(mut stream: impl Read + Write) -> Duration {
    let (_, taken) = time_of(|| {
        for _ in 0..10 {
            stream.write_all(b"ping").unwrap();
            stream.read_exact(&mut [0; 4]).unwrap();
        }
    });
    taken
}

#[test]
fn what_is_sent_arrives_before_time_goes_on() {
    on_each_driver(|| {
        let listener = uthread::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        uthread::spawn(move || echo_slowly(listener.accept().unwrap().0));
        let client = uthread::net::TcpStream::connect(address).unwrap();
        client
            .set_read_timeout(Some(2 * Duration::from_secs(60)))
            .unwrap();
        let taken = ask(client);
        assert!(taken < Duration::from_secs(600) + 10 * TICK && taken >= Duration::from_secs(600));
    });
}

#[test]
fn sockets_and_channels_of_std_work() {
    on_each_driver(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        uthread::spawn(move || echo_slowly(listener.accept().unwrap().0));
        let client = std::net::TcpStream::connect(address).unwrap();
        let taken = ask(client);
        assert!(taken < Duration::from_secs(600) + 10 * TICK && taken >= Duration::from_secs(600));

        let (sender, receiver) = mpsc::channel();
        uthread::spawn(move || {
            thread::sleep(HOUR);
            sender.send(1).unwrap();
        });
        let late = receiver.recv_timeout(HOUR / 2);
        assert_eq!(late, Err(mpsc::RecvTimeoutError::Timeout));
        assert_eq!(receiver.recv_timeout(HOUR), Ok(1));
    });
}

/// Sleeps by a system call that no function of the C library makes.
#[allow(unsafe_code, reason = "a system call")]
fn sleep_in_kernel() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    let rest = std::ptr::null_mut::<libc::timespec>();
    // SAFETY: the time is valid for a read, and no rest is wanted.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const time, rest) };
}

#[test]
fn time_stands_still_while_a_thread_outside_holds_a_lock_of_the_process() {
    static LOCK: Mutex<()> = Mutex::new(());
    static IS_WANTED: AtomicBool = AtomicBool::new(false);
    for _ in 0..10 {
        let held = LOCK.lock().unwrap();
        let fiber = thread::spawn(|| {
            let builder = uthread_simulation::virtual_time(Runtime::builder());
            builder.build().unwrap().run(|| {
                let _other = uthread::spawn(|| uthread::sleep(HOUR));
                uthread::sleep(TICK); // The other one has begun.
                let start = Instant::now();
                IS_WANTED.store(true, Ordering::Relaxed);
                drop(LOCK.lock().unwrap());
                start.elapsed()
            })
        });
        while !IS_WANTED.swap(false, Ordering::Relaxed) {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(1)); // The fiber waits, most likely.
        drop(held);
        assert_eq!(fiber.join().unwrap(), Duration::ZERO);
    }
}

#[test]
fn time_stands_still_during_calls_outside() {
    on_each_driver(|| {
        let timer = uthread::spawn(|| uthread::timeout(HOUR, uthread::thread::park));
        let file = tempfile::NamedTempFile::new().unwrap();
        let (_, taken) = time_of(|| {
            uthread::fs::write(file.path(), vec![1; 1 << 20]).unwrap();
            assert_eq!(uthread::fs::read(file.path()).unwrap().len(), 1 << 20);
            uthread::fs::File::open(file.path())
                .unwrap()
                .sync_all()
                .unwrap();
            uthread::blocking(sleep_in_kernel);
            sleep_in_kernel(); // A fiber may block its thread.
        });
        assert_eq!(taken, Duration::ZERO);
        assert!(timer.join().unwrap().is_err());
    });
}

#[test]
fn threads_are_fibers() {
    thread_local!(static OWN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    on_each_driver(|| {
        let worker = rustix::thread::gettid();
        let builder = thread::Builder::new().name("other".to_owned());
        let other = builder.spawn(move || {
            OWN.set(1);
            assert_eq!(rustix::thread::gettid(), worker);
            assert_eq!(thread::current().name(), Some("other"));
            thread::park_timeout(HOUR);
            "done"
        });
        let (result, taken) = time_of(|| other.unwrap().join());
        assert_eq!(result.unwrap(), "done");
        assert_takes(HOUR, taken);
        assert_eq!(OWN.get(), 0);
        let (_, taken) = time_of(|| {
            thread::scope(|scope| {
                let sleeper = |minutes: u64| {
                    scope.spawn(move || thread::sleep(Duration::from_secs(60 * minutes)));
                };
                (1..=60_u64).for_each(sleeper);
            });
        });
        assert_takes(HOUR, taken);
        drop(thread::spawn(|| thread::sleep(HOUR)));
        assert!(thread::spawn(|| panic!("on purpose")).join().is_err());
    });
    // Elsewhere they are threads.
    let own = rustix::thread::gettid();
    let other = thread::spawn(rustix::thread::gettid).join().unwrap();
    assert_ne!(own, other);
}

#[test]
fn a_pipe_takes_no_time() {
    on_each_driver(|| {
        let (mut reader, mut writer) = uthread::io::pipe().unwrap();
        let fiber = uthread::spawn(move || {
            uthread::sleep(HOUR);
            writer.write_all(b"late").unwrap();
        });
        let mut text = String::new();
        let (_, taken) = time_of(|| reader.read_to_string(&mut text).unwrap());
        assert_eq!(text, "late");
        assert_takes(HOUR, taken);
        fiber.join().unwrap();
    });
}

#[uthread::test(virtual_time)]
fn the_attribute_makes_time_virtual() {
    assert_takes(HOUR, time_of(|| thread::sleep(HOUR)).1);
}

#[uthread::test(virtual_time)]
#[should_panic = "deadlock: 2 fibers wait, and nothing can wake one of them\n    cycle: fiber"]
fn a_deadlock_ends_the_test_with_its_cycle() {
    use uthread::sync::Mutex;
    static LOCKS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
    let lock = |first: usize| {
        let _first = LOCKS[first].lock().unwrap();
        uthread::sleep(HOUR);
        let _second = LOCKS[1 - first].lock();
    };
    let other = uthread::spawn(move || lock(1));
    lock(0);
    let _ = other.join();
}

#[uthread::test(virtual_time)]
#[should_panic = "deadlock: 1 fiber waits, and nothing can wake it"]
fn a_listener_without_clients_is_a_deadlock() {
    let listener = uthread::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _ = listener.accept();
}

#[uthread::test(virtual_time, limit = Duration::from_millis(200))]
#[should_panic = "the test has not ended within its limit of 200ms\n    1 fiber"]
fn a_test_that_never_ends_is_ended() {
    loop {
        uthread::sleep(HOUR);
    }
}

#[uthread::test(limit = Duration::from_millis(200))]
#[should_panic = "the test has not ended within its limit of 200ms"]
fn a_test_in_real_time_may_have_a_limit() {
    uthread::sleep(HOUR);
}

#[uthread::test(limit = HOUR)]
fn a_limit_does_not_delay_the_end() {}

#[test]
fn what_cannot_be_is_refused() {
    let builder = || uthread_simulation::virtual_time(Runtime::builder());
    let error = builder().workers(2).build().unwrap_err();
    assert_eq!(error.to_string(), "2 workers with virtual time: choose 1");
    let error = builder().driver(Driver::Threads).build().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

#[test]
fn a_runtime_without_fibers_has_no_deadlock() {
    let builder = uthread_simulation::virtual_time(Runtime::builder());
    let runtime = builder.build().unwrap();
    thread::sleep(Duration::from_millis(3200));
    assert_takes(HOUR, runtime.run(|| time_of(|| uthread::sleep(HOUR)).1));
}

#[test]
fn runtimes_with_and_without_are_apart() {
    let builder = uthread_simulation::virtual_time(Runtime::builder());
    let runtime = builder.build().unwrap();
    let fiber = runtime.spawn(|| {
        uthread::sleep(HOUR);
        Instant::now()
    });
    let there = fiber.join().unwrap();
    let here = uthread::run(Instant::now);
    assert!(there - HOUR < here && here < there && Instant::now() < there);
}
