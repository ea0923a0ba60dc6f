//! `select!` over descriptors, alone and beside channels and times: what is ready is chosen,
//! nothing is taken from it, nothing is overlooked, and nothing is left behind.

use std::fmt::Debug;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use uthread::io::{PipeReader, PipeWriter, pipe};
use uthread::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use uthread::process::{Command, Stdio};
use uthread::sync::mpsc::channel;
use uthread::sync::{oneshot, select as arms};
use uthread::{select, timeout};

use crate::fixtures::fiber_or_thread::mixed;
use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::ready::{await_readable, await_writable, is_readable, is_writable};
use crate::support::standard::{Kind, with_stdin};
use crate::support::{
    FREE, HANG, SHORT, errno, file_of, open_descriptors, pair, pair_with_std, reset,
};

behaviours![(
    EVERYWHERE,
    [
        ready_arms_are_chosen_at_once,
        arms_that_are_not_ready_are_not_chosen,
        a_readable_source_wakes_the_waiter,
        a_writable_source_wakes_the_waiter,
        an_end_and_an_error_are_ready,
        one_socket_may_be_waited_for_both_ways,
        the_standard_input_may_be_replaced_between_two_waits,
        descriptors_of_others_are_waited_for,
        a_case_that_completes_first_leaves_the_readiness_of_others,
        all_that_are_ready_get_their_turn,
        no_byte_and_no_message_is_overlooked,
        several_may_wait_for_one_socket,
        a_wait_ends_in_time,
        a_deadline_ends_the_wait_and_the_socket_stays_usable,
        nothing_is_left_of_many_selections
    ]
)];

/// Returns two ends. There is no room to write at the first, and none comes by itself, as where a
/// network lies between.
fn full_pair() -> (UnixStream, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    while is_writable(&ours) {
        (&ours).write_all(&[0; 4096]).unwrap();
    }
    (ours, peer)
}

/// Returns a pipe without room.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    while is_writable(&writer) {
        writer.write_all(&[0; 4096]).unwrap();
    }
    (reader, writer)
}

/// Reads all there is.
fn empty(mut stream: &UnixStream) {
    while is_readable(stream) {
        let count = stream.read(&mut [0; 1 << 16]).unwrap();
        assert!(count > 0, "the stream has ended");
    }
}

/// Checks that an event makes a descriptor readable, and wakes its waiter.
fn becomes_readable(place: Place, fd: &(impl AsFd + Sync), event: impl FnOnce()) {
    place.meanwhile(|| await_readable(fd), event).unwrap();
}

/// Checks that an event makes a descriptor writable, and wakes its waiter.
fn becomes_writable(place: Place, fd: &(impl AsFd + Sync), event: impl FnOnce()) {
    place.meanwhile(|| await_writable(fd), event).unwrap();
}

/// Checks that a selection receives a value while it also waits for a descriptor to which nobody
/// writes.
fn another_comes_first<T>(place: Place, fd: &(impl AsFd + Sync), value: T)
where
    T: Copy + Debug + PartialEq + Send,
{
    let (sender, receiver) = channel();
    let choose = move || {
        select! {
            readable(fd) => panic!("readable, but nothing was written"),
            recv(&receiver) -> value => value,
        }
    };
    let send = || sender.send(value).unwrap();
    assert_eq!(place.meanwhile(choose, send), Ok(value));
}

fn ready_arms_are_chosen_at_once(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair();
        peer.write_all(b"x").unwrap();
        await_readable(&ours).unwrap();
        await_writable(&ours).unwrap();
        let file = file_of(b"");
        await_readable(&file).unwrap();
        await_writable(&file).unwrap();
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"x").unwrap();
        await_readable(&reader).unwrap();
        await_writable(&writer).unwrap();
        let mut child = Command::new("echo").stdout(Stdio::piped()).spawn().unwrap();
        child.wait().unwrap();
        await_readable(child.stdout.as_ref().unwrap()).unwrap();
        let mut ready = arms::readable(&ours);
        assert_eq!(arms::try_select(&mut [&mut ready]), Some(0));
        assert!(ready.take().unwrap().is_ok());
        assert_eq!((&ours).read(&mut [0; 2]).unwrap(), 1, "the byte was taken");
    });
}

fn arms_that_are_not_ready_are_not_chosen(place: Place) {
    place.run(|| {
        let (ours, peer) = full_pair();
        assert!(!is_readable(&ours) && !is_writable(&ours));
        let start = Instant::now();
        select! {
            readable(&ours) => panic!("readable, but nothing was written"),
            writable(&ours) => panic!("writable, but its buffer is full"),
            default(SHORT) => assert!(start.elapsed() >= SHORT),
        }
        select! {
            readable(&peer) if false => panic!("a disabled arm was chosen"),
            default => {}
        }
        await_readable(&peer).unwrap();
    });
}

fn a_readable_source_wakes_the_waiter(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair();
        let write = || peer.write_all(b"x").unwrap();
        becomes_readable(place, &ours, write);
        assert_eq!((&ours).read(&mut [0; 2]).unwrap(), 1);

        let listener = TcpListener::bind(FREE).unwrap();
        let connect = || drop(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        becomes_readable(place, &listener, connect);
        listener.accept().unwrap();

        let socket = UdpSocket::bind(FREE).unwrap();
        let address = socket.local_addr().unwrap();
        let send = || assert_eq!(socket.send_to(b"x", address).unwrap(), 1);
        becomes_readable(place, &socket, send);

        let (one, other) = UnixDatagram::pair().unwrap();
        let send = || assert_eq!(other.send(b"x").unwrap(), 1);
        becomes_readable(place, &one, send);

        let (one, mut other) = UnixStream::pair().unwrap();
        let write = || other.write_all(b"x").unwrap();
        becomes_readable(place, &one, write);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let connect = || drop(UnixStream::connect(&path).unwrap());
        becomes_readable(place, &listener, connect);

        let (reader, mut writer) = pipe().unwrap();
        let write = || writer.write_all(b"x").unwrap();
        becomes_readable(place, &reader, write);
    });
}

fn a_writable_source_wakes_the_waiter(place: Place) {
    place.run(|| {
        let (ours, peer) = full_pair();
        becomes_writable(place, &ours, || empty(&peer));

        let (mut reader, writer) = full_pipe();
        let empty = || reader.read_exact(&mut [0; 4096]).unwrap();
        becomes_writable(place, &writer, empty);
    });
}

fn an_end_and_an_error_are_ready(place: Place) {
    place.run(|| {
        let (ours, peer) = pair();
        let end = || peer.shutdown(Shutdown::Write).unwrap();
        becomes_readable(place, &ours, end);
        assert_eq!((&ours).read(&mut [0; 1]).unwrap(), 0);

        let (ours, peer) = pair_with_std();
        reset(&peer);
        becomes_readable(place, &ours, || drop(peer));
        await_writable(&ours).unwrap();
        assert_eq!(errno((&ours).read(&mut [0; 1])), Errno::CONNRESET);

        let (ours, peer) = full_pair();
        becomes_writable(place, &ours, || drop(peer));
        assert_eq!(errno((&ours).write(b"x")), Errno::PIPE);

        let listener = TcpListener::bind(FREE).unwrap();
        let stop = || listener.shutdown().unwrap();
        becomes_readable(place, &listener, stop);
        assert_eq!(errno(listener.accept()), Errno::INVAL);

        let (reader, writer) = pipe().unwrap();
        becomes_readable(place, &reader, || drop(writer));
        let (reader, mut writer) = full_pipe();
        becomes_writable(place, &writer, || drop(reader));
        assert_eq!(errno(writer.write(b"x")), Errno::PIPE);
    });
}

fn one_socket_may_be_waited_for_both_ways(place: Place) {
    place.run(|| {
        let (ours, peer) = full_pair();
        let choose = || {
            select! {
                readable(&ours) -> ready => ready.map(|()| "readable"),
                writable(&ours) -> ready => ready.map(|()| "writable"),
                after(HANG) => panic!("neither readable nor writable"),
            }
        };
        let write = || (&peer).write_all(b"x").unwrap();
        assert_eq!(place.meanwhile(choose, write).unwrap(), "readable");
        (&ours).read_exact(&mut [0]).unwrap();
        let event = || empty(&peer);
        assert_eq!(place.meanwhile(choose, event).unwrap(), "writable");
    });
}

fn the_standard_input_may_be_replaced_between_two_waits(place: Place) {
    alone(|| {
        place.run(|| {
            for kind in Kind::ALL {
                let (other, mut writer) = kind.input();
                with_stdin(other, || {
                    let input = &uthread::io::stdin();
                    another_comes_first(place, input, ());
                    let write = || writer.write_all(b"line\n").unwrap();
                    place
                        .meanwhile(|| await_readable(&uthread::io::stdin()), write)
                        .unwrap();
                    let mut line = String::new();
                    input.read_line(&mut line).unwrap();
                    assert_eq!(line, "line\n", "{kind:?}");
                });
            }
        });
    });
}

/// Includes descriptors that our drivers have never met.
fn descriptors_of_others_are_waited_for(place: Place) {
    place.run(|| {
        let (reader, mut writer) = io::pipe().unwrap();
        let write = || writer.write_all(b"x").unwrap();
        becomes_readable(place, &reader, write);
        for round in 0..3 {
            // The number of the last, often.
            let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
            let write = || other.write_all(b"x").unwrap();
            becomes_readable(place, &one, write);
            assert!(is_writable(&&one), "{round}");
        }
    });
}

fn a_case_that_completes_first_leaves_the_readiness_of_others(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair();
        let socket = &ours;
        for round in 0..20_u8 {
            another_comes_first(place, socket, round);
            let (settle, mut settled) = oneshot::channel();
            let choose = move || {
                select! {
                    recv(&mut settled) -> value => value,
                    readable(socket) => panic!("readable, but nothing was written"),
                }
            };
            let send = || settle.send(round).unwrap();
            assert_eq!(place.meanwhile(choose, send), Ok(round));
            let read = || {
                await_readable(&ours).unwrap();
                let mut byte = [0xff];
                (&ours).read_exact(&mut byte).map(|()| byte[0])
            };
            let write = || peer.write_all(&[round]).unwrap();
            assert_eq!(place.meanwhile(read, write).unwrap(), round);
        }
    });
}

fn all_that_are_ready_get_their_turn(place: Place) {
    place.run(|| {
        const ROUNDS: usize = 1000;
        let (ours, mut peer) = pair();
        peer.write_all(b"x").unwrap();
        let (sender, receiver) = channel();
        (0..ROUNDS).for_each(|n| sender.send(n).unwrap());
        let mut counts = [0; 3];
        for _ in 0..ROUNDS {
            select! {
                readable(&ours) -> ready => { ready.unwrap(); counts[0] += 1; }
                writable(&ours) -> ready => { ready.unwrap(); counts[1] += 1; }
                recv(&receiver) => counts[2] += 1,
            }
        }
        assert!(counts.iter().all(|&count| count > ROUNDS / 5), "{counts:?}");
    });
}

/// Makes events arrive in any order, from fibers and threads: a lost wake-up would be a hang.
fn no_byte_and_no_message_is_overlooked(place: Place) {
    const EACH: usize = 300;
    mixed(place, |one, other| {
        let (ours, mut peer) = pair();
        let (sender, receiver) = channel();
        let chooses = one.start(move || {
            let mut left = [EACH; 2];
            while left != [0, 0] {
                select! {
                    readable(&ours) -> ready if left[0] > 0 => {
                        ready.unwrap();
                        left[0] -= (&ours).read(&mut [0; 2]).unwrap();
                    }
                    recv(&receiver) -> value if left[1] > 0 => {
                        value.unwrap();
                        left[1] -= 1;
                    }
                    after(HANG) => panic!("overlooked: {left:?}"),
                }
            }
        });
        let writes = other.start(move || {
            (0..EACH).for_each(|_| peer.write_all(b"x").unwrap());
            peer
        });
        let sends = other.start(move || (0..EACH).for_each(|_| sender.send(()).unwrap()));
        chooses.join();
        sends.join();
        drop(writes.join());
    });
}

fn several_may_wait_for_one_socket(place: Place) {
    const CONNECTIONS: usize = 20;
    mixed(place, |one, other| {
        let listener = TcpListener::bind(FREE).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, accepted) = channel();
        let accepting: Vec<_> = [one, other, one]
            .into_iter()
            .map(|side| {
                let (listener, sender) = (listener.try_clone().unwrap(), sender.clone());
                let (stop, stopped) = channel::<()>();
                let accepts = move || {
                    listener.set_nonblocking(true).unwrap();
                    loop {
                        select! {
                            recv(&stopped) => return,
                            readable(&listener) -> ready => {
                                ready.unwrap();
                                // Another may have been first.
                                match listener.accept() {
                                    Ok(_) => sender.send(()).unwrap(),
                                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                                }
                            }
                        }
                    }
                };
                (side.start(accepts), stop)
            })
            .collect();
        for _ in 0..CONNECTIONS {
            TcpStream::connect(address).unwrap();
            accepted.recv_timeout(HANG).expect("not accepted");
        }
        for (accepts, stop) in accepting {
            drop(stop);
            accepts.join();
        }
    });
}

fn a_wait_ends_in_time(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair();
        let start = Instant::now();
        select! {
            readable(&ours) => panic!("readable, but nothing was written"),
            after(SHORT) => assert!(start.elapsed() >= SHORT),
        }
        let mut ready = arms::readable(&ours);
        assert_eq!(arms::select_timeout(&mut [&mut ready], SHORT), None);
        assert!(start.elapsed() >= 2 * SHORT);
        // The same case again.
        peer.write_all(b"x").unwrap();
        assert_eq!(arms::select(&mut [&mut ready]), 0);
    });
}

fn a_deadline_ends_the_wait_and_the_socket_stays_usable(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair();
        for byte in 0..5_u8 {
            let start = Instant::now();
            assert!(timeout(SHORT, || await_readable(&ours)).is_err());
            assert!(start.elapsed() >= SHORT);
            peer.write_all(&[byte]).unwrap();
            await_readable(&ours).unwrap();
            let mut read = [0xff];
            (&ours).read_exact(&mut read).unwrap();
            assert_eq!(read, [byte]);
        }
    });
}

fn nothing_is_left_of_many_selections(place: Place) {
    alone(|| {
        place.run(|| {
            let descriptors = open_descriptors;
            let (ours, _peer) = pair();
            let socket = &ours;
            let choose = |round: usize| {
                assert!(!is_readable(socket));
                if round.is_multiple_of(100) {
                    another_comes_first(place, socket, round);
                }
                select! {
                    readable(socket) => panic!("readable, but nothing was written"),
                    after(Duration::from_micros(1)) => {}
                }
            };
            (0..200).for_each(choose);
            let before = descriptors();
            (0..1000).for_each(choose);
            assert_eq!(descriptors(), before);
        });
    });
}
