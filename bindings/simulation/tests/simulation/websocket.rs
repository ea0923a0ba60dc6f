//! A published crate that blocks, [`tungstenite`], as client and server in a network with faults.

use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Error, Message, Result, accept, connect};
use uthread_simulation::World;

use crate::times::{MS, SECOND};

/// How long a client waits for a message: longer than TCP takes to send it again a few times.
const LIMIT: Duration = Duration::from_secs(2);

/// Number of messages of the feed, one in each [`STEP`]: for longer than there are faults.
const MESSAGES: u32 = 240;
const STEP: Duration = Duration::from_millis(50);

fn message(number: u32) -> Message {
    Message::text(format!(
        "{number} {}",
        "long ".repeat(number as usize % 100)
    ))
}

/// Serves the feed that has begun at `begin`, and counts the connections.
fn serve(begin: Instant, open: &Arc<AtomicUsize>) -> io::Result<()> {
    // A crash has left the threads where they were.
    open.store(0, Ordering::Relaxed);
    for stream in TcpListener::bind("0.0.0.0:8000")?.incoming() {
        let (stream, open) = (stream?, Arc::clone(open));
        thread::spawn(move || {
            open.fetch_add(1, Ordering::Relaxed);
            let ended = feed(stream, begin);
            open.fetch_sub(1, Ordering::Relaxed);
            ended
        });
    }
    Ok(())
}

/// Sends the messages from that on whose number the client sends.
fn feed(stream: TcpStream, begin: Instant) -> io::Result<()> {
    let mut socket = accept(stream).map_err(io::Error::other)?;
    let first = socket.read().map_err(io::Error::other)?;
    let first: u32 = first.to_text().unwrap().parse().unwrap();
    for number in first..MESSAGES {
        thread::sleep((begin + number * STEP).saturating_duration_since(Instant::now()));
        socket.send(message(number)).map_err(io::Error::other)?;
    }
    socket.close(None).map_err(io::Error::other)?;
    while socket.read().is_ok() {}
    Ok(())
}

/// Receives the feed from `next` on, and counts.
fn receive(next: &mut u32) -> Result<()> {
    let (mut socket, _) = connect("ws://server:8000/")?;
    let MaybeTlsStream::Plain(stream) = socket.get_ref() else {
        unreachable!("without TLS");
    };
    stream.set_read_timeout(Some(LIMIT))?;
    socket.send(Message::text(next.to_string()))?;
    loop {
        let begin = Instant::now();
        match socket.read() {
            Ok(Message::Close(_)) => {}
            Ok(received) => {
                assert_eq!(received, message(*next));
                *next += 1;
            }
            Err(Error::ConnectionClosed) => return Ok(()),
            Err(error) => {
                if matches!(&error, Error::Io(error) if error.kind() == ErrorKind::WouldBlock) {
                    let taken = begin.elapsed();
                    assert!((LIMIT..LIMIT + MS).contains(&taken), "{taken:?}");
                }
                return Err(error);
            }
        }
    }
}

/// Receives all of the feed. Returns how connections have failed meanwhile.
fn follow() -> Vec<ErrorKind> {
    let (mut next, mut failures) = (0, Vec::new());
    while let Err(error) = receive(&mut next) {
        let Error::Io(error) = error else {
            panic!("{error}");
        };
        failures.push(error.kind());
        thread::sleep(10 * MS);
    }
    assert_eq!(next, MESSAGES);
    failures
}

#[uthread::test(virtual_time, seeds = 10)]
fn tungstenite_receives_each_message_once() {
    let world = World::new().unwrap();
    world.links().set_latency(MS..20 * MS);
    world.links().set_loss(0.01);
    let (begin, open) = (Instant::now(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&open);
    let server = world.host("server", move || serve(begin, &count));
    let client = |name, failures: [ErrorKind; 2]| {
        world.host(name, move || {
            assert_eq!(follow(), failures);
            Ok(())
        })
    };
    let reset = ErrorKind::ConnectionReset;
    let clients = [
        client("a", [ErrorKind::WouldBlock, reset]),
        client("b", [reset, reset]),
    ];
    uthread::sleep(SECOND);
    world.link("server", "a").cut();
    uthread::sleep(3 * SECOND);
    world.links().heal();
    uthread::sleep(SECOND);
    world.between(&["b"], &["server"]).reset();
    uthread::sleep(SECOND);
    server.crash();
    uthread::sleep(SECOND / 2);
    server.restart();
    for client in clients {
        client.wait().unwrap();
    }
    uthread::sleep(SECOND);
    assert_eq!(open.load(Ordering::Relaxed), 0);
}
