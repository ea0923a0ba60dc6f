//! `select!` over descriptors, channels and times: a ready arm is selected, and no data is consumed.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use uthread::io::pipe;
use uthread::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use uthread::process::{Command, Stdio};
use uthread::select;
use uthread::sync::mpsc::channel;
use uthread::sync::select as arms;

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::ready::{await_readable, await_writable, is_readable, is_writable};
use crate::support::standard::{Kind, with_stdin};
use crate::support::{FREE, HANG, errno, file_of, pair, pair_with_std, reset};

behaviours![(
    EVERYWHERE,
    [
        what_is_ready_is_chosen_at_once,
        what_is_not_ready_is_not_chosen,
        what_becomes_readable_wakes_who_waits,
        what_becomes_writable_wakes_who_waits,
        an_end_and_an_error_are_ready,
        one_socket_may_be_waited_for_both_ways,
        the_standard_input_may_be_replaced_between_two_waits,
        descriptors_of_others_are_waited_for
    ]
)];

const SOON: Duration = Duration::from_millis(3);

/// Two ends, of which there is no room to write at the first, and none comes by itself, as where a network lies
/// between.
fn full_pair() -> (UnixStream, UnixStream) {
    let (ours, peer) = UnixStream::pair().unwrap();
    while is_writable(&ours) {
        (&ours).write_all(&[0; 4096]).unwrap();
    }
    (ours, peer)
}

/// Reads all there is.
fn empty(mut stream: &UnixStream) {
    while is_readable(stream) {
        let count = stream.read(&mut [0; 1 << 16]).unwrap();
        assert!(count > 0, "it has ended");
    }
}

fn what_is_ready_is_chosen_at_once(place: Place) {
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
        assert_eq!((&ours).read(&mut [0; 2]).unwrap(), 1, "it was taken");
    });
}

fn what_is_not_ready_is_not_chosen(place: Place) {
    place.run(|| {
        let (ours, peer) = full_pair();
        assert!(!is_readable(&ours) && !is_writable(&ours));
        let start = Instant::now();
        select! {
            readable(&ours) => panic!("nobody has written"),
            writable(&ours) => panic!("nobody has read"),
            default(SOON) => assert!(start.elapsed() >= SOON),
        }
        select! {
            readable(&peer) if false => panic!("it does not take part"),
            default => {}
        }
        await_readable(&peer).unwrap();
    });
}

fn what_becomes_readable_wakes_who_waits(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair();
        let write = || peer.write_all(b"x").unwrap();
        place.meanwhile(|| await_readable(&ours), write).unwrap();
        assert_eq!((&ours).read(&mut [0; 2]).unwrap(), 1);

        let listener = TcpListener::bind(FREE).unwrap();
        let connect = || drop(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        place
            .meanwhile(|| await_readable(&listener), connect)
            .unwrap();
        listener.accept().unwrap();

        let socket = UdpSocket::bind(FREE).unwrap();
        let send = || {
            assert_eq!(
                socket.send_to(b"x", socket.local_addr().unwrap()).unwrap(),
                1
            )
        };
        place.meanwhile(|| await_readable(&socket), send).unwrap();

        let (one, other) = UnixDatagram::pair().unwrap();
        let send = || assert_eq!(other.send(b"x").unwrap(), 1);
        place.meanwhile(|| await_readable(&one), send).unwrap();

        let (one, mut other) = UnixStream::pair().unwrap();
        let write = || other.write_all(b"x").unwrap();
        place.meanwhile(|| await_readable(&one), write).unwrap();

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let connect = || drop(UnixStream::connect(&path).unwrap());
        place
            .meanwhile(|| await_readable(&listener), connect)
            .unwrap();

        let (reader, mut writer) = pipe().unwrap();
        let write = || writer.write_all(b"x").unwrap();
        place.meanwhile(|| await_readable(&reader), write).unwrap();
    });
}

fn what_becomes_writable_wakes_who_waits(place: Place) {
    place.run(|| {
        let (ours, peer) = full_pair();
        place
            .meanwhile(|| await_writable(&ours), || empty(&peer))
            .unwrap();

        let (mut reader, mut writer) = pipe().unwrap();
        while is_writable(&writer) {
            writer.write_all(&[0; 4096]).unwrap();
        }
        let empty = || reader.read_exact(&mut [0; 4096]).unwrap();
        place.meanwhile(|| await_writable(&writer), empty).unwrap();
    });
}

fn an_end_and_an_error_are_ready(place: Place) {
    place.run(|| {
        let (ours, peer) = pair();
        let end = || peer.shutdown(Shutdown::Write).unwrap();
        place.meanwhile(|| await_readable(&ours), end).unwrap();
        assert_eq!((&ours).read(&mut [0; 1]).unwrap(), 0);

        let (ours, peer) = pair_with_std();
        reset(&peer);
        place
            .meanwhile(|| await_readable(&ours), || drop(peer))
            .unwrap();
        await_writable(&ours).unwrap();
        assert_eq!(errno((&ours).read(&mut [0; 1])), Errno::CONNRESET);

        let (ours, peer) = full_pair();
        place
            .meanwhile(|| await_writable(&ours), || drop(peer))
            .unwrap();
        assert_eq!(errno((&ours).write(b"x")), Errno::PIPE);

        let listener = TcpListener::bind(FREE).unwrap();
        let stop = || listener.shutdown().unwrap();
        place.meanwhile(|| await_readable(&listener), stop).unwrap();
        assert_eq!(errno(listener.accept()), Errno::INVAL);

        let (reader, writer) = pipe().unwrap();
        place
            .meanwhile(|| await_readable(&reader), || drop(writer))
            .unwrap();
        let (reader, mut writer) = pipe().unwrap();
        while is_writable(&writer) {
            writer.write_all(&[0; 4096]).unwrap();
        }
        place
            .meanwhile(|| await_writable(&writer), || drop(reader))
            .unwrap();
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
                after(HANG) => panic!("it is neither"),
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
                    let (sender, receiver) = channel();
                    let choose = move || {
                        select! {
                            readable(input) => panic!("nobody has written"),
                            recv(&receiver) -> value => value.unwrap(),
                        }
                    };
                    place.meanwhile(choose, || sender.send(()).unwrap());
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

/// Also those that our drivers have never met.
fn descriptors_of_others_are_waited_for(place: Place) {
    place.run(|| {
        let (reader, mut writer) = io::pipe().unwrap();
        let write = || writer.write_all(b"x").unwrap();
        place.meanwhile(|| await_readable(&reader), write).unwrap();
        for round in 0..3 {
            // The number of the last, often.
            let (one, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
            let write = || other.write_all(b"x").unwrap();
            place.meanwhile(|| await_readable(&one), write).unwrap();
            assert!(is_writable(&&one), "{round}");
        }
    });
}
