//! A started fiber that would wait for long moves to a worker that is idle, and works on there.

use std::hint;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::place::Place;
use crate::harness::{ONE_WORKER, OUTSIDE, THREADS, behaviours};
use crate::own_tls::WITHOUT_OWN_TLS;
use crate::support::{HANG, pair, pair_with_std};
use uthread::net::TcpStream;
use uthread::sync::mpsc::{Receiver, sync_channel};
use uthread::thread::JoinHandle;
use uthread::{Runtime, select, sleep, spawn, timeout, yield_now};

behaviours![(
    &[OUTSIDE, THREADS, ONE_WORKER, WITHOUT_OWN_TLS],
    [
        a_fiber_that_has_moved_works_on,
        a_fiber_that_has_moved_is_cancelled
    ]
)];

/// Computes, and lets others run now and then, until this is set.
fn compute_until(is_over: &AtomicBool) {
    while !is_over.load(Ordering::Acquire) {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(50) {
            hint::spin_loop();
        }
        yield_now();
    }
}

/// Requests of the outside to a fiber, by its connection.
const COMPUTE: u8 = 1;
const ECHO: u8 = 2;

/// Answers each request, until the connection is closed.
fn serve(mut connection: TcpStream, is_over: &AtomicBool) -> io::Result<()> {
    let mut request = [0];
    while connection.read(&mut request)? == 1 {
        if request == [COMPUTE] {
            compute_until(is_over);
        }
        connection.write_all(&request)?;
    }
    Ok(())
}

/// Lets two of three fibers compute at a time, until one of them has moved: two of the three are on
/// the same worker.
fn move_one(runtime: &Runtime, connections: &mut [std::net::TcpStream; 3], is_over: &AtomicBool) {
    let steals = || runtime.metrics().total().steals;
    let (begin, before) = (Instant::now(), steals());
    for turn in 0.. {
        assert!(begin.elapsed() < HANG, "no fiber has moved");
        is_over.store(false, Ordering::Release);
        let chosen = [turn % 3, (turn + 1) % 3];
        for index in chosen {
            connections[index].write_all(&[COMPUTE]).unwrap();
        }
        thread::sleep(Duration::from_millis(20));
        is_over.store(true, Ordering::Release);
        for index in chosen {
            connections[index].read_exact(&mut [0]).unwrap();
        }
        if steals() > before {
            return;
        }
    }
}

/// Starts three fibers, each of which serves a connection. Returns the other ends, too.
fn start_three(
    runtime: &Runtime,
    serve: impl Fn(TcpStream) + Clone + Send + 'static,
) -> ([std::net::TcpStream; 3], Vec<JoinHandle<()>>) {
    let mut fibers = Vec::new();
    let connections = std::array::from_fn(|_| {
        let (ours, mut theirs) = runtime.run(pair_with_std);
        let serve = serve.clone();
        fibers.push(runtime.run(|| spawn(move || serve(ours))));
        // It becomes long-lived.
        for _ in 0..10 {
            theirs.write_all(&[ECHO]).unwrap();
            theirs.read_exact(&mut [0]).unwrap();
        }
        theirs
    });
    (connections, fibers)
}

fn a_fiber_that_has_moved_works_on(place: Place) {
    let runtime = place.runtime();
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let (mut connections, fibers) = start_three(&runtime, move |connection| {
        // What it has before it moves: a sender that waits, and bytes that it does not read yet.
        let (sender, receiver) = sync_channel(0);
        let (mut other, mut peer) = pair();
        let sending = spawn(move || sender.send(7).unwrap());
        peer.write_all(&[8]).unwrap();
        serve(connection, &ends).unwrap();
        check_waits(&receiver);
        other.read_exact(&mut [0]).unwrap();
        sending.join().unwrap();
    });
    move_one(&runtime, &mut connections, &is_over);
    for connection in &mut connections {
        for _ in 0..100 {
            connection.write_all(&[ECHO]).unwrap();
            connection.read_exact(&mut [0]).unwrap();
        }
    }
    drop(connections);
    for fiber in fibers {
        runtime.run(|| fiber.join().unwrap());
    }
}

/// Waits in each way.
fn check_waits(receiver: &Receiver<u32>) {
    assert!(timeout(Duration::from_millis(1), || sleep(HANG)).is_err());
    select! {
        recv(receiver) -> value => assert_eq!(value, Ok(7)),
        after(HANG) -> _ => panic!("the sender waits"),
    };
    assert!(receiver.recv_timeout(Duration::from_millis(1)).is_err());
}

fn a_fiber_that_has_moved_is_cancelled(place: Place) {
    let runtime = place.runtime();
    let is_over = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_over);
    let serve = move |connection| serve(connection, &ends).unwrap();
    let (mut connections, fibers) = start_three(&runtime, serve);
    move_one(&runtime, &mut connections, &is_over);
    // Each waits for its connection.
    for fiber in fibers {
        fiber.cancel();
        assert!(runtime.run(|| fiber.join()).is_err(), "the call fails");
    }
    for mut connection in connections {
        assert_eq!(connection.read(&mut [0]).unwrap(), 0, "it was closed");
    }
}
