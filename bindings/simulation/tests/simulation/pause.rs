//! Hosts that are paused and resumed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use uthread::Runtime;
use uthread_simulation::{Host, World};

use crate::drivers::on_each_driver;
use crate::servers;
use crate::times::{MS, SECOND, assert_takes};

/// Runs a host, which is paused from the first second to the eleventh.
fn with_pause(program: fn() -> io::Result<()>) {
    on_each_driver(move || {
        let world = World::new().unwrap();
        let host = world.host("host", program);
        pause(&host);
        host.wait().unwrap();
    });
}

fn pause(host: &Host) {
    uthread::sleep(SECOND);
    host.pause();
    assert!(host.is_up());
    uthread::sleep(10 * SECOND);
    host.resume();
}

/// Waits in some way. Returns how long it has taken by both clocks.
fn time_of(wait: impl FnOnce()) -> Duration {
    let (date, begin) = (SystemTime::now(), Instant::now());
    wait();
    assert_takes(begin.elapsed(), date.elapsed().unwrap());
    begin.elapsed()
}

#[test]
fn sleeps_end_late() {
    with_pause(|| {
        assert_takes(11 * SECOND, time_of(|| std::thread::sleep(2 * SECOND)));
        assert_takes(SECOND, time_of(|| uthread::sleep(SECOND)));
        Ok(())
    });
}

#[test]
fn sleeps_that_are_long_enough_end_in_time() {
    with_pause(|| {
        assert_takes(12 * SECOND, time_of(|| std::thread::sleep(12 * SECOND)));
        Ok(())
    });
}

#[test]
fn deadlines_and_timed_waits_end_late() {
    with_pause(|| {
        uthread::spawn(|| {
            let wait = || assert!(uthread::timeout(2 * SECOND, uthread::thread::park).is_err());
            assert_takes(11 * SECOND, time_of(wait));
        });
        let thread = std::thread::spawn(|| {
            let (lock, condvar) = (Mutex::new(()), Condvar::new());
            let wait = || {
                let waited = condvar.wait_timeout(lock.lock().unwrap(), 2 * SECOND);
                assert!(waited.unwrap().1.timed_out());
            };
            assert_takes(11 * SECOND, time_of(wait));
        });
        thread.join().unwrap();
        // The events in the pause are skipped, except for the last one.
        let begin = Instant::now();
        let dues = uthread::time::interval(3 * SECOND).take(2);
        let dues: Vec<_> = dues.map(|due| due - begin).collect();
        assert_takes(3 * SECOND, dues[0]);
        assert_takes(6 * SECOND, dues[1]);
        Ok(())
    });
}

#[test]
fn a_fiber_that_can_run_does_not() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let steps = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&steps);
        // It never waits.
        let host = world.host("host", move || {
            loop {
                count.fetch_add(1, Ordering::Relaxed);
                uthread::yield_now();
            }
        });
        let steps = || steps.load(Ordering::Relaxed);
        while steps() < 10 {
            uthread::yield_now();
        }
        host.pause();
        let before = steps();
        uthread::sleep(60 * SECOND);
        assert_eq!(steps(), before);
        host.resume();
        while steps() < before + 10 {
            uthread::yield_now();
        }
    });
}

/// A leader that writes as long as it has its lease, and another one that may once the lease has ended.
#[test]
fn a_leader_sees_that_its_lease_has_ended() {
    on_each_driver(|| {
        const LEASE: Duration = Duration::from_secs(5);
        let world = World::new().unwrap();
        world.links().set_latency(MS..MS);
        let ends = Arc::new(Mutex::new(Instant::now() + LEASE));
        let writes = Arc::new(Mutex::new(Vec::new()));
        let lead = |name: &'static str, is_first: bool| {
            let (ends, writes) = (Arc::clone(&ends), Arc::clone(&writes));
            move || {
                let own_end = *ends.lock().unwrap();
                if !is_first {
                    uthread::thread::sleep_until(own_end);
                    *ends.lock().unwrap() = Instant::now() + 1000 * LEASE;
                }
                while !is_first || Instant::now() < own_end {
                    writes.lock().unwrap().push((name, Instant::now()));
                    std::thread::sleep(SECOND);
                }
                Ok(())
            }
        };
        let first = world.host("first", lead("first", true));
        world.host("second", lead("second", false));
        uthread::sleep(2500 * MS);
        first.pause();
        uthread::sleep(20 * SECOND);
        first.resume();
        first.wait().unwrap();
        let leaders: Vec<_> = writes
            .lock()
            .unwrap()
            .iter()
            .map(|(name, _)| *name)
            .collect();
        assert!(leaders.len() > 15, "{leaders:?}");
        assert_eq!(leaders[..3], ["first"; 3]);
        assert_eq!(leaders[3..], vec!["second"; leaders.len() - 3]);
    });
}

#[test]
fn what_is_sent_meanwhile_is_read_after_the_resume() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(10 * MS..10 * MS);
        let server = world.host("server", || {
            let socket = UdpSocket::bind("0.0.0.0:7000")?;
            let listener = TcpListener::bind("0.0.0.0:7000")?;
            let (mut stream, _) = listener.accept()?;
            let mut buffer = [0; 100];
            assert_eq!(stream.read(&mut buffer)?, 1);
            stream.write_all(b"a")?; // Arrives in the pause.
            assert_eq!(stream.read(&mut buffer)?, 5);
            assert_eq!(socket.recv(&mut buffer)?, 3);
            // From the client's second connection, which was made in the pause.
            assert_eq!(listener.accept()?.0.read(&mut buffer)?, 2);
            stream.write_all(b"b")
        });
        let client = world.host("client", || {
            uthread::sleep(MS);
            let mut stream = TcpStream::connect("server:7000")?;
            uthread::sleep(964 * MS);
            stream.write_all(b"1")?;
            stream.read_exact(&mut [0])?;
            stream.set_read_timeout(Some(SECOND))?;
            for _ in 0..5 {
                stream.write_all(b"2")?;
                // Nobody answers.
                let silence = stream.read(&mut [0]).unwrap_err();
                assert_eq!(silence.kind(), ErrorKind::WouldBlock);
            }
            UdpSocket::bind("0.0.0.0:0")?.send_to(b"345", "server:7000")?;
            TcpStream::connect("server:7000")?.write_all(b"67")?;
            stream.set_read_timeout(None)?;
            stream.read_exact(&mut [0])
        });
        pause(&server);
        client.wait().unwrap();
        server.wait().unwrap();
    });
}

#[test]
fn a_read_times_out_in_the_pause_although_bytes_come_later() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let server = world.host("server", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:7000")?.accept()?;
            stream.set_read_timeout(Some(2 * SECOND))?;
            stream.read_exact(&mut [0])?; // Comes in time.
            let late = stream.read(&mut [0]).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::WouldBlock);
            stream.set_read_timeout(Some(MS))?;
            stream.read_exact(&mut [0])
        });
        let client = world.host("client", || {
            uthread::sleep(MS);
            let mut stream = TcpStream::connect("server:7000")?;
            uthread::sleep(1500 * MS);
            stream.write_all(b"1")?;
            uthread::sleep(12 * SECOND);
            stream.write_all(b"2")?;
            uthread::sleep(10 * SECOND);
            Ok(())
        });
        pause(&server);
        uthread::sleep(SECOND);
        server.pause();
        uthread::sleep(5 * SECOND);
        server.resume();
        server.wait().unwrap();
        client.wait().unwrap();
    });
}

struct CountDrop<'a>(&'a AtomicU64);

impl Drop for CountDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_host_crashes_while_it_is_paused() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let (ends, drops) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (count, dropped) = (Arc::clone(&ends), Arc::clone(&drops));
        let host = world.host("host", move || {
            let _dropped = CountDrop(&dropped);
            uthread::sleep(2 * SECOND);
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        uthread::sleep(SECOND);
        host.pause();
        uthread::sleep(SECOND / 2);
        host.crash();
        assert!(!host.is_up());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        host.pause(); // Does nothing, as the host is down.
        uthread::sleep(60 * SECOND);
        assert_eq!(ends.load(Ordering::Relaxed), 0);
        host.restart();
        uthread::sleep(SECOND);
        host.pause();
        uthread::sleep(60 * SECOND);
        let begin = Instant::now();
        host.restart();
        host.wait().unwrap();
        assert_takes(2 * SECOND, begin.elapsed());
        assert_eq!(ends.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_host_is_paused_before_its_program_starts() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let begin = Instant::now();
        let host = world.host("host", move || {
            assert_takes(10 * SECOND, begin.elapsed());
            Ok(())
        });
        host.pause();
        host.pause();
        uthread::sleep(10 * SECOND);
        host.resume();
        host.resume();
        host.wait().unwrap();
        assert_eq!(world.trace().matches("pauses").count(), 1);
        assert_eq!(world.trace().matches("resumes").count(), 1);
    });
}

#[test]
fn a_host_pauses_itself_and_its_threads() {
    on_each_driver(|| {
        let world = Arc::new(World::new().unwrap());
        let own = Arc::new(Mutex::new(None::<Host>));
        let host = Arc::clone(&own);
        let program = move || {
            let thread = std::thread::spawn(|| {
                assert_takes(12 * SECOND, time_of(|| std::thread::sleep(5 * SECOND)));
            });
            std::thread::sleep(2 * SECOND);
            let host = host.lock().unwrap().clone().unwrap();
            assert_takes(10 * SECOND, time_of(|| host.pause()));
            thread.join().unwrap();
            Ok(())
        };
        let host = world.host("host", program);
        *own.lock().unwrap() = Some(host.clone());
        uthread::sleep(12 * SECOND);
        host.resume();
        host.wait().unwrap();
        own.lock().unwrap().take();
    });
}

#[test]
fn other_hosts_stay_paused() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let nap = || {
            std::thread::sleep(SECOND);
            Ok(())
        };
        let hosts = ["a", "b"].map(|name| world.host(name, nap));
        uthread::sleep(SECOND / 2);
        hosts.iter().for_each(Host::pause);
        uthread::sleep(10 * SECOND);
        let begin = Instant::now();
        hosts[0].resume();
        hosts[0].wait().unwrap();
        assert!(begin.elapsed() < MS);
        let other = uthread::timeout(10 * SECOND, || hosts[1].wait());
        assert!(other.is_err(), "the other one runs");
    });
}

/// A runtime that ends does not wait for a host which nobody resumes.
#[uthread::test(virtual_time)]
#[should_panic = "deadlock: 2 fibers wait, and nothing can wake one of them"]
fn waiting_for_a_paused_host_is_a_deadlock() {
    let world = World::new().unwrap();
    let host = world.host("host", || {
        uthread::sleep(2 * SECOND);
        Ok(())
    });
    uthread::sleep(SECOND);
    host.pause();
    let _ = host.wait();
}

#[test]
fn a_runtime_ends_with_a_paused_host() {
    for is_lost in [false, true] {
        let builder = uthread_simulation::virtual_time(Runtime::builder());
        builder.build().unwrap().run(move || {
            let world = World::new().unwrap();
            let host = world.host("host", || {
                loop {
                    uthread::sleep(SECOND);
                }
            });
            uthread::sleep(SECOND / 2);
            host.pause();
            uthread::sleep(SECOND);
            if is_lost {
                let directory = world.directory("host").unwrap();
                std::mem::forget(world);
                std::fs::remove_dir_all(directory.parent().unwrap()).unwrap();
            }
        });
    }
}

/// Runs clients of a server that is paused at times. Returns what has happened.
fn trace(seed: u64) -> String {
    let builder = uthread_simulation::seeded(Runtime::builder(), seed);
    builder.build().unwrap().run(|| {
        let world = World::new().unwrap();
        world.links().set_latency(MS..20 * MS);
        let server = world.host("server", servers::echo);
        uthread::sleep(MS);
        let clients = ["a", "b", "c"].map(|name| {
            world.host(name, || {
                let mut stream = TcpStream::connect("server:7000")?;
                for _ in 0..50 {
                    stream.write_all(b"1")?;
                    stream.read_exact(&mut [0])?;
                }
                Ok(())
            })
        });
        for _ in 0..5 {
            uthread::sleep(100 * MS);
            server.pause();
            uthread::sleep(100 * MS);
            server.resume();
        }
        clients.iter().for_each(|client| client.wait().unwrap());
        world.trace()
    })
}

#[test]
fn a_seed_decides_what_happens_with_pauses() {
    for seed in 0..5 {
        assert_eq!(trace(seed), trace(seed), "seed {seed}");
    }
    assert_ne!(trace(1), trace(2));
    assert!(trace(1).contains("server: pauses (fault 1)"));
}
