//! Fibers that have not started do not wait for a worker that computes for long or blocks: others
//! take them over.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc as native;

use crate::harness::place::Place;
use crate::harness::{ON_SEVERAL_WORKERS, behaviours};
use crate::support::{FREE, HANG};
use uthread::net::{TcpListener, TcpStream};
use uthread::priority::Priority;
use uthread::thread::Builder;
use uthread::{Runtime, spawn, yield_now};

behaviours![(
    ON_SEVERAL_WORKERS,
    [
        connections_do_not_wait_for_a_worker_that_blocks,
        connections_do_not_wait_for_their_acceptor,
        few_new_fibers_are_taken_by_a_worker_that_yields,
        few_new_fibers_are_taken_beside_a_flood_of_new_ones,
        few_new_fibers_are_taken_beside_a_flood_of_background_ones
    ]
)];

/// Returns a client that connects and waits for an echo.
fn check_echo(listener: &TcpListener) -> impl FnOnce() + Send + 'static {
    let address = listener.local_addr().unwrap();
    move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.write_all(b"hello").unwrap();
        stream.read_exact(&mut [0; 5]).expect("an echo");
    }
}

fn echo(mut stream: TcpStream) {
    let mut message = [0; 5];
    stream.read_exact(&mut message).unwrap();
    stream.write_all(&message).unwrap();
}

/// Hands every second connection to the one of two workers that is blocked until all were served.
fn connections_do_not_wait_for_a_worker_that_blocks(place: Place) {
    const CONNECTIONS: usize = 6;
    let runtime = place.runtime();
    let (release, released) = native::channel::<()>();
    let (begin, begun) = native::channel();
    let blocked = runtime.spawn(move || {
        begin.send(()).unwrap();
        let _ = released.recv_timeout(HANG);
    });
    begun.recv().unwrap();
    let listener = TcpListener::bind(FREE).unwrap();
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| check_echo(&listener)).collect();
    let accepting = runtime.spawn(move || {
        for _ in 0..CONNECTIONS {
            let (stream, _) = listener.accept().unwrap();
            spawn(move || echo(stream));
        }
    });
    for client in clients {
        client();
    }
    release.send(()).unwrap();
    accepting.join().unwrap();
    blocked.join().unwrap();
}

/// Blocks the acceptor's own worker until the connection was served.
fn connections_do_not_wait_for_their_acceptor(place: Place) {
    let runtime = place.runtime();
    for _ in 0..6 {
        let listener = TcpListener::bind(FREE).unwrap();
        let client = check_echo(&listener);
        let (serve, served) = native::channel();
        let accepting = runtime.spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            spawn(move || {
                echo(stream);
                serve.send(()).unwrap();
            });
            served.recv_timeout(HANG).expect("another worker serves it");
        });
        client();
        accepting.join().unwrap();
    }
}

/// Checks that a few new fibers start while their worker is blocked and the other one runs `busy`
/// until it is told to stop.
#[track_caller]
fn start_beside(place: Place, busy: fn(&Runtime, &Arc<AtomicBool>)) {
    /// Number of fibers, below that which a busy worker takes from another one to balance their
    /// loads.
    const FIBERS: usize = 10;
    let runtime = place.runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let (begin, begun) = native::channel();
    let (release, released) = native::channel::<()>();
    let started = Arc::new(AtomicUsize::new(0));
    let (all, all_started) = native::channel();
    let counted = Arc::clone(&started);
    let blocked = runtime.spawn(move || {
        begin.send(()).unwrap();
        released.recv().unwrap();
        for _ in 0..FIBERS {
            let (counted, all) = (Arc::clone(&counted), all.clone());
            spawn(move || {
                if counted.fetch_add(1, Ordering::Relaxed) + 1 == FIBERS {
                    all.send(()).unwrap();
                }
            });
        }
        let ended = all_started.recv_timeout(HANG);
        ended.map_err(|_| counted.load(Ordering::Relaxed))
    });
    begun.recv().unwrap();
    busy(&runtime, &stop);
    release.send(()).unwrap();
    let result = blocked.join().unwrap();
    stop.store(true, Ordering::Relaxed);
    drop(runtime);
    assert_eq!(result, Ok(()), "the number of fibers that have started");
}

fn few_new_fibers_are_taken_by_a_worker_that_yields(place: Place) {
    start_beside(place, |runtime, stop| {
        for _ in 0..2 {
            let (sender, begun) = native::channel();
            let stop = Arc::clone(stop);
            drop(runtime.spawn(move || {
                sender.send(()).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    yield_now();
                }
            }));
            begun.recv().unwrap();
        }
    });
}

/// Spawns a fiber with this priority that does the same.
fn flood(priority: Priority, stop: &Arc<AtomicBool>) {
    if stop.load(Ordering::Relaxed) {
        return;
    }
    let stop = Arc::clone(stop);
    let next = Builder::new().priority(priority);
    drop(next.spawn(move || flood(priority, &stop)).unwrap());
}

fn start_flood(priority: Priority, runtime: &Runtime, stop: &Arc<AtomicBool>) {
    const STREAMS: usize = 4;
    for _ in 0..STREAMS {
        let stop = Arc::clone(stop);
        drop(runtime.spawn(move || flood(priority, &stop)));
    }
}

fn few_new_fibers_are_taken_beside_a_flood_of_new_ones(place: Place) {
    start_beside(place, |runtime, stop| {
        start_flood(Priority::Normal, runtime, stop)
    });
}

fn few_new_fibers_are_taken_beside_a_flood_of_background_ones(place: Place) {
    start_beside(place, |runtime, stop| {
        start_flood(Priority::Background, runtime, stop);
    });
}
