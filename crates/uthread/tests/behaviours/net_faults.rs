//! Network faults, and the end of a runtime during them: each fault is an error of the affected
//! call, nothing hangs, and nothing is left behind.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::iter;
use std::net::{self, Ipv4Addr, Shutdown};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, behaviours};
use crate::support::{
    FREE, Flag, FullListener, HOUR, drain, errno, file_of, kind, limit_descriptors, narrow,
    open_descriptors, pair, pair_with_std, pass_a_round, pattern, refusing_socket, reset, signals,
};
use rustix::io::Errno;
use uthread::net::{TcpListener, TcpStream, UdpSocket};

behaviours![
    (
        EVERYWHERE,
        [
            a_reset_ends_a_read_that_waits,
            a_reset_ends_a_write_that_waits,
            bytes_before_an_orderly_end_are_read_first,
            connecting_to_a_closed_port_is_refused,
            an_address_in_use_is_refused_until_it_is_free,
            a_listener_shut_down_by_another_ends_its_accept,
            a_clone_that_is_closed_does_not_end_what_waits_on_another,
            a_fiber_that_panics_closes_its_connection,
            a_write_after_the_end_is_an_error_and_kills_nobody,
            without_a_free_descriptor_calls_fail_and_work_again_later,
            failed_and_ended_connections_leave_no_descriptor,
            a_buffer_is_left_alone_once_its_read_has_returned
        ]
    ),
    (
        IN_FIBERS,
        [
            a_runtime_that_ends_cancels_each_call_and_closes_all,
            calls_after_the_cancellation_fail_at_once
        ]
    ),
];

fn a_reset_ends_a_read_that_waits(place: Place) {
    place.run(|| {
        let (mut ours, theirs) = pair_with_std();
        let read = place.meanwhile(|| (&ours).read(&mut [0]), || reset(theirs));
        assert_eq!(errno(read), Errno::CONNRESET);
        // The error is reported once; then the connection is at its end.
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
        assert_eq!(errno(ours.write(b"!")), Errno::PIPE);
    });
}

fn a_reset_ends_a_write_that_waits(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair_with_std();
        narrow(&ours, &theirs);
        let bytes = vec![1; 4 << 20];
        let write = || (&ours).write_all(&bytes);
        let written = place.meanwhile(write, || reset(theirs));
        assert_eq!(errno(written), Errno::CONNRESET);
    });
}

fn bytes_before_an_orderly_end_are_read_first(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        theirs.write_all(b"last words").unwrap();
        drop(theirs);
        assert_eq!(drain(&ours), b"last words");
    });
}

fn connecting_to_a_closed_port_is_refused(place: Place) {
    place.run(|| {
        let (_socket, address) = refusing_socket();
        assert_eq!(errno(TcpStream::connect(address)), Errno::CONNREFUSED);
    });
}

fn an_address_in_use_is_refused_until_it_is_free(place: Place) {
    // No other process and behaviour uses this address, and one trial at a time, so that none takes
    // the port meanwhile.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, high.max(1), middle, low);
    place.run(|| {
        let listener = TcpListener::bind((own, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(errno(TcpListener::bind(address)), Errno::ADDRINUSE);
        // A connection in TIME_WAIT does not keep a server from starting again.
        let client = net::TcpStream::connect(address).unwrap();
        drop(listener.accept().unwrap());
        assert_eq!(drain(client), b"");
        drop(listener);
        TcpListener::bind(address).unwrap();
    });
}

fn a_listener_shut_down_by_another_ends_its_accept(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let end = || rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        let accepted = place.meanwhile(|| listener.accept(), end);
        assert_eq!(errno(accepted), Errno::INVAL);
    });
}

fn a_clone_that_is_closed_does_not_end_what_waits_on_another(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let clone = ours.try_clone().unwrap();
        let end = || {
            drop(clone);
            pass_a_round();
            theirs.write_all(b"!").unwrap();
        };
        assert_eq!(place.meanwhile(|| (&ours).read(&mut [0]), end).unwrap(), 1);

        let listener = TcpListener::bind(FREE).unwrap();
        let clone = listener.try_clone().unwrap();
        let address = listener.local_addr().unwrap();
        let end = || {
            drop(clone);
            pass_a_round();
            net::TcpStream::connect(address).unwrap();
        };
        place.meanwhile(|| listener.accept(), end).unwrap();
    });
}

fn a_fiber_that_panics_closes_its_connection(place: Place) {
    place.run(|| {
        let (ours, theirs) = pair();
        let fiber = uthread::spawn(move || {
            let _ours = ours;
            std::panic::resume_unwind(Box::new("a bug"));
        });
        assert_eq!(drain(theirs), b"");
        fiber.join().unwrap_err();
    });
}

/// Restores SIGPIPE first, as a program may: Rust ignores it.
fn a_write_after_the_end_is_an_error_and_kills_nobody(place: Place) {
    alone(|| {
        signals::make_broken_pipes_deadly();
        place.run(|| {
            for timeout in [None, Some(HOUR)] {
                let (mut ours, theirs) = pair_with_std();
                ours.set_write_timeout(timeout).unwrap();
                ours.shutdown(Shutdown::Write).unwrap();
                assert_eq!(errno(ours.write(b"!")), Errno::PIPE);
                drop(theirs);
                assert_eq!(errno(ours.write(b"!")), Errno::PIPE);
            }
        });
    });
}

fn without_a_free_descriptor_calls_fail_and_work_again_later(place: Place) {
    alone(|| {
        limit_descriptors(128);
        place.run(|| {
            let listener = TcpListener::bind(FREE).unwrap();
            let address = listener.local_addr().unwrap();
            let clients: Vec<_> = iter::repeat_with(|| {
                let mut client = net::TcpStream::connect(address).unwrap();
                client.write_all(b"queued").unwrap();
                client
            })
            .take(ATTEMPTS + 1)
            .collect();

            let mut all = Vec::new();
            for _ in 0..3 {
                assert_no_descriptor(&mut all, || listener.accept());
            }
            assert_no_descriptor(&mut all, || TcpStream::connect(address));
            assert_no_descriptor(&mut all, || TcpStream::connect_timeout(&address, HOUR));
            assert_no_descriptor(&mut all, || TcpListener::bind(FREE));
            assert_no_descriptor(&mut all, || listener.try_clone());

            all.truncate(all.len() - 1);
            let (stream, _) = listener.accept().unwrap();
            assert_no_descriptor(&mut all, || stream.try_clone());
            drop(clients);
            assert_eq!(drain(stream), b"queued");
        });
    });
}

/// Number of times that a call without a free descriptor is tried.
const ATTEMPTS: usize = 5;

/// Calls `call` while `all` keeps all descriptors, and checks that it fails. The monitor
/// gives back the one by which it looks at a thread, so that the call may succeed then; that is rare.
fn assert_no_descriptor<T>(all: &mut Vec<File>, call: impl Fn() -> io::Result<T>) {
    let has_failed = (0..ATTEMPTS).any(|_| {
        all.extend(iter::from_fn(|| File::open("/dev/null").ok()));
        match call() {
            Ok(_) => false,
            result => {
                assert_eq!(errno(result), Errno::MFILE);
                true
            }
        }
    });
    assert!(has_failed, "there are free descriptors");
}

fn failed_and_ended_connections_leave_no_descriptor(place: Place) {
    alone(|| {
        place.run(|| {
            let full = FullListener::new();
            let (_socket, refusing) = refusing_socket();
            let file = uthread::fs::File::open("/proc/version").unwrap();
            let before = open_descriptors();
            for _ in 0..10 {
                let short = Duration::from_millis(2);
                let late = TcpStream::connect_timeout(&full.address, short);
                assert_eq!(kind(late), ErrorKind::TimedOut);
                TcpStream::connect(refusing).unwrap_err();
                let (ours, theirs) = pair();
                ours.send_file(&file, 0, 10).unwrap();
                drop(ours.try_clone().unwrap());
                drop(net::TcpStream::from(ours));
                drain(theirs);
            }
            assert_eq!(open_descriptors(), before);
        });
    });
}

/// The last message of a cancelled fiber: its errno, and the buffer that it had lent.
type Farewell = (Errno, [u8; 4]);

/// One call that waits forever, made by a fiber.
type Wait = Box<dyn FnOnce(&mut [u8; 4]) -> io::Result<()> + Send>;

/// Returns every call of the network that waits, on sockets on which nothing happens, and the
/// peers.
fn waits() -> (Vec<Wait>, Vec<net::TcpStream>, FullListener) {
    let full = FullListener::new();
    let address = full.address;
    let listener = TcpListener::bind(FREE).unwrap();
    let mut peers = Vec::new();
    let mut stream = || {
        let (ours, theirs) = pair_with_std();
        narrow(&ours, &theirs);
        peers.push(theirs);
        ours
    };
    let (reads, peeks, writes, sends, timed) = (stream(), stream(), stream(), stream(), stream());
    timed.set_read_timeout(Some(HOUR)).unwrap();
    timed.set_write_timeout(Some(HOUR)).unwrap();
    let file = file_of(&pattern(1 << 20, 1));
    let udp = UdpSocket::bind(FREE).unwrap();
    let clone = udp.try_clone().unwrap();
    let waits: Vec<Wait> = vec![
        Box::new(move |_| listener.accept().map(drop)),
        Box::new(move |buffer| (&reads).read(buffer).map(drop)),
        Box::new(move |buffer| peeks.peek(buffer).map(drop)),
        Box::new(move |buffer| (&timed).read(buffer).map(drop)),
        Box::new(move |_| (&writes).write_all(&vec![1; 4 << 20])),
        Box::new(move |_| sends.send_file(&file, 0, u64::MAX).map(drop)),
        Box::new(move |_| TcpStream::connect(address).map(drop)),
        Box::new(move |buffer| udp.recv(buffer).map(drop)),
        Box::new(move |buffer| clone.recv_from(buffer).map(drop)),
        Box::new(move |_| TcpStream::connect_timeout(&address, HOUR).map(drop)),
    ];
    (waits, peers, full)
}

fn end_a_runtime_under_its_calls(place: Place) {
    let (waits, peers, _full) = waits();
    let runtime = place.runtime();
    let mut flags = Vec::new();
    let mut fibers = Vec::new();
    for wait in waits {
        let flag = Flag::default();
        flags.push(flag.clone());
        fibers.push(runtime.spawn(move || -> Farewell {
            flag.raise();
            let mut buffer = [7; 4];
            (errno(wait(&mut buffer)), buffer)
        }));
    }
    runtime.run(|| {
        flags.iter().for_each(Flag::wait);
        pass_a_round();
    });
    assert!(fibers.iter().all(|fiber| !fiber.is_finished()));
    drop(runtime);
    for (number, fiber) in fibers.into_iter().enumerate() {
        let farewell = fiber.join().expect("an error, no unwinding");
        assert_eq!(farewell, (Errno::CANCELED, [7; 4]), "call {number}");
    }
    // The fibers have closed what they held: with an end, or a reset where bytes were left.
    for mut peer in peers {
        let end = io::copy(&mut peer, &mut io::sink());
        assert!(end.map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |_| true));
    }
}

fn a_runtime_that_ends_cancels_each_call_and_closes_all(place: Place) {
    alone(|| {
        for _ in 0..2 {
            let before = open_descriptors();
            end_a_runtime_under_its_calls(place);
            assert_eq!(open_descriptors(), before);
        }
    });
}

fn calls_after_the_cancellation_fail_at_once(place: Place) {
    let (ours, mut theirs) = pair_with_std();
    let listener = TcpListener::bind(FREE).unwrap();
    let address = listener.local_addr().unwrap();
    let runtime = place.runtime();
    let waits = Flag::default();
    let raised = waits.clone();
    let fiber = runtime.spawn(move || {
        raised.raise();
        // A whole read does not take the cancellation for an interruption and try again.
        let first = (&ours).read_exact(&mut [0]);
        [
            errno(first),
            errno((&ours).read(&mut [0])),
            errno((&ours).write(b"!")),
            errno(ours.peek(&mut [0])),
            errno(listener.accept()),
            errno(TcpStream::connect(address)),
            errno(TcpStream::connect_timeout(&address, HOUR)),
        ]
    });
    runtime.run(|| {
        waits.wait();
        pass_a_round();
    });
    drop(runtime);
    assert_eq!(fiber.join().unwrap(), [Errno::CANCELED; 7]);
    assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
}

/// Catches a buffer that the kernel still writes to after the call that lent it has returned.
fn a_buffer_is_left_alone_once_its_read_has_returned(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        ours.set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        let mut returned = Vec::new();
        for number in 0..20 {
            let mut buffer = Box::new([7; 512]);
            match (&ours).read(&mut buffer[..]) {
                Ok(count) => assert!(buffer[count..].iter().all(|byte| *byte == 7)),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            returned.push((buffer.clone(), buffer));
            theirs.write_all(&[number; 100]).unwrap();
            pass_a_round();
            for (copy, buffer) in &returned {
                assert_eq!(copy, buffer);
            }
        }
    });
}
