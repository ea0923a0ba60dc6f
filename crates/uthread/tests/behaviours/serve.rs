//! `serve`: a fiber for each connection, never more than the bound, whatever the handlers and the
//! kernel do.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{self, Shutdown};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{
    FREE, HOUR, drain, errno, eventually, join, kind, limit_descriptors, peer, refusing_socket,
};
use rustix::io::Errno;
use uthread::net::{Listener, SocketAddr, TcpListener, TcpStream, serve, serve_with_grace};

behaviours![
    (
        EVERYWHERE,
        [
            each_connection_has_a_handler_that_borrows,
            no_more_run_than_the_bound_says,
            a_handler_that_panics_ends_its_connection_alone,
            served_connections_are_awaited_in_the_end,
            handlers_that_do_not_end_in_time_are_cancelled,
            connections_wait_while_descriptors_are_short,
            errors_of_one_connection_are_skipped,
            unknown_errors_are_returned,
            a_bound_of_zero_is_refused
        ]
    ),
    (
        IN_FIBERS,
        [
            a_server_is_cancelled_while_it_accepts,
            a_server_is_cancelled_at_its_bound,
            a_server_ends_at_its_deadline_whatever_it_waits_for
        ]
    ),
];

/// Serves while `clients`, on a thread of its own, has something to do; then the listener is shut
/// down.
fn serve_while<T: Send + 'static>(
    connections_max: usize,
    handler: impl Fn(TcpStream, SocketAddr) + Sync,
    clients: impl FnOnce(SocketAddr) -> T + Send + 'static,
) -> T {
    // Keeps the address from other trials when the listener has ended.
    let (_socket, address) = refusing_socket();
    let listener = TcpListener::bind(address).unwrap();
    let end = listener.try_clone().unwrap();
    let clients = peer(move || {
        let result = clients(address);
        end.shutdown().unwrap();
        result
    });
    serve(&listener, connections_max, handler).unwrap();
    join(clients)
}

fn echo(stream: &TcpStream) -> io::Result<u64> {
    io::copy(&mut &*stream, &mut &*stream)
}

/// Sends a text and returns the reply.
fn ask(address: SocketAddr, text: &[u8]) -> Vec<u8> {
    let mut stream = net::TcpStream::connect(address).unwrap();
    stream.write_all(text).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    drain(stream)
}

fn each_connection_has_a_handler_that_borrows(place: Place) {
    place.run(|| {
        let served = AtomicUsize::new(0);
        let handler = |stream: TcpStream, from| {
            assert_eq!(stream.peer_addr().unwrap(), from);
            echo(&stream).unwrap();
            served.fetch_add(1, Ordering::Relaxed);
        };
        serve_while(100, handler, |address| {
            let all: Vec<_> = (0..50_u8)
                .map(|number| peer(move || assert_eq!(ask(address, &[number]), [number])))
                .collect();
            all.into_iter().for_each(|client| client.join().unwrap());
        });
        assert_eq!(served.load(Ordering::Relaxed), 50);
    });
}

fn no_more_run_than_the_bound_says(place: Place) {
    const BOUND: usize = 3;
    place.run(|| {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let handler = |mut stream: TcpStream, _| {
            let now = running.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(now, Ordering::Relaxed);
            stream.write_all(b"in").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            running.fetch_sub(1, Ordering::Relaxed);
        };
        serve_while(BOUND, handler, |address| {
            let mut clients: Vec<_> = (0..10)
                .map(|_| net::TcpStream::connect(address).unwrap())
                .collect();
            // Each is served when one before it is done, and three at once.
            for first in (0..10).step_by(BOUND) {
                let last = (first + BOUND).min(10);
                for client in &mut clients[first..last] {
                    client.read_exact(&mut [0; 2]).unwrap();
                }
                if let Some(next) = clients.get_mut(last) {
                    next.set_nonblocking(true).unwrap();
                    assert_eq!(errno(next.read(&mut [0; 2])), Errno::AGAIN);
                    next.set_nonblocking(false).unwrap();
                }
                for client in &mut clients[first..last] {
                    client.write_all(b"!").unwrap();
                }
            }
        });
        assert_eq!(most.load(Ordering::Relaxed), BOUND);
    });
}

fn a_handler_that_panics_ends_its_connection_alone(place: Place) {
    place.run(|| {
        let handler = |mut stream: TcpStream, _| {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            if &byte == b"p" {
                std::panic::resume_unwind(Box::new("a bug"));
            }
            stream.write_all(&byte).unwrap();
        };
        // With a bound of one: the place of a handler that panics is free again.
        serve_while(1, handler, |address| {
            for _ in 0..3 {
                assert_eq!(ask(address, b"p"), b"");
                assert_eq!(ask(address, b"q"), b"q");
            }
        });
    });
}

fn served_connections_are_awaited_in_the_end(place: Place) {
    place.run(|| {
        let ended = AtomicUsize::new(0);
        let handler = |stream: TcpStream, _| {
            // The connection that checks whether the listener has ended may be served as well.
            if echo(&stream).unwrap() > 0 {
                ended.fetch_add(1, Ordering::Relaxed);
            }
        };
        let client = serve_while(10, handler, |address| {
            let mut stream = net::TcpStream::connect(address).unwrap();
            stream.write_all(b"!").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            // Longer than the listener.
            peer(move || {
                eventually("the listener ends", || {
                    net::TcpStream::connect(address).is_err()
                });
                stream.write_all(b"!").unwrap();
                stream.read_exact(&mut [0]).unwrap();
            })
        });
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        join(client);
    });
}

fn handlers_that_do_not_end_in_time_are_cancelled(place: Place) {
    place.run(|| {
        for (grace, expected) in [(Duration::from_millis(10), [0, 2]), (HOUR, [2, 0])] {
            let listener = TcpListener::bind(FREE).unwrap();
            let address = listener.local_addr().unwrap();
            let end = listener.try_clone().unwrap();
            let [begun, ended, cancelled] = [(); 3].map(|()| AtomicUsize::new(0));
            uthread::scope(|scope| {
                let server = scope.spawn(|| {
                    serve_with_grace(&listener, 10, grace, |mut stream, _| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        match stream.read(&mut [0]) {
                            Ok(_) => ended.fetch_add(1, Ordering::Relaxed),
                            result => {
                                assert_eq!(errno(result), Errno::CANCELED);
                                cancelled.fetch_add(1, Ordering::Relaxed)
                            }
                        };
                    })
                });
                let clients = [(); 2].map(|()| TcpStream::connect(address).unwrap());
                while begun.load(Ordering::Relaxed) < clients.len() {
                    uthread::yield_now();
                }
                end.shutdown().unwrap();
                if grace == HOUR {
                    // The end of the connections ends the handlers.
                    drop(clients);
                    server.join().unwrap().unwrap();
                } else {
                    server.join().unwrap().unwrap();
                    drop(clients);
                }
            });
            let found = [ended, cancelled].map(AtomicUsize::into_inner);
            assert_eq!(found, expected, "{grace:?}");
        }
    });
}

fn connections_wait_while_descriptors_are_short(place: Place) {
    alone(|| {
        limit_descriptors(128);
        place.run(|| {
            // Whatever runs the handlers begins before.
            uthread::spawn(|| ()).join().unwrap();
            let handler = |stream: TcpStream, _| drop(echo(&stream));
            serve_while(1000, handler, |address| {
                let mut clients: Vec<_> =
                    std::iter::from_fn(|| net::TcpStream::connect(address).ok()).collect();
                let others: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
                drop(others);
                // Few may be accepted by now. Those that are left have room for both their ends.
                drop(clients.drain(clients.len() / 3..clients.len() - 1));
                while let Some(mut client) = clients.pop() {
                    client.write_all(b"!").unwrap();
                    client.read_exact(&mut [0]).unwrap();
                }
            });
        });
    });
}

/// Fails with the errors that it is sent, and then no more.
struct Failing {
    inner: TcpListener,
    errors: mpsc::Receiver<io::Error>,
}

impl Listener for Failing {
    type Stream = TcpStream;
    type Address = SocketAddr;

    fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self.errors.try_recv() {
            Ok(error) => Err(error),
            Err(_) => self.inner.accept(),
        }
    }
}

fn failing(errors: impl IntoIterator<Item = io::Error>) -> Failing {
    let (sender, receiver) = mpsc::channel();
    errors
        .into_iter()
        .for_each(|error| sender.send(error).unwrap());
    Failing {
        inner: TcpListener::bind(FREE).unwrap(),
        errors: receiver,
    }
}

fn errors_of_one_connection_are_skipped(place: Place) {
    place.run(|| {
        let listener = failing(
            [
                Errno::CONNABORTED,
                Errno::PROTO,
                Errno::MFILE,
                Errno::NFILE,
                Errno::NOBUFS,
                Errno::INTR,
            ]
            .map(io::Error::from),
        );
        let address = listener.inner.local_addr().unwrap();
        let end = listener.inner.try_clone().unwrap();
        let client = peer(move || {
            assert_eq!(ask(address, b"text"), b"text");
            end.shutdown().unwrap();
        });
        serve(&listener, 1, |stream, _| drop(echo(&stream))).unwrap();
        join(client);
    });
}

fn unknown_errors_are_returned(place: Place) {
    place.run(|| {
        let nothing = |_: TcpStream, _| ();
        let listener = failing([io::Error::from(Errno::BADF)]);
        assert_eq!(errno(serve(&listener, 1, nothing)), Errno::BADF);
        let listener = failing([io::Error::other("of another kind")]);
        assert_eq!(kind(serve(&listener, 1, nothing)), ErrorKind::Other);
        let listener = TcpListener::bind(FREE).unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(errno(serve(&listener, 1, nothing)), Errno::AGAIN);
    });
}

fn a_bound_of_zero_is_refused(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let refused = serve(&listener, 0, |_, _| ());
        assert_eq!(kind(refused), ErrorKind::InvalidInput);
        let refused = serve_with_grace(&listener, 0, Duration::ZERO, |_, _| ());
        assert_eq!(kind(refused), ErrorKind::InvalidInput);
    });
}

/// Drops the runtime of a server with this bound that has one connection.
fn end_under_a_server(place: Place, connections_max: usize) {
    let listener = TcpListener::bind(FREE).unwrap();
    let address = listener.local_addr().unwrap();
    let runtime = place.runtime();
    let server = runtime.spawn(move || {
        serve(&listener, connections_max, |mut stream, _| {
            stream.write_all(b"in").unwrap();
            assert_eq!(errno(stream.read(&mut [0])), Errno::CANCELED);
        })
    });
    let mut client = net::TcpStream::connect(address).unwrap();
    client.read_exact(&mut [0; 2]).unwrap();
    drop(runtime);
    let served = server.join().expect("an error, no unwinding");
    assert_eq!(errno(served), Errno::CANCELED);
    assert_eq!(drain(client), b"");
}

fn a_server_is_cancelled_while_it_accepts(place: Place) {
    end_under_a_server(place, 10);
}

fn a_server_is_cancelled_at_its_bound(place: Place) {
    end_under_a_server(place, 1);
}

/// Catches a server that has reached its bound and waits for a place without regard to the time.
fn a_server_ends_at_its_deadline_whatever_it_waits_for(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        for connections_max in [1, 2] {
            let client = net::TcpStream::connect(address).unwrap();
            let served = uthread::timeout(Duration::from_millis(20), || {
                serve(&listener, connections_max, |stream: TcpStream, _| {
                    let refused = echo(&stream).unwrap_err();
                    assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
                })
            });
            assert_eq!(served.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
            drop(client);
        }
    });
}
