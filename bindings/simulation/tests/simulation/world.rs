//! Worlds: hosts, their network and their disks, on each driver.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::ToSocketAddrs;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use uthread::Runtime;
use uthread_simulation::World;

use crate::drivers::on_each_driver;
use crate::times::{MS, SECOND, assert_takes};

fn every(latency: Duration) -> std::ops::Range<Duration> {
    latency..latency
}

/// A server that echoes, in code of `std`.
fn echo() -> io::Result<()> {
    let listener = TcpListener::bind("0.0.0.0:7000")?;
    for stream in listener.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
        });
    }
    Ok(())
}

/// Connects to the server, once that listens.
fn connect(limit: Option<Duration>) -> io::Result<TcpStream> {
    uthread::sleep(MS);
    let stream = TcpStream::connect("server:7000")?;
    stream.set_read_timeout(limit)?;
    Ok(stream)
}

fn ask(mut stream: &TcpStream) -> io::Result<Duration> {
    let start = Instant::now();
    stream.write_all(b"1")?;
    stream.read_exact(&mut [0])?;
    Ok(start.elapsed())
}

#[test]
fn a_message_takes_the_latency_of_each_link() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.host("server", echo);
        world.host("client", || Ok(()));
        world.links().set_latency(every(10 * MS));
        world.link("server", "client").set_latency(every(30 * MS));
        let client = world.host("other", || {
            let begin = Instant::now();
            let stream = connect(None)?;
            assert_takes(21 * MS, begin.elapsed());
            assert_takes(20 * MS, ask(&stream)?);
            assert_eq!(stream.peer_addr()?.port(), 7000);
            assert_ne!(stream.peer_addr()?.ip(), stream.local_addr()?.ip());
            Ok(())
        });
        client.wait().unwrap();
    });
}

#[test]
fn the_library_sends_like_std() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(every(10 * MS));
        world.host("server", || {
            let listener = uthread::net::TcpListener::bind("[::]:7000")?;
            for stream in listener.incoming() {
                let mut stream = stream?;
                uthread::spawn(move || {
                    let mut byte = [0];
                    while stream.read(&mut byte).is_ok_and(|count| count > 0) {
                        let pieces = [io::IoSlice::new(&byte), io::IoSlice::new(&byte)];
                        if stream.write_vectored(&pieces).is_err() {
                            return;
                        }
                    }
                });
            }
            Ok(())
        });
        let client = world.host("client", || {
            uthread::sleep(MS);
            let mut stream = uthread::net::TcpStream::connect("server:7000")?;
            let begin = Instant::now();
            stream.write_all(b"1")?;
            stream.read_exact(&mut [0; 2])?;
            assert_takes(20 * MS, begin.elapsed());
            Ok(())
        });
        client.wait().unwrap();
    });
}

#[test]
fn a_cut_link_passes_nothing_until_it_is_healed() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(every(10 * MS));
        world.host("server", echo);
        let client = world.host("client", || {
            let mut stream = connect(Some(5 * SECOND))?;
            ask(&stream)?;
            uthread::sleep(SECOND);
            // The link from the server is cut.
            let error = ask(&stream).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            uthread::sleep(20 * SECOND);
            // Nothing was lost.
            stream.read_exact(&mut [0])
        });
        uthread::sleep(SECOND);
        world.link("server", "client").cut();
        uthread::sleep(10 * SECOND);
        world.links().heal();
        client.wait().unwrap();
    });
}

#[test]
fn the_end_of_a_stream_travels_like_bytes() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(every(10 * MS));
        world.host("server", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:7000")?.accept()?;
            stream.write_all(b"1")?;
            uthread::sleep(SECOND);
            drop(stream); // While the link is cut.
            uthread::sleep(60 * SECOND);
            Ok(())
        });
        let client = world.host("client", || {
            let mut stream = connect(Some(5 * SECOND))?;
            stream.read_exact(&mut [0])?;
            let end = stream.read(&mut [0]);
            assert_eq!(end.unwrap_err().kind(), ErrorKind::WouldBlock);
            stream.set_read_timeout(None)?;
            assert_eq!(stream.read(&mut [0])?, 0);
            Ok(())
        });
        uthread::sleep(500 * MS);
        world.link("server", "client").cut();
        uthread::sleep(10 * SECOND);
        world.links().heal();
        client.wait().unwrap();
    });
}

#[test]
fn a_crash_is_not_noticed_before_the_restart() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(every(10 * MS));
        let server = world.host("server", echo);
        let client = world.host("client", || {
            let mut stream = connect(Some(5 * SECOND))?;
            ask(&stream)?;
            uthread::sleep(2 * SECOND);
            assert_eq!(ask(&stream).unwrap_err().kind(), ErrorKind::WouldBlock);
            // Nobody answers.
            let begin = Instant::now();
            let address = "server:7000".to_socket_addrs()?.next().unwrap();
            let refused = TcpStream::connect_timeout(&address, 3 * SECOND).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TimedOut);
            assert_takes(3 * SECOND, begin.elapsed());
            let begin = Instant::now();
            let refused = TcpStream::connect(address).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TimedOut);
            assert_takes(127 * SECOND, begin.elapsed());
            stream.set_read_timeout(None)?;
            let ended = stream.read(&mut [0]).unwrap_err();
            assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
            assert_takes(20 * MS, ask(&connect(None)?)?);
            Ok(())
        });
        uthread::sleep(SECOND);
        server.crash();
        uthread::sleep(200 * SECOND);
        server.restart();
        client.wait().unwrap();
    });
}

#[test]
fn connections_are_reset() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(every(10 * MS));
        world.host("server", echo);
        let client = world.host("client", || {
            let mut stream = connect(None)?;
            ask(&stream)?;
            let ended = stream.read(&mut [0]).unwrap_err();
            assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
            let ended = stream.write(b"1").unwrap_err();
            assert_eq!(ended.kind(), ErrorKind::BrokenPipe);
            Ok(())
        });
        uthread::sleep(SECOND);
        world.between(&["server"], &["client"]).reset();
        client.wait().unwrap();
    });
}

#[test]
fn a_sender_finds_out_that_the_other_side_has_reset_the_connection() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(every(10 * MS));
        world.host("server", || {
            let (stream, _) = TcpListener::bind("0.0.0.0:7000")?.accept()?;
            uthread::sleep(SECOND);
            drop(stream); // With a byte that nobody has read.
            Ok(())
        });
        let client = world.host("client", || {
            let mut stream = connect(None)?;
            stream.write_all(b"1")?;
            uthread::sleep(2 * SECOND);
            let ended = stream.write(b"2").unwrap_err();
            assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
            let ended = stream.write(b"3").unwrap_err();
            assert_eq!(ended.kind(), ErrorKind::BrokenPipe);
            Ok(())
        });
        client.wait().unwrap();
    });
}

#[test]
fn a_rate_limits_the_bytes_and_a_full_connection_its_sender() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_rate(Some(1_000_000));
        world.host("server", echo);
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let client = world.host("client", move || {
            let stream = connect(None)?;
            let mut writer = stream.try_clone()?;
            let count = Arc::clone(&count);
            std::thread::spawn(move || {
                for _ in 0..100 {
                    writer.write_all(&[0; 100_000])?;
                    count.fetch_add(100_000, Ordering::Relaxed);
                }
                io::Result::Ok(())
            });
            let begin = Instant::now();
            let mut stream = stream;
            let mut left = 10_000_000;
            let mut buffer = vec![0; 65536];
            while left > 0 {
                left -= stream.read(&mut buffer)?;
            }
            let taken = begin.elapsed().as_secs_f64();
            assert!((10.0..11.0).contains(&taken), "{taken}");
            Ok(())
        });
        uthread::sleep(SECOND);
        let bytes = sent.load(Ordering::Relaxed);
        assert!((1_000_000..3_000_000).contains(&bytes), "{bytes}");
        client.wait().unwrap();
    });
}

#[test]
fn datagrams_are_lost_and_overtake_each_other() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(10 * MS..20 * MS);
        world.links().set_loss(0.1);
        let server = world.host("server", || {
            let socket = UdpSocket::bind("0.0.0.0:7000")?;
            socket.set_read_timeout(Some(SECOND))?;
            let mut numbers = Vec::new();
            let mut number = [0; 4];
            while socket.recv(&mut number).is_ok() {
                numbers.push(u32::from_le_bytes(number));
            }
            assert!((800..970).contains(&numbers.len()), "{}", numbers.len());
            assert!(!numbers.is_sorted());
            Ok(())
        });
        let client = world.host("client", || {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            for number in 0..1000_u32 {
                socket.send_to(&number.to_le_bytes(), "server:7000")?;
                uthread::sleep(MS / 2);
            }
            Ok(())
        });
        client.wait().unwrap();
        server.wait().unwrap();
    });
}

#[test]
fn a_host_reaches_hosts_only_and_names_may_fail() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let client = world.host("client", || {
            let error = TcpStream::connect("10.1.2.3:80").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NetworkUnreachable);
            let begin = Instant::now();
            assert!(TcpStream::connect("client:80").is_err());
            assert!(uthread::net::TcpStream::connect("client:80").is_err());
            assert_takes(10 * SECOND, begin.elapsed());
            // Its own.
            let listener = TcpListener::bind("127.0.0.1:7000")?;
            TcpStream::connect("127.0.0.1:7000")?;
            assert_ne!(listener.local_addr()?.ip().to_string(), "127.0.0.1");
            Ok(())
        });
        world.set_resolver(every(5 * SECOND), true);
        client.wait().unwrap();
    });
}

#[test]
fn a_world_ends_while_a_name_is_looked_up() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.set_resolver(every(60 * SECOND), false);
        world.host("client", || {
            uthread::spawn(|| "client:80".to_socket_addrs().is_err());
            uthread::sleep(60 * SECOND);
            Ok(())
        });
        uthread::sleep(SECOND);
    });
}

#[test]
fn a_host_has_a_clock_of_its_own() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let now = SystemTime::now();
        let host = world.host("host", move || {
            uthread::sleep(SECOND);
            let taken = SystemTime::now().duration_since(now).unwrap();
            assert_takes(61 * SECOND, taken);
            Ok(())
        });
        host.set_clock_ahead(60 * SECOND);
        host.wait().unwrap();
        assert!(SystemTime::now().duration_since(now).unwrap() < 2 * SECOND);
    });
}

/// Makes the name of a file durable.
fn sync_directory_of(file: &Path) -> io::Result<()> {
    File::open(file.parent().unwrap())?.sync_all()
}

/// Appends records of four bytes to a log, of which it syncs the first two, and crashes. Returns what is
/// left.
fn after_a_crash(seed: u64) -> Vec<u8> {
    let builder = uthread_simulation::seeded(Runtime::builder(), seed);
    builder.build().unwrap().run(|| {
        let world = World::new().unwrap();
        let directory = world.directory("host").unwrap();
        let path = directory.join("log");
        let log = path.clone();
        let host = world.host("host", move || {
            let path = &log;
            let mut log = OpenOptions::new().create(true).append(true).open(path)?;
            sync_directory_of(path)?;
            for (number, letter) in b"abcdef".iter().enumerate() {
                log.write_all(&[*letter; 4])?;
                if number == 1 {
                    log.sync_data()?;
                }
            }
            uthread::sleep(60 * SECOND);
            Ok(())
        });
        uthread::sleep(SECOND);
        host.crash();
        std::fs::read(path).unwrap()
    })
}

#[test]
fn a_crash_loses_writes_that_were_not_synced() {
    let whole = b"aaaabbbbccccddddeeeeffff";
    let left: Vec<_> = (0..40).map(after_a_crash).collect();
    for bytes in &left {
        assert!(bytes.len() >= 8 && whole.starts_with(bytes), "{bytes:?}");
    }
    assert!(left.iter().any(|bytes| bytes.len() < 12));
    assert!(
        left.iter().any(|bytes| bytes.len() % 4 != 0),
        "none is torn"
    );
    assert_eq!(left, (0..40).map(after_a_crash).collect::<Vec<_>>());
}

#[test]
fn a_crash_restores_what_was_overwritten() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let directory = world.directory("host").unwrap();
        let path = directory.join("page");
        let page = path.clone();
        let host = world.host("host", move || {
            use uthread::os::unix::fs::FileExt;
            let file = uthread::fs::File::create(&page)?;
            sync_directory_of(&page)?;
            file.write_all_at(&[1; 100], 0)?;
            file.sync_all()?;
            file.write_all_at(&[2; 50], 25)?;
            drop(file);
            uthread::sleep(60 * SECOND);
            Ok(())
        });
        uthread::sleep(SECOND);
        assert_eq!(std::fs::read(&path).unwrap()[25..75], [2; 50]);
        host.crash();
        let left = std::fs::read(&path).unwrap();
        let reached = left.iter().filter(|byte| **byte == 2).count();
        assert_eq!(left.len(), 100);
        assert_eq!(left[25..25 + reached], vec![2; reached]);
    });
}

#[test]
fn a_full_disk_takes_no_more() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        let directory = world.directory("host").unwrap();
        let host = world.host("host", move || {
            uthread::sleep(SECOND);
            let mut file = uthread::fs::File::create(directory.join("log"))?;
            file.write_all(&[0; 60])?;
            let error = file.write_all(&[0; 60]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            Ok(())
        });
        host.set_free_bytes(Some(100));
        host.wait().unwrap();
    });
}

#[test]
#[should_panic(expected = "the program of `host` has failed: permission denied")]
fn a_program_that_fails_fails_the_test() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.host("host", || Err(ErrorKind::PermissionDenied.into()));
        uthread::sleep(SECOND);
    });
}

#[test]
fn a_program_does_not_start_after_its_world() {
    on_each_driver(|| {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let world = World::new().unwrap();
        world.host("host", move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        drop(world);
        uthread::sleep(SECOND);
        assert_eq!(runs.load(Ordering::Relaxed), 0);
    });
}

/// Some hold their world for ever, by a fiber that takes no error.
#[test]
fn more_worlds_follow_each_other_than_there_are_addresses() {
    for _ in 0..200 {
        let builder = uthread_simulation::virtual_time(Runtime::builder());
        builder.build().unwrap().run(|| {
            let world = World::new().unwrap();
            let other = world.host("other", echo);
            world.host("host", move || {
                let (_sender, receiver) = std::sync::mpsc::channel::<()>();
                let _ = receiver.recv();
                other.wait()
            });
            uthread::sleep(MS);
        });
    }
}

#[test]
fn tokio_runs_on_a_host() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(every(10 * MS));
        world.host("server", || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?;
            runtime.block_on(async {
                use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                let listener = tokio::net::TcpListener::bind("0.0.0.0:7000").await?;
                loop {
                    let (mut stream, _) = listener.accept().await?;
                    tokio::spawn(async move {
                        let mut byte = [0];
                        while stream.read(&mut byte).await.is_ok_and(|count| count > 0) {
                            tokio::time::sleep(5 * MS).await;
                            stream.write_all(&byte).await?;
                        }
                        io::Result::Ok(())
                    });
                }
            })
        });
        let client = world.host("client", || {
            uthread::sleep(SECOND);
            let taken = ask(&connect(None)?)?;
            assert!((25 * MS..28 * MS).contains(&taken), "{taken:?}");
            Ok(())
        });
        client.wait().unwrap();
    });
}

#[test]
fn a_crash_stops_what_does_not_end() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(every(10 * MS));
        let server = world.host("server", || {
            let pair = Arc::new((std::sync::Mutex::new(false), std::sync::Condvar::new()));
            let waits = Arc::clone(&pair);
            std::thread::spawn(move || {
                let mut is_over = waits.0.lock().unwrap();
                while !*is_over {
                    is_over = waits.1.wait(is_over).unwrap();
                }
            });
            let socket = UdpSocket::bind("0.0.0.0:7000")?;
            let listener = TcpListener::bind("0.0.0.0:7000")?;
            let (mut stream, _) = listener.accept()?;
            loop {
                let _ = stream.read(&mut [0]);
                let _ = stream.write_all(b"1");
                std::thread::sleep(MS);
                let _ = socket.send_to(b"1", "client:7000");
            }
        });
        let client = world.host("client", || {
            ask(&connect(None)?)?;
            uthread::sleep(2 * SECOND);
            ask(&connect(None)?)?;
            Ok(())
        });
        uthread::sleep(SECOND);
        server.restart();
        client.wait().unwrap();
    });
}

/// Runs hosts that send each other messages over bad links, one of which crashes. Returns what has happened.
fn trace(seed: u64) -> String {
    let builder = uthread_simulation::seeded(Runtime::builder(), seed);
    builder.build().unwrap().run(|| {
        let world = World::new().unwrap();
        world.links().set_latency(MS..20 * MS);
        world.links().set_loss(0.05);
        let server = world.host("server", echo);
        let answers = Arc::new(std::sync::Mutex::new(Vec::new()));
        for name in ["a", "b", "c", "d"] {
            let answers = Arc::clone(&answers);
            world.host(name, move || {
                for _ in 0..50 {
                    let taken = connect(Some(SECOND)).and_then(|stream| ask(&stream));
                    let text = format!("{name} {:?}", taken.map_err(|error| error.kind()));
                    answers.lock().unwrap().push(text);
                    uthread::sleep(10 * MS);
                }
                Ok(())
            });
        }
        uthread::sleep(SECOND);
        world.links().cut();
        uthread::sleep(SECOND / 2);
        world.links().heal();
        uthread::sleep(SECOND);
        server.crash();
        uthread::sleep(SECOND);
        server.restart();
        uthread::sleep(10 * SECOND);
        world.trace() + &answers.lock().unwrap().join("\n")
    })
}

#[test]
fn a_seed_decides_what_happens_in_a_world() {
    for seed in 0..5 {
        let (first, second) = (trace(seed), trace(seed));
        // Whole traces would be thousands of lines.
        for (number, lines) in first.lines().zip(second.lines()).enumerate() {
            assert_eq!(lines.0, lines.1, "line {number} with seed {seed}");
        }
        assert_eq!(first.len(), second.len());
    }
    assert_ne!(trace(1), trace(2));
}
