//! Options of TCP sockets, before and after they connect, and host names that are resolved outside
//! the worker.

use std::io::{ErrorKind, Read, Write};
use std::net::{self, Ipv6Addr};
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, ON_ONE_WORKER, behaviours, lacks};
use crate::support::{FREE, Flag, FullListener, errno, kind, pair, refusing_socket};
use rustix::io::{Errno, FdFlags};
use rustix::net::sockopt;
use uthread::net::{Keepalive, SocketAddr, TcpListener, TcpSocket, TcpStream, ToSocketAddrs};

behaviours![
    (
        EVERYWHERE,
        [
            keepalive_is_set_and_taken_back,
            keepalive_that_the_kernel_does_not_take_is_refused,
            a_linger_of_zero_resets_the_peer,
            the_sizes_of_buffers_are_those_of_the_kernel,
            acknowledgements_may_be_quick,
            a_port_is_shared_by_those_who_all_ask_for_it,
            a_socket_is_bound_before_it_connects,
            a_socket_connects_in_time_or_not_at_all,
            a_listener_has_the_backlog_it_was_given,
            version_six_alone_is_a_choice_before_binding,
            a_listener_that_is_shut_down_ends_accept_on_every_handle
        ]
    ),
    (ON_ONE_WORKER, [a_look_up_does_not_keep_the_worker]),
];

const SECOND: Duration = Duration::from_secs(1);

fn free() -> SocketAddr {
    FREE.parse().unwrap()
}

fn keepalive_is_set_and_taken_back(place: Place) {
    place.run(|| {
        let (ours, _theirs) = pair();
        assert_eq!(ours.keepalive().unwrap(), None);
        let keepalive = Keepalive {
            idle: 5 * SECOND,
            interval: 2 * SECOND,
            count: 4,
        };
        ours.set_keepalive(Some(keepalive)).unwrap();
        assert_eq!(ours.keepalive().unwrap(), Some(keepalive));
        assert_eq!(sockopt::tcp_keepcnt(&ours).unwrap(), 4);
        ours.set_keepalive(None).unwrap();
        assert_eq!(ours.keepalive().unwrap(), None);

        // A listener hands it down.
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_keepalive(Some(keepalive)).unwrap();
        assert_eq!(socket.keepalive().unwrap(), Some(keepalive));
        socket.bind(free()).unwrap();
        let listener = socket.listen(1).unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(server.keepalive().unwrap(), Some(keepalive));
    });
}

fn keepalive_that_the_kernel_does_not_take_is_refused(place: Place) {
    place.run(|| {
        let (ours, _theirs) = pair();
        let good = Keepalive::default();
        for bad in [
            Keepalive {
                idle: Duration::ZERO,
                ..good
            },
            Keepalive {
                idle: Duration::MAX,
                ..good
            },
            Keepalive {
                interval: 32768 * SECOND,
                ..good
            },
            Keepalive { count: 0, ..good },
            Keepalive { count: 128, ..good },
        ] {
            let refused = ours.set_keepalive(Some(bad));
            assert_eq!(errno(refused), Errno::INVAL, "{bad:?}");
            assert_eq!(ours.keepalive().unwrap(), None);
        }
        // Rounded up, as less than was asked for would be another thing.
        let idle = Duration::from_millis(1500);
        ours.set_keepalive(Some(Keepalive { idle, ..good }))
            .unwrap();
        let found = ours.keepalive().unwrap().unwrap();
        assert_eq!(
            found,
            Keepalive {
                idle: 2 * SECOND,
                ..good
            }
        );
    });
}

fn a_linger_of_zero_resets_the_peer(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        assert_eq!(theirs.linger().unwrap(), None);
        theirs.set_linger(Some(3 * SECOND)).unwrap();
        assert_eq!(theirs.linger().unwrap(), Some(3 * SECOND));
        theirs.set_linger(Some(Duration::ZERO)).unwrap();
        let read = place.meanwhile(|| (&ours).read(&mut [0]), || drop(theirs));
        assert_eq!(errno(read), Errno::CONNRESET);
    });
}

fn the_sizes_of_buffers_are_those_of_the_kernel(place: Place) {
    place.run(|| {
        let (ours, _theirs) = pair();
        ours.set_send_buffer_size(20_000).unwrap();
        ours.set_recv_buffer_size(30_000).unwrap();
        // The kernel doubles them, for what it needs itself.
        assert_eq!(ours.send_buffer_size().unwrap(), 40_000);
        assert_eq!(ours.recv_buffer_size().unwrap(), 60_000);
        assert_eq!(errno(ours.set_send_buffer_size(usize::MAX)), Errno::INVAL);
    });
}

fn acknowledgements_may_be_quick(place: Place) {
    place.run(|| {
        let (ours, _theirs) = pair();
        for quick in [false, true] {
            ours.set_quickack(quick).unwrap();
            assert_eq!(ours.quickack().unwrap(), quick);
        }
    });
}

fn a_port_is_shared_by_those_who_all_ask_for_it(place: Place) {
    place.run(|| {
        let socket = |shares| {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_reuse_port(shares).unwrap();
            assert_eq!(socket.reuse_port().unwrap(), shares);
            socket
        };
        let first = socket(true);
        first.bind(free()).unwrap();
        let address = first.local_addr().unwrap();
        let first = first.listen(8).unwrap();
        let second = socket(true);
        second.bind(address).unwrap();
        let _second = second.listen(8).unwrap();
        assert_eq!(errno(socket(false).bind(address)), Errno::ADDRINUSE);
        assert_eq!(first.local_addr().unwrap(), address);
    });
}

fn a_socket_is_bound_before_it_connects(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuse_address(true).unwrap();
        assert!(socket.reuse_address().unwrap());
        assert_eq!(rustix::io::fcntl_getfd(&socket).unwrap(), FdFlags::CLOEXEC);
        socket.bind("127.0.0.5:0".parse().unwrap()).unwrap();
        let bound = socket.local_addr().unwrap();
        let mut stream = socket.connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        assert_eq!((from, stream.local_addr().unwrap()), (bound, bound));
        server.write_all(b"!").unwrap();
        stream.read_exact(&mut [0]).unwrap();
    });
}

fn a_socket_connects_in_time_or_not_at_all(place: Place) {
    place.run(|| {
        let new = || TcpSocket::new_v4().unwrap();
        let (_socket, refusing) = refusing_socket();
        assert_eq!(errno(new().connect(refusing)), Errno::CONNREFUSED);
        let timed = new().connect_timeout(refusing, SECOND);
        assert_eq!(errno(timed), Errno::CONNREFUSED);
        let zero = new().connect_timeout(refusing, Duration::ZERO);
        assert_eq!(kind(zero), ErrorKind::InvalidInput);
        let full = FullListener::new();
        let late = new().connect_timeout(full.address, Duration::from_millis(2));
        assert_eq!(kind(late), ErrorKind::TimedOut);
    });
}

fn a_listener_has_the_backlog_it_was_given(place: Place) {
    place.run(|| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(free()).unwrap();
        let listener = socket.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        // The kernel takes one more than the backlog.
        let _queued = TcpStream::connect(address).unwrap();
        let short = Duration::from_millis(20);
        let late = TcpStream::connect_timeout(&address, short);
        assert_eq!(kind(late), ErrorKind::TimedOut);
        // No number is too large.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(free()).unwrap();
        socket.listen(u32::MAX).unwrap();
    });
}

#[allow(deprecated, reason = "std has it so")]
fn version_six_alone_is_a_choice_before_binding(place: Place) {
    if net::TcpListener::bind("[::1]:0").is_err() {
        lacks("this machine has no ::1");
    }
    place.run(|| {
        for only in [true, false] {
            // Keeps the port of version four from other trials.
            let (_socket, by_four) = refusing_socket();
            let socket = TcpSocket::new_v6().unwrap();
            socket.set_reuse_address(true).unwrap();
            socket.set_only_v6(only).unwrap();
            assert_eq!(socket.only_v6().unwrap(), only);
            let any = (Ipv6Addr::UNSPECIFIED, by_four.port());
            socket.bind(any.into()).unwrap();
            assert_eq!(errno(socket.set_only_v6(!only)), Errno::INVAL);
            let listener = socket.listen(8).unwrap();
            assert_eq!(listener.only_v6().unwrap(), only);
            assert_eq!(errno(listener.set_only_v6(!only)), Errno::INVAL);
            assert_eq!(TcpStream::connect(by_four).is_err(), only);
        }
    });
}

fn a_listener_that_is_shut_down_ends_accept_on_every_handle(place: Place) {
    place.run(|| {
        // Keeps the address from other trials when the listener has ended.
        let (_socket, address) = refusing_socket();
        let listener = TcpListener::bind(address).unwrap();
        let clone = listener.try_clone().unwrap();
        let end = || listener.shutdown().unwrap();
        let accepted = place.meanwhile(|| clone.accept(), end);
        assert_eq!(errno(accepted), Errno::INVAL);
        assert_eq!(errno(listener.accept()), Errno::INVAL);
        assert_eq!(errno(listener.shutdown()), Errno::NOTCONN);
        assert_eq!(errno(TcpStream::connect(address)), Errno::CONNREFUSED);
    });
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queued = TcpStream::connect(address).unwrap();
        listener.shutdown().unwrap();
        assert_eq!(errno(queued.read(&mut [0])), Errno::CONNRESET);
    });
}

/// Tries several times: the answer may come before the worker has turned to the other fiber, but
/// not each time.
fn a_look_up_does_not_keep_the_worker(place: Place) {
    place.run(|| {
        let runs = Flag::default();
        let raised = runs.clone();
        let other = uthread::spawn(move || raised.raise());
        for _ in 0..100 {
            let mut found = "localhost:80".to_socket_addrs().unwrap();
            assert!(found.any(|address| address.port() == 80));
            if runs.is_raised() {
                break;
            }
        }
        assert!(runs.is_raised());
        other.join().unwrap();
    });
}
