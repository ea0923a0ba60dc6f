//! Connections of a world that hold what was sent: as much as they can, or until they are reset.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use uthread_simulation::World;

use crate::drivers::on_each_driver;
use crate::servers;
use crate::times::{MS, SECOND, assert_takes};

/// Runs a client whose link to the server is cut once it has connected.
fn with_cut_link(client: fn() -> io::Result<()>) {
    let world = World::new().unwrap();
    world.links().set_latency(MS..MS);
    world.host("server", servers::ignore);
    uthread::sleep(MS);
    let client = world.host("client", client);
    uthread::sleep(SECOND);
    world.links().cut();
    client.wait().unwrap();
}

/// Sends until the call takes time. Returns how it has failed, and after which time.
fn fill(mut stream: impl Write) -> (ErrorKind, Duration) {
    uthread::sleep(2 * SECOND);
    let begin = Instant::now();
    let error = stream.write_all(&[0; 4 << 20]).unwrap_err();
    (error.kind(), begin.elapsed())
}

/// Fills a stream whose sends time out after five seconds.
fn assert_times_out(stream: impl Write) {
    let (kind, taken) = fill(stream);
    assert_eq!(kind, ErrorKind::WouldBlock);
    assert_takes(5 * SECOND, taken);
}

#[test]
fn a_send_by_std_times_out() {
    on_each_driver(|| {
        with_cut_link(|| {
            let stream = TcpStream::connect("server:7000")?;
            stream.set_write_timeout(Some(5 * SECOND))?;
            assert_times_out(&stream);
            Ok(())
        });
    });
}

#[test]
fn a_send_by_the_library_times_out() {
    on_each_driver(|| {
        with_cut_link(|| {
            let stream = uthread::net::TcpStream::connect("server:7000")?;
            stream.set_write_timeout(Some(5 * SECOND))?;
            assert_times_out(&stream);
            Ok(())
        });
    });
}

#[test]
fn a_deadline_ends_a_send() {
    on_each_driver(|| {
        with_cut_link(|| {
            let stream = uthread::net::TcpStream::connect("server:7000")?;
            let sent = uthread::timeout(7 * SECOND, || fill(&stream));
            let (kind, taken) = sent.expect("an error of the call");
            assert_eq!(kind, ErrorKind::TimedOut);
            assert_takes(5 * SECOND, taken);
            Ok(())
        });
    });
}

#[test]
fn a_shutdown_ends_a_send() {
    on_each_driver(|| {
        with_cut_link(|| {
            let stream = Arc::new(uthread::net::TcpStream::connect("server:7000")?);
            let filled = Arc::clone(&stream);
            let fiber = uthread::spawn(move || fill(&*filled));
            uthread::sleep(5 * SECOND);
            rustix::net::shutdown(&*stream, rustix::net::Shutdown::Both)?;
            let (kind, taken) = fiber.join().unwrap();
            assert_eq!(kind, ErrorKind::BrokenPipe);
            assert!(taken < 3200 * MS, "{taken:?}");
            Ok(())
        });
    });
}

/// The descriptor of the next connection usually has the same number.
#[test]
fn what_a_reset_connection_has_not_sent_is_lost() {
    on_each_driver(|| {
        let world = World::new().unwrap();
        world.links().set_latency(10 * MS..10 * MS);
        world.links().set_rate(Some(1000));
        let server = world.host("server", || {
            let listener = TcpListener::bind("0.0.0.0:7000")?;
            let (first, _) = listener.accept()?;
            uthread::sleep(SECOND);
            drop(first); // A reset, as it has bytes that were not read.
            let mut received = Vec::new();
            listener.accept()?.0.read_to_end(&mut received)?;
            assert_eq!(received, b"second");
            Ok(())
        });
        uthread::sleep(MS);
        let client = world.host("client", || {
            let mut first = TcpStream::connect("server:7000")?;
            first.write_all(b"first")?;
            uthread::sleep(900 * MS);
            first.write_all(&[0; 5000])?;
            uthread::sleep(500 * MS);
            drop(first);
            let mut second = TcpStream::connect("server:7000")?;
            uthread::sleep(10 * SECOND);
            second.write_all(b"second")
        });
        client.wait().unwrap();
        server.wait().unwrap();
    });
}
