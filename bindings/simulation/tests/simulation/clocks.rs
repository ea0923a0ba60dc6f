//! Hosts whose clocks drift.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use uthread::Runtime;
use uthread_simulation::{Host, World};

use crate::drivers::on_each_driver;
use crate::servers;
use crate::times::{MS, SECOND, assert_takes, assert_takes_within};

const RATES_PPM: [i32; 3] = [100_000, -100_000, 300];

/// Returns the time of the world that passes in this one of a clock.
fn of_world(own: Duration, ppm: i32) -> Duration {
    own.mul_f64(1e6 / (1e6 + f64::from(ppm)))
}

/// Runs a host at each rate, beside a server that never answers. What it waits for takes this time by its clock.
fn assert_takes_by_host(own: Duration, wait: fn() -> io::Result<()>) {
    on_each_driver(move || {
        let world = World::new().unwrap();
        world.host("server", servers::ignore);
        uthread::sleep(MS);
        let host = world.host("host", move || {
            let begin = Instant::now();
            wait()?;
            assert_takes(own, begin.elapsed());
            Ok(())
        });
        host.wait().unwrap();
        for ppm in RATES_PPM {
            host.set_clock_drift(ppm);
            let begin = Instant::now();
            host.restart();
            host.wait().unwrap();
            assert_takes(of_world(own, ppm), begin.elapsed());
        }
    });
}

fn assert_is(kind: ErrorKind, result: io::Result<impl Sized>) {
    assert_eq!(result.err().map(|error| error.kind()), Some(kind));
}

#[test]
fn sleeps_go_by_the_clock_of_their_host() {
    assert_takes_by_host(10 * SECOND, || {
        std::thread::sleep(3 * SECOND);
        uthread::sleep(3 * SECOND);
        uthread::thread::park_timeout(3 * SECOND);
        std::thread::park_timeout(SECOND);
        Ok(())
    });
}

#[test]
fn deadlines_do() {
    assert_takes_by_host(5 * SECOND, || {
        assert!(uthread::timeout(5 * SECOND, uthread::thread::park).is_err());
        Ok(())
    });
    assert_takes_by_host(5 * SECOND, || {
        let stream = uthread::net::TcpStream::connect("server:7000")?;
        let read = || (&stream).read(&mut [0]);
        assert_is(
            ErrorKind::TimedOut,
            uthread::time::try_timeout(5 * SECOND, read),
        );
        Ok(())
    });
    assert_takes_by_host(9 * SECOND, || {
        uthread::time::interval(3 * SECOND).nth(2);
        Ok(())
    });
}

#[test]
fn timeouts_of_sockets_do() {
    assert_takes_by_host(10 * SECOND, || {
        let mut stream = TcpStream::connect("server:7000")?;
        stream.set_read_timeout(Some(5 * SECOND))?;
        assert_is(ErrorKind::WouldBlock, stream.read(&mut [0]));
        let mut stream = uthread::net::TcpStream::connect("server:7000")?;
        stream.set_read_timeout(Some(5 * SECOND))?;
        assert_is(ErrorKind::WouldBlock, stream.read(&mut [0]));
        Ok(())
    });
    // The earlier of both.
    assert_takes_by_host(4 * SECOND, || {
        let mut stream = uthread::net::TcpStream::connect("server:7000")?;
        stream.set_read_timeout(Some(7 * SECOND))?;
        let read = || stream.read(&mut [0]);
        assert_is(
            ErrorKind::TimedOut,
            uthread::time::try_timeout(4 * SECOND, read),
        );
        Ok(())
    });
}

#[test]
fn timed_waits_for_threads_do() {
    assert_takes_by_host(12 * SECOND, || {
        let (lock, condvar) = (Mutex::new(()), Condvar::new());
        let waited = condvar.wait_timeout(lock.lock().unwrap(), 3 * SECOND);
        assert!(waited.unwrap().1.timed_out());
        let (lock, condvar) = (uthread::sync::Mutex::new(()), uthread::sync::Condvar::new());
        let waited = condvar.wait_timeout(lock.lock().unwrap(), 3 * SECOND);
        assert!(waited.unwrap().1.timed_out());
        let (_sender, receiver) = std::sync::mpsc::channel::<()>();
        assert!(receiver.recv_timeout(3 * SECOND).is_err());
        let (_sender, receiver) = uthread::sync::mpsc::channel::<()>();
        assert!(receiver.recv_timeout(3 * SECOND).is_err());
        Ok(())
    });
}

#[test]
fn threads_and_tokio_do() {
    assert_takes_by_host(6 * SECOND, || {
        std::thread::spawn(|| std::thread::sleep(3 * SECOND))
            .join()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let begin = Instant::now();
            tokio::time::sleep(3 * SECOND - 2 * MS).await;
            // Tokio rounds up.
            tokio::time::sleep((3 * SECOND).saturating_sub(begin.elapsed()) / 2).await;
            while begin.elapsed() < 3 * SECOND {
                uthread::sleep(MS / 8);
            }
        });
        Ok(())
    });
}

#[test]
fn connecting_times_out_by_the_clock_of_its_host() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.host("down", || Ok(())).crash();
        let host = world.host("host", || {
            uthread::sleep(MS);
            let begin = Instant::now();
            assert_is(ErrorKind::TimedOut, TcpStream::connect("down:7000"));
            assert_takes(127 * SECOND, begin.elapsed());
            Ok(())
        });
        host.set_clock_drift(-100_000);
        host.wait().unwrap();
    });
}

#[test]
fn sending_times_out_by_the_clock_of_its_host() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(MS..MS);
        world.host("server", servers::ignore);
        uthread::sleep(MS);
        let host = world.host("host", || {
            let mut stream = TcpStream::connect("server:7000")?;
            stream.set_write_timeout(Some(10 * SECOND))?;
            uthread::sleep(SECOND);
            let begin = Instant::now();
            assert_is(ErrorKind::WouldBlock, stream.write_all(&[0; 4 << 20]));
            assert_takes(10 * SECOND, begin.elapsed());
            Ok(())
        });
        host.set_clock_drift(100_000);
        uthread::sleep(SECOND / 2);
        world.links().cut();
        let begin = Instant::now();
        host.wait().unwrap();
        // Connecting takes 2 ms.
        let taken = of_world(11 * SECOND, 100_000) - SECOND / 2;
        assert_takes_within(3 * MS, taken, begin.elapsed());
    });
}

#[allow(unsafe_code, reason = "a function of C")]
fn nanoseconds(clock: libc::clockid_t) -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is valid for a write.
    assert_eq!(unsafe { libc::clock_gettime(clock, &raw mut now) }, 0);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

#[test]
fn all_clocks_of_a_host_go_at_its_rate() {
    on_each_driver(|| {
        const CLOCKS: [libc::clockid_t; 6] = [
            libc::CLOCK_MONOTONIC,
            libc::CLOCK_MONOTONIC_RAW,
            libc::CLOCK_MONOTONIC_COARSE,
            libc::CLOCK_BOOTTIME,
            libc::CLOCK_REALTIME,
            libc::CLOCK_REALTIME_COARSE,
        ];
        let world = World::new().unwrap();
        let host = world.host("host", || {
            let (date, instant, before) =
                (SystemTime::now(), Instant::now(), CLOCKS.map(nanoseconds));
            uthread::sleep(100 * SECOND);
            let taken = CLOCKS.map(nanoseconds);
            for (after, before) in taken.into_iter().zip(before) {
                assert_takes(100 * SECOND, Duration::from_nanos((after - before) as u64));
            }
            assert_takes(100 * SECOND, instant.elapsed());
            assert_takes(100 * SECOND, date.elapsed().unwrap());
            Ok(())
        });
        let begin = Instant::now();
        host.set_clock_drift(-50_000);
        host.wait().unwrap();
        assert_takes(of_world(100 * SECOND, -50_000), begin.elapsed());
    });
}

#[test]
fn the_date_drifts_and_jumps() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let before = SystemTime::now();
        let host = world.host("host", move || {
            uthread::sleep(110 * SECOND);
            assert_takes(170 * SECOND, before.elapsed().unwrap());
            Ok(())
        });
        host.set_clock_drift(100_000);
        host.set_clock_ahead(60 * SECOND);
        host.wait().unwrap();
        assert_takes(100 * SECOND, before.elapsed().unwrap());
    });
}

/// Runs a host that waits for 20 s by its clock, whose rate changes after 10 s and 15 s of the world.
fn assert_changes(wait: fn()) {
    on_each_driver(move || {
        let world = World::new().unwrap();
        let host = world.host("host", move || {
            let begin = Instant::now();
            wait();
            assert_takes(20 * SECOND, begin.elapsed());
            Ok(())
        });
        let begin = Instant::now();
        uthread::sleep(10 * SECOND);
        host.set_clock_drift(100_000);
        uthread::sleep(5 * SECOND);
        host.set_clock_drift(-50_000);
        host.wait().unwrap();
        // 10 s and 5.5 s have passed, and 4.5 s are left.
        assert_takes(15 * SECOND + of_world(4500 * MS, -50_000), begin.elapsed());
    });
}

#[test]
fn a_wait_that_has_begun_goes_by_the_new_rate() {
    assert_changes(|| std::thread::sleep(20 * SECOND));
    assert_changes(|| assert!(uthread::timeout(20 * SECOND, uthread::thread::park).is_err()));
    assert_changes(|| {
        let listener = uthread::net::TcpListener::bind("0.0.0.0:7000").unwrap();
        let accept = || listener.accept().map(drop);
        assert_is(
            ErrorKind::TimedOut,
            uthread::time::try_timeout(20 * SECOND, accept),
        );
    });
    assert_changes(|| {
        let socket = uthread::net::UdpSocket::bind("0.0.0.0:7000").unwrap();
        socket.set_read_timeout(Some(20 * SECOND)).unwrap();
        assert_is(ErrorKind::WouldBlock, socket.recv(&mut [0]));
    });
}

#[test]
fn a_host_changes_its_own_rate() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let own = Arc::new(Mutex::new(None::<Host>));
        let host = Arc::clone(&own);
        let program = move || {
            let begin = Instant::now();
            let thread = std::thread::spawn(|| {
                let socket = uthread::net::UdpSocket::bind("0.0.0.0:7000")?;
                socket.set_read_timeout(Some(20 * SECOND))?;
                assert_is(ErrorKind::WouldBlock, socket.recv(&mut [0]));
                io::Result::Ok(())
            });
            std::thread::sleep(11 * SECOND);
            let host = host.lock().unwrap().take().unwrap();
            host.set_clock_drift(-100_000);
            thread.join().unwrap()?;
            assert_takes(20 * SECOND, begin.elapsed());
            Ok(())
        };
        let host = world.host("host", program);
        *own.lock().unwrap() = Some(host.clone());
        let begin = Instant::now();
        host.set_clock_drift(100_000);
        host.wait().unwrap();
        assert_takes(20 * SECOND, begin.elapsed());
    });
}

#[test]
fn the_waits_of_others_do_not_change() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let [host, other] = ["host", "other"].map(|name| {
            world.host(name, || {
                let begin = Instant::now();
                std::thread::sleep(20 * SECOND);
                assert_takes(20 * SECOND, begin.elapsed());
                Ok(())
            })
        });
        let begin = Instant::now();
        uthread::sleep(SECOND);
        host.set_clock_drift(-100_000);
        other.wait().unwrap();
        assert_takes(20 * SECOND, begin.elapsed());
        host.wait().unwrap();
        assert_takes(SECOND + of_world(19 * SECOND, -100_000), begin.elapsed());
    });
}

#[test]
fn a_clock_never_goes_back() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let host = world.host("host", || {
            let (mut last, mut date) = (Instant::now(), SystemTime::now());
            for step in 0..10_000_u32 {
                std::thread::sleep(Duration::from_micros((step % 7 * 100).into()));
                let (now, today) = (Instant::now(), SystemTime::now());
                assert!(now >= last && today >= date);
                (last, date) = (now, today);
            }
            Ok(())
        });
        for step in 0..1000 {
            host.set_clock_drift([100_000, -100_000, 0][step % 3]);
            uthread::sleep(Duration::from_micros(977));
        }
        host.wait().unwrap();
    });
}

#[test]
fn a_clock_that_is_right_again_stays_ahead() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let begin = Instant::now();
        let host = world.host("host", move || {
            std::thread::sleep(11 * SECOND);
            let soon = Instant::now();
            assert_takes(11 * SECOND, soon - begin);
            std::thread::sleep(5 * SECOND);
            assert_takes(5 * SECOND, soon.elapsed());
            Ok(())
        });
        host.set_clock_drift(100_000);
        uthread::sleep(10 * SECOND + MS);
        host.set_clock_drift(0);
        host.wait().unwrap();
        assert_takes(15 * SECOND, begin.elapsed());
    });
}

#[test]
fn a_message_takes_the_time_of_the_world() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(SECOND..SECOND);
        world.set_resolver(SECOND..SECOND, false);
        world.host("server", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:7000")?.accept()?;
            stream.read_exact(&mut [0])?;
            stream.write_all(b"1")?;
            uthread::sleep(10 * SECOND);
            Ok(())
        });
        uthread::sleep(MS);
        let host = world.host("host", || {
            // A name, a connection, a question and its answer.
            let begin = Instant::now();
            let mut stream = TcpStream::connect("server:7000")?;
            assert_takes(3300 * MS, begin.elapsed());
            stream.write_all(b"1")?;
            stream.read_exact(&mut [0])?;
            assert_takes(5500 * MS, begin.elapsed());
            Ok(())
        });
        host.set_clock_drift(100_000);
        let begin = Instant::now();
        host.wait().unwrap();
        assert_takes(5 * SECOND, begin.elapsed());
    });
}

#[test]
#[should_panic = "a clock is off by 100,000 ppm at most, not -100001"]
fn a_clock_that_no_kernel_has_is_refused() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.host("host", || Ok(())).set_clock_drift(-100_001);
    });
}

/// Two hosts take a lease in turn, which the slower one believes to have for longer than it has.
fn trace(seed: u64) -> String {
    let builder = uthread_simulation::seeded(Runtime::builder(), seed);
    builder.build().unwrap().run(|| {
        let world = World::new().unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let hosts = ["a", "b"].map(|name| {
            let order = Arc::clone(&order);
            world.host(name, move || {
                for _ in 0..100 {
                    std::thread::sleep(10 * MS);
                    order.lock().unwrap().push((name, Instant::now()));
                }
                Ok(())
            })
        });
        hosts[0].set_clock_drift(20_000);
        uthread::sleep(SECOND / 2);
        hosts[0].set_clock_drift(-90_000);
        hosts.iter().for_each(|host| host.wait().unwrap());
        let begin = order.lock().unwrap()[0].1;
        let order = order.lock().unwrap();
        let order = order
            .iter()
            .map(|(name, time)| format!("{name} {:?}\n", *time - begin));
        world.trace() + &order.collect::<String>()
    })
}

#[test]
fn a_seed_decides_what_happens_with_a_drift() {
    for seed in 0..3 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
    assert!(trace(0).contains("a: the clock drifts by -90000 ppm (fault 2)"));
}
