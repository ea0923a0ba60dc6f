//! Tests of events that are taken before the receives that they concern are tried.

use std::io::Write as _;

use super::cancelled::Receiving;
use super::*;

const CONNECTIONS: usize = 20;

/// Flushes the ring, and returns the operations that have completed.
fn flush(ring: &mut Uring) -> Vec<u64> {
    let mut done = Vec::new();
    ring.flush();
    ring.reap(usize::MAX, &mut |token, completion| {
        assert_eq!(completion.result, 1);
        done.push(token.0);
    });
    done
}

#[test]
fn some_receives_are_tried_with_each_flush_and_the_others_are_counted() {
    for mut ring in rings_with_connections() {
        let connections: Vec<_> = (0..CONNECTIONS).map(|_| Receiving::new()).collect();
        let mut buffers = [[0; 8]; CONNECTIONS];
        let receives = connections.iter().zip(&mut buffers);
        let mut receives: Vec<_> = receives
            .map(|(connection, buffer)| {
                connection.age();
                connection.operation(buffer)
            })
            .collect();
        for (receive, token) in receives.iter_mut().zip(0..) {
            // SAFETY: its completion is awaited below.
            let start = unsafe { ring.start(receive, Token(token)) };
            assert!(start.is_pending());
        }
        // There is room to send.
        ring.wait(Some(TEST_TIMEOUT));
        assert_eq!(ring.counts().backlog, 0);
        for mut connection in connections.iter().map(|connection| &connection.theirs) {
            connection.write_all(b"x").unwrap();
        }
        assert_eq!(flush(&mut ring), Vec::from_iter(0..8));
        assert_eq!(ring.counts().backlog, 12);
        assert_eq!(flush(&mut ring), Vec::from_iter(8..16));
        // The rest does not let the ring sleep.
        let rest = wait_for(&mut ring, 4);
        assert_eq!(rest, [16, 17, 18, 19].map(|token| (token, 1)));
        assert_eq!(ring.counts().backlog, 0);
    }
}
