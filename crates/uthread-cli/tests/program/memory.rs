//! Memory of idle connections.

use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Client, Program};
use crate::restrict::has_ring;

/// Number of connections, beside some before, after which the growth is that of the connections.
const CONNECTIONS: usize = 300;
const CONNECTIONS_BEFORE: usize = 20;

/// Maximum number of bytes of an idle connection: without optimization, frames take several pages.
const BYTES_MAX: usize = if cfg!(debug_assertions) {
    5 * 4096
} else {
    6 * 1024
};

/// Time until the trimming worker has come a second time, on a busy machine.
const TRIMMED: Duration = Duration::from_secs(20);

/// Opens connections and uses each once. They stay open as long as the result.
fn open(program: &Program, count: usize, use_once: fn(&mut Client)) -> Vec<Client> {
    let mut clients: Vec<_> = (0..count).map(|_| program.connect()).collect();
    clients.iter_mut().for_each(use_once);
    clients
}

fn check(program: &Program, use_once: fn(&mut Client)) {
    let mut first = open(program, CONNECTIONS_BEFORE, use_once);
    let before = program.resident();
    let mut clients = open(program, CONNECTIONS, use_once);
    let start = Instant::now();
    let growth = || program.resident().saturating_sub(before) / CONNECTIONS;
    while growth() > BYTES_MAX {
        assert!(start.elapsed() < TRIMMED, "{} B each", growth());
        thread::sleep(Duration::from_millis(100));
    }
    // All of them still work, also after a second rest.
    for _ in 0..2 {
        first.iter_mut().chain(&mut clients).for_each(use_once);
    }
}

fn drivers() -> impl Iterator<Item = &'static str> {
    let ring = has_ring("the driver uring").then_some("uring");
    ["epoll"].into_iter().chain(ring)
}

#[test]
fn an_idle_keep_alive_connection_takes_little() {
    for driver in drivers() {
        let program = Program::serve(&[("a", "hello")], &["--driver", driver, "--workers", "2"]);
        check(&program, |client| {
            client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.response().text(), "hello");
        });
    }
}

#[test]
fn an_idle_connection_to_be_echoed_takes_little() {
    for driver in drivers() {
        let program = Program::echo(&["--driver", driver, "--workers", "2"]);
        check(&program, |client| {
            client.send("hello");
            assert_eq!(client.read_exact(5), b"hello");
        });
    }
}
