//! Multishot requests for connections and readiness: nothing is lost, and nothing remains
//! afterwards.

use std::io::{self, ErrorKind, Read, Write};
use std::mem;
use std::net;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix::io::Errno;
use uthread::net::{TcpListener, TcpStream, UnixListener};
use uthread::ring::{self, Events};
use uthread::{Driver, yield_now};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, NO_RING, behaviours, lacks};
use crate::support::{FREE, errno, eventually, refusing_socket};

behaviours![
    (
        EVERYWHERE,
        [
            every_connection_is_accepted,
            connections_that_wait_are_accepted_each_once,
            connections_not_taken_are_closed,
            items_before_a_stop_are_taken_after_it,
            connections_of_a_unix_listener_are_accepted,
            a_dropped_request_takes_no_more_connections,
            the_same_listener_is_accepted_from_in_turns,
            a_panic_ends_the_request,
            a_listener_that_listens_no_more_is_an_error,
            a_non_blocking_listener_says_that_it_would_wait,
            each_event_is_reported,
            an_end_is_an_event,
            a_dropped_poll_leaves_the_descriptor_alone,
        ]
    ),
    (
        IN_FIBERS,
        [
            a_waiter_for_connections_is_woken,
            a_waiter_for_events_is_woken,
            the_end_of_the_runtime_ends_the_wait,
            the_end_of_the_runtime_ends_what_was_leaked,
        ]
    ),
    (&[NO_RING], [one_request_accepts_many_connections]),
];

fn listener() -> (TcpListener, net::SocketAddr) {
    let listener = TcpListener::bind(FREE).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn clients(address: net::SocketAddr, count: usize) -> Vec<net::TcpStream> {
    (0..count)
        .map(|_| net::TcpStream::connect(address).unwrap())
        .collect()
}

/// Returns the ports by which both sides of connections know each other.
fn ports(connections: impl IntoIterator<Item = io::Result<net::SocketAddr>>) -> Vec<u16> {
    let ports = connections
        .into_iter()
        .map(|address| address.unwrap().port());
    let mut ports = Vec::from_iter(ports);
    ports.sort_unstable();
    ports
}

fn every_connection_is_accepted(place: Place) {
    place.run(|| {
        let (listener, address) = listener();
        let mut connections = ring::accept(&listener);
        for byte in 0..20 {
            let mut client = net::TcpStream::connect(address).unwrap();
            let mut stream = connections.next().unwrap().unwrap();
            client.write_all(&[byte]).unwrap();
            let mut received = [0];
            stream.read_exact(&mut received).unwrap();
            assert_eq!(received, [byte]);
        }
    });
}

/// Opens more connections than the backlog of the request holds, so that it has to be begun again.
fn connections_that_wait_are_accepted_each_once(place: Place) {
    place.run(|| {
        let (listener, address) = listener();
        let mut connections = ring::accept(&listener);
        let first = net::TcpStream::connect(address).unwrap();
        let mut accepted = vec![connections.next().unwrap().unwrap()];
        for _ in 0..3 {
            let mut clients = clients(address, 120);
            for _ in 0..10 {
                yield_now(); // The kernel accepts meanwhile.
            }
            accepted.extend(connections.by_ref().take(120).map(Result::unwrap));
            let ours = ports(accepted.drain(..).map(|stream| stream.peer_addr()));
            clients.extend(first.try_clone().ok().filter(|_| ours.len() > 120));
            assert_eq!(ours, ports(clients.iter().map(net::TcpStream::local_addr)));
        }
    });
}

fn connections_not_taken_are_closed(place: Place) {
    place.run(|| {
        let (listener, address) = listener();
        let clients = clients(address, 10);
        let mut connections = ring::accept(&listener);
        let taken = connections.next().unwrap().unwrap();
        drop(connections);
        drop(listener);
        let taken = taken.peer_addr().unwrap();
        for mut client in clients {
            if client.local_addr().unwrap() != taken {
                let result = client.read(&mut [0]);
                let is_reset = |error: &io::Error| error.kind() == ErrorKind::ConnectionReset;
                assert!(
                    matches!(result, Ok(0)) || result.as_ref().is_err_and(is_reset),
                    "{result:?}"
                );
            }
        }
    });
}

fn items_before_a_stop_are_taken_after_it(place: Place) {
    place.run(|| {
        let (listener, address) = listener();
        let clients = clients(address, 80);
        let mut connections = ring::accept(&listener);
        let mut accepted = vec![connections.next().unwrap()];
        connections.stop();
        accepted.extend(connections.by_ref());
        assert!(
            connections.next().is_none(),
            "the operation is not begun again"
        );
        drop(connections);
        // Where there is no ring all of them are here.
        while accepted.len() < clients.len() {
            accepted.push(listener.accept().map(|(stream, _)| stream));
        }
        let ours = ports(accepted.into_iter().map(|stream| stream?.peer_addr()));
        assert_eq!(ours, ports(clients.iter().map(net::TcpStream::local_addr)));
    });
}

fn connections_of_a_unix_listener_are_accepted(place: Place) {
    place.run(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let mut connections = ring::accept(&listener);
        for byte in 0..20 {
            let mut client = std::os::unix::net::UnixStream::connect(&path).unwrap();
            let mut stream = connections.next().unwrap().unwrap();
            stream.write_all(&[byte]).unwrap();
            let mut received = [0];
            client.read_exact(&mut received).unwrap();
            assert_eq!(received, [byte]);
        }
    });
}

fn a_dropped_request_takes_no_more_connections(place: Place) {
    place.run(|| {
        let (listener, address) = listener();
        for _ in 0..5 {
            let first = net::TcpStream::connect(address).unwrap();
            let accepted = ring::accept(&listener).next().unwrap().unwrap();
            assert_eq!(accepted.peer_addr().unwrap(), first.local_addr().unwrap());
            let second = net::TcpStream::connect(address).unwrap();
            let (_, peer) = listener.accept().unwrap();
            assert_eq!(peer, second.local_addr().unwrap());
        }
    });
}

fn the_same_listener_is_accepted_from_in_turns(place: Place) {
    place.run(|| {
        let (listener, address) = listener();
        let (mut one, mut other) = (ring::accept(&listener), ring::accept(&listener));
        let mut accepted = Vec::new();
        let clients = clients(address, 1);
        accepted.push(one.next().unwrap().unwrap());
        drop(one);
        let more = self::clients(address, 1);
        accepted.push(other.next().unwrap().unwrap());
        let ours = ports(accepted.iter().map(TcpStream::peer_addr));
        assert_eq!(
            ours,
            ports(clients.iter().chain(&more).map(net::TcpStream::local_addr))
        );
    });
}

fn a_panic_ends_the_request(place: Place) {
    place.run(|| {
        let (listener, address) = listener();
        let _clients = clients(address, 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut connections = ring::accept(&listener);
            connections.next().unwrap().unwrap();
            panic!("on purpose");
        }));
        assert!(panicked.is_err());
        let second = net::TcpStream::connect(address).unwrap();
        let (_, peer) = listener.accept().unwrap();
        assert_eq!(peer, second.local_addr().unwrap());
    });
}

fn a_listener_that_listens_no_more_is_an_error(place: Place) {
    place.run(|| {
        let (listener, address) = listener();
        let mut connections = ring::accept(&listener);
        let _clients = clients(address, 1);
        connections.next().unwrap().unwrap();
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        for _ in 0..3 {
            assert_eq!(errno(connections.next().unwrap()), Errno::INVAL);
        }
    });
}

fn a_non_blocking_listener_says_that_it_would_wait(place: Place) {
    place.run(|| {
        let (listener, address) = listener();
        listener.set_nonblocking(true).unwrap();
        let mut connections = ring::accept(&listener);
        let error = connections.next().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let _client = net::TcpStream::connect(address).unwrap();
        connections.next().unwrap().unwrap();
    });
}

fn each_event_is_reported(place: Place) {
    place.run(|| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        let ours = reader.try_clone().unwrap();
        let mut events = ring::poll(&ours, Events::READABLE);
        for byte in 0..10 {
            writer.write_all(&[byte]).unwrap();
            assert!(events.next().unwrap().unwrap().intersects(Events::READABLE));
            let mut received = [0];
            reader.read_exact(&mut received).unwrap();
            assert_eq!(received, [byte]);
        }
    });
}

fn an_end_is_an_event(place: Place) {
    place.run(|| {
        let (reader, writer) = io::pipe().unwrap();
        drop(writer);
        let event = ring::poll_once(&reader, Events::READABLE).unwrap();
        assert!(event.intersects(Events::HANG_UP), "{event:?}");
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let both = Events::READABLE | Events::WRITABLE;
        let event = ring::poll(&writer, both).next().unwrap().unwrap();
        assert!(event.intersects(Events::ERROR) && event.intersects(Events::WRITABLE));
    });
}

fn a_dropped_poll_leaves_the_descriptor_alone(place: Place) {
    place.run(|| {
        let (mut reader, mut writer) = io::pipe().unwrap();
        for _ in 0..3 {
            writer.write_all(b"x").unwrap();
            let mut events = ring::poll(&reader, Events::READABLE);
            events.next().unwrap().unwrap();
            drop(events);
            reader.read_exact(&mut [0]).unwrap();
        }
    });
}

fn a_waiter_for_connections_is_woken(place: Place) {
    place.run(|| {
        let (listener, address) = listener();
        let mut client = None;
        let accept = || ring::accept(&listener).next().unwrap().unwrap();
        let accepted = place.meanwhile(accept, || {
            client = Some(net::TcpStream::connect(address).unwrap());
        });
        let client = client.unwrap().local_addr().unwrap();
        assert_eq!(accepted.peer_addr().unwrap(), client);
    });
}

fn a_waiter_for_events_is_woken(place: Place) {
    place.run(|| {
        let (reader, mut writer) = io::pipe().unwrap();
        let wait = || {
            ring::poll(&reader, Events::READABLE)
                .next()
                .unwrap()
                .unwrap()
        };
        let event = place.meanwhile(wait, || writer.write_all(b"x").unwrap());
        assert!(event.intersects(Events::READABLE));
    });
}

fn the_end_of_the_runtime_ends_the_wait(place: Place) {
    let runtime = place.runtime();
    // Keeps the address from other trials when the listener has ended.
    let (_socket, address) = refusing_socket();
    let listener = TcpListener::bind(address).unwrap();
    let (reader, _writer) = io::pipe().unwrap();
    let accepts = place.spawn_waiting(&runtime, move || {
        let mut connections = ring::accept(&listener);
        [connections.next(), connections.next()].map(|next| errno(next.unwrap()))
    });
    let polls = place.spawn_waiting(&runtime, move || {
        let mut events = ring::poll(&reader, Events::READABLE);
        [events.next(), events.next()].map(|next| errno(next.unwrap()))
    });
    drop(runtime);
    assert_eq!(accepts.join().unwrap(), [Errno::CANCELED; 2]);
    assert_eq!(polls.join().unwrap(), [Errno::CANCELED; 2]);
    let refused = net::TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

fn the_end_of_the_runtime_ends_what_was_leaked(place: Place) {
    let runtime = place.runtime();
    // Keeps the address from other trials when the listener has ended.
    let (_socket, address) = refusing_socket();
    let listener = TcpListener::bind(address).unwrap();
    let clients = clients(address, 3);
    runtime.run(|| {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"x").unwrap();
        let mut events = ring::poll(&reader, Events::READABLE);
        events.next().unwrap().unwrap();
        mem::forget(events);
        let mut connections = ring::accept(&listener);
        connections.next().unwrap().unwrap();
        mem::forget(connections);
    });
    drop(runtime);
    drop(listener);
    drop(clients);
    // The kernel has let go of it.
    eventually("the address is free", || {
        net::TcpListener::bind(address).is_ok()
    });
}

fn one_request_accepts_many_connections(place: Place) {
    if !has_multishot_accept() {
        lacks("multishot accept");
    }
    assert_eq!(place.driver(), Driver::Uring);
    let runtime = place.runtime();
    let submissions = || runtime.metrics().total().submissions;
    let before = submissions();
    runtime.run(|| {
        let (listener, address) = listener();
        let mut connections = ring::accept(&listener);
        for _ in 0..50 {
            let _client = net::TcpStream::connect(address).unwrap();
            connections.next().unwrap().unwrap();
        }
    });
    assert_eq!(submissions() - before, 1);
}

fn has_multishot_accept() -> bool {
    let features = uthread::runtime::diagnose().ring_features;
    let mut features = features.into_iter();
    let found = features.find(|feature| feature.name == "multishot accept");
    found.unwrap().available == Some(true)
}
