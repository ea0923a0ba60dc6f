//! Tests of receives that follow a gathered send.

use std::io::Write as _;
use std::net::TcpStream;

use super::cancelled::Receiving;
use super::*;
use crate::driver::send_batcher::SendBatcher;

/// Sends, has the peer answer, and returns how a receive starts on each ring whose sends may gather.
fn receive_after_send(gathers: bool) -> Vec<Start> {
    let rings = rings().into_iter();
    let own = rings.filter(|ring| ring.tries_sends);
    let start = |mut ring: Uring| {
        let receiving = Receiving::new();
        if gathers {
            ring.send_batcher = SendBatcher::gathering();
        }
        let mut send = Operation::Socket(SocketOperation::Send(net::Send {
            socket: receiving.descriptor(),
            buffer: b"question",
        }));
        // SAFETY: its completion is awaited below.
        let sent = unsafe { ring.start(&mut send, Token(0)) };
        assert_eq!(sent.is_pending(), gathers);
        if gathers {
            assert_eq!(wait_for(&mut ring, 1), [(0, 8)]);
        }
        (&receiving.theirs).write_all(b"answer").unwrap();
        wait_for_data(&receiving.ours);
        let mut buffer = [0; 8];
        let mut receive = receiving.operation(&mut buffer);
        // SAFETY: its completion is awaited below, if it is pending.
        let start = unsafe { ring.start(&mut receive, Token(1)) };
        if start.is_pending() {
            assert_eq!(wait_for(&mut ring, 1), [(1, 6)]);
        }
        assert_eq!(&buffer[..6], b"answer");
        start
    };
    own.map(start).collect()
}

/// Waits until a receive would not wait.
fn wait_for_data(stream: &TcpStream) {
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    assert_eq!(stream.peek(&mut [0; 1]).unwrap(), 1);
}

#[test]
fn the_first_receives_are_tried_at_once_only_after_a_gathered_send() {
    for start in receive_after_send(true) {
        assert_eq!(start, Start::Done(Ok(6)));
    }
    for start in receive_after_send(false) {
        assert!(start.is_pending());
    }
}
