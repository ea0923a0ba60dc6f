//! `select!` over descriptors beside channels and times that come first, or at the same time: nothing is overlooked, and
//! nothing is left behind.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use uthread::net::{TcpListener, TcpStream};
use uthread::sync::mpsc::channel;
use uthread::sync::{oneshot, select as arms};
use uthread::{select, timeout};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::ready::{await_readable, is_readable};
use crate::support::sides::mixed;
use crate::support::{FREE, HANG, pair};

behaviours![(
    EVERYWHERE,
    [
        another_case_may_come_first_and_takes_no_readiness_along,
        all_that_are_ready_get_their_turn,
        no_byte_and_no_message_is_overlooked,
        several_may_wait_for_one_socket,
        a_wait_ends_in_time,
        a_deadline_ends_the_wait_and_the_socket_stays_usable,
        nothing_is_left_of_many_choices
    ]
)];

const SOON: Duration = Duration::from_millis(3);

fn another_case_may_come_first_and_takes_no_readiness_along(place: Place) {
    place.run(|| {
        let (ours, mut peer) = pair();
        let socket = &ours;
        for round in 0..20_u8 {
            let (sender, receiver) = channel();
            let choose = move || {
                select! {
                    readable(socket) => panic!("nobody has written"),
                    recv(&receiver) -> value => value,
                }
            };
            let send = || sender.send(round).unwrap();
            assert_eq!(place.meanwhile(choose, send), Ok(round));
            let (settle, mut settled) = oneshot::channel();
            let choose = move || {
                select! {
                    recv(&mut settled) -> value => value,
                    readable(socket) => panic!("nobody has written"),
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

/// Events arrive in any order, from fibers and threads: a lost wake-up would be a hang.
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
            accepted.recv_timeout(HANG).expect("nobody accepts");
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
            readable(&ours) => panic!("nobody has written"),
            after(SOON) => assert!(start.elapsed() >= SOON),
        }
        let mut ready = arms::readable(&ours);
        assert_eq!(arms::select_timeout(&mut [&mut ready], SOON), None);
        assert!(start.elapsed() >= 2 * SOON);
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
            assert!(timeout(SOON, || await_readable(&ours)).is_err());
            assert!(start.elapsed() >= SOON);
            peer.write_all(&[byte]).unwrap();
            await_readable(&ours).unwrap();
            let mut read = [0xff];
            (&ours).read_exact(&mut read).unwrap();
            assert_eq!(read, [byte]);
        }
    });
}

fn nothing_is_left_of_many_choices(place: Place) {
    alone(|| {
        place.run(|| {
            let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
            let (ours, _peer) = pair();
            let socket = &ours;
            let choose = |round: usize| {
                assert!(!is_readable(socket));
                if round.is_multiple_of(100) {
                    let (sender, receiver) = channel();
                    let choose = move || {
                        select! {
                            readable(socket) => panic!("nobody has written"),
                            recv(&receiver) -> value => value.unwrap(),
                        }
                    };
                    place.meanwhile(choose, || sender.send(()).unwrap());
                }
                select! {
                    readable(socket) => panic!("nobody has written"),
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
