//! Tests of sends that gather.

use std::io::Read;

use super::*;

impl Epoll {
    /// Starts a send. Returns its result if it does not gather.
    fn start_send(&mut self, operation: &mut Operation<'_>, token: u64) -> Option<i32> {
        // SAFETY: the test keeps the operation until its completion.
        match unsafe { self.start(operation, Token(token)) } {
            Start::Done(result) => Some(in_one(result)),
            Start::Pending(_) => None,
            Start::Full => panic!("the driver has room"),
        }
    }

    /// Returns the results that are there, with their tokens.
    fn reap_all(&mut self) -> Vec<(Token, i32)> {
        let mut results = Vec::new();
        self.reap(usize::MAX, &mut |token, completion| {
            results.push((token, completion.result));
        });
        results
    }
}

/// Creates a send of these bytes.
fn send_of<'a>(to: &'a Watchable, buffer: &'a [u8]) -> Operation<'a> {
    Operation::Socket(SocketOperation::Send(net::Send {
        socket: to.descriptor(),
        buffer,
    }))
}

#[test]
fn short_sends_gather_until_the_flush() {
    const SENDS: u64 = 8;
    let mut driver = new().unwrap();
    let (ours, mut peer) = Watchable::pair();
    let long = [7; 5000];
    let direct = driver.start_send(&mut send_of(&ours, b"direct"), 0);
    assert_eq!(direct, Some(6));
    assert_eq!(driver.flush_within(), None);

    driver.send_batcher = SendBatcher::gathering();
    let mut sends: Vec<_> = (0..SENDS).map(|_| send_of(&ours, b"gathered")).collect();
    for (token, send) in (0..).zip(&mut sends) {
        assert_eq!(driver.start_send(send, token), None);
    }
    let direct = driver.start_send(&mut send_of(&ours, &long), SENDS);
    assert_eq!(direct, Some(5000), "a long one does not gather");
    assert!(driver.flush_within().is_some());
    assert_eq!(driver.reap_all(), []);
    driver.flush();
    let results: Vec<_> = (0..SENDS).map(|token| (Token(token), 8)).collect();
    assert_eq!(driver.reap_all(), results);

    drop(ours);
    let mut received = Vec::new();
    peer.read_to_end(&mut received).unwrap();
    let parts = [b"direct".to_vec(), long.to_vec(), b"gathered".repeat(8)];
    assert_eq!(received, parts.concat());
}
