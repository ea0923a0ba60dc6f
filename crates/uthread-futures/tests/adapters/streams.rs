//! Streams: bytes in both directions, ends, resets, and futures that are dropped.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use futures_util::future::{Either, join, join4, select};
use futures_util::io::{AsyncReadExt, AsyncWriteExt};
use uthread::net::Shutdown;
use uthread::sync::mpsc;
use uthread::{block_on, spawn};
use uthread_futures::Async;

use crate::places::{Calls, everywhere, poll_read, tcp, unix};

/// Number of bytes, above what the buffers of a connection hold.
const SIZE: usize = 1 << 20;

/// Transfers a megabyte in both directions at once, in one task.
fn exchange<S: AsFd + Send + Sync + 'static>((ours, theirs): (S, S)) {
    let (ours, theirs) = (&Async::new(ours), &Async::new(theirs));
    let sent: [Vec<u8>; 2] = [1, 2].map(|seed| (0..SIZE).map(|at| (at / 7 * seed) as u8).collect());
    let mut received = [vec![0; SIZE], vec![0; SIZE]];
    let [to_us, to_them] = &mut received;
    let (mut first, mut second) = (ours, ours);
    let (mut third, mut fourth) = (theirs, theirs);
    let results = block_on(join4(
        first.write_all(&sent[0]),
        second.read_exact(to_us),
        third.write_all(&sent[1]),
        fourth.read_exact(to_them),
    ));
    for result in [results.0, results.1, results.2, results.3] {
        result.unwrap();
    }
    let [to_us, to_them] = received;
    assert!(to_them == sent[0] && to_us == sent[1]);
}

#[test]
fn both_directions_of_both_ends_in_one_task() {
    everywhere(|| {
        exchange(tcp());
        exchange(unix());
    });
}

#[test]
fn a_reader_beside_a_writer_whose_peer_writes_first() {
    everywhere(|| {
        let (ours, mut theirs) = tcp();
        let peer = spawn(move || {
            // Reads nothing before all is written.
            theirs.write_all(&vec![1; SIZE]).unwrap();
            let mut received = vec![0; SIZE];
            theirs.read_exact(&mut received).unwrap();
        });
        let ours = &Async::new(ours);
        let (mut reader, mut writer) = (ours, ours);
        let (data, mut received) = (vec![2; SIZE], vec![0; SIZE]);
        let (written, read) = block_on(join(
            writer.write_all(&data),
            reader.read_exact(&mut received),
        ));
        written.and(read).unwrap();
        peer.join().unwrap();
    });
}

#[test]
fn the_end_of_one_direction_leaves_the_other() {
    everywhere(|| {
        let (ours, mut theirs) = tcp();
        let peer = spawn(move || {
            let mut request = String::new();
            theirs.read_to_string(&mut request).unwrap();
            theirs.write_all(request.to_uppercase().as_bytes()).unwrap();
        });
        let response = block_on(async {
            let mut ours = Async::new(ours);
            ours.write_all(b"to the end").await?;
            ours.close().await?;
            let mut response = String::new();
            ours.read_to_string(&mut response).await?;
            assert_eq!(ours.read(&mut [0]).await?, 0, "after the end");
            assert_eq!(
                ours.write(b"x").await.unwrap_err().kind(),
                ErrorKind::BrokenPipe
            );
            Ok::<_, std::io::Error>(response)
        });
        assert_eq!(response.unwrap(), "TO THE END");
        peer.join().unwrap();
    });
}

#[test]
fn a_reset_ends_a_read_that_waits() {
    everywhere(|| {
        let (ours, theirs) = tcp();
        let mut ours = Async::new(ours);
        let (waker, calls) = Calls::waker();
        assert!(poll_read(&ours, &waker).is_pending());
        theirs.set_linger(Some(Duration::ZERO)).unwrap();
        let peer = spawn(move || drop(theirs));
        let error = block_on(ours.read(&mut [0])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        block_on(ours.close()).expect("a connection that was reset is closed");
        peer.join().unwrap();
        drop(calls);
    });
}

#[test]
fn a_writer_that_waits_is_woken_by_the_end_of_its_peer() {
    everywhere(|| {
        let (ours, theirs) = unix();
        let peer = spawn(move || {
            (&theirs).read_exact(&mut [0; 1000]).unwrap();
            theirs
        });
        let mut ours = Async::new(ours);
        let closer = spawn(move || drop(peer.join().unwrap()));
        let error = block_on(ours.write_all(&vec![0; 8 * SIZE])).unwrap_err();
        let kinds = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
        assert!(kinds.contains(&error.kind()), "{error}");
        closer.join().unwrap();
    });
}

#[test]
fn a_read_that_is_dropped_takes_no_bytes() {
    everywhere(|| {
        let (ours, mut theirs) = tcp();
        let mut ours = Async::new(ours);
        let (sender, receiver) = mpsc::channel();
        let peer = spawn(move || {
            receiver.recv().unwrap();
            theirs.write_all(b"whole").unwrap();
        });
        let mut text = Vec::new();
        block_on(async {
            let mut buffer = [0; 2];
            let read = ours.read(&mut buffer);
            match select(read, std::future::ready(())).await {
                Either::Left(_) => panic!("nothing was sent"),
                Either::Right(((), read)) => drop(read),
            }
            sender.send(()).unwrap();
            ours.read_to_end(&mut text).await.unwrap();
        });
        assert_eq!(text, b"whole");
        peer.join().unwrap();
    });
}

#[test]
fn a_stream_that_is_dropped_while_it_waits_closes_its_socket() {
    everywhere(|| {
        let (ours, mut theirs) = tcp();
        let ours = Async::new(ours);
        let (waker, _calls) = Calls::waker();
        assert!(poll_read(&ours, &waker).is_pending());
        drop(ours);
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn a_cancelled_fiber_drops_its_future_and_closes_the_socket() {
    everywhere(|| {
        let (ours, mut theirs) = tcp();
        let (started, start) = mpsc::channel();
        let fiber = spawn(move || {
            started.send(()).unwrap();
            block_on(async { Async::new(ours).read(&mut [0]).await })
        });
        start.recv().unwrap();
        fiber.cancel();
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
        assert!(fiber.join().is_err(), "the fiber was not unwound");
    });
}

#[test]
fn calls_of_the_socket_work_beside() {
    everywhere(|| {
        let (ours, mut theirs) = tcp();
        let mut ours = Async::new(ours);
        block_on(ours.write_all(b"one ")).unwrap();
        ours.get_ref().write_all(b"two").unwrap();
        ours.get_ref().shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        theirs.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
        theirs.write_all(b"abc").unwrap();
        let mut bytes = [0; 3];
        ours.get_ref().read_exact(&mut bytes[..1]).unwrap();
        block_on(ours.read_exact(&mut bytes[1..])).unwrap();
        assert_eq!(&bytes, b"abc");
        assert_eq!(block_on(ours.read(&mut [])).unwrap(), 0, "without a buffer");
    });
}
