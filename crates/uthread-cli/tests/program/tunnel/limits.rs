//! Times and numbers of tunnels, and what they cost.

use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

use super::{Target, drivers};
use crate::harness::{Program, wait_until};

/// How long a tunnel may last in which something happens at once: longer than either side waits for
/// a CPU.
const PATIENCE: &str = "1s";

/// Number of tunnels that are open at once.
const MANY: usize = 5000;

/// Returns the field of a log line in JSON.
fn field(line: &str, name: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value[name].to_string()
}

#[test]
fn an_idle_tunnel_ends() {
    for driver in drivers() {
        let target = Target::start();
        let args = [
            "--driver",
            driver,
            "--idle-timeout",
            PATIENCE,
            "--log",
            "json",
        ];
        let mut proxy = target.proxy(&args);
        let (mut client, mut server) = target.tunnel(&proxy);
        client.send("x");
        server.read_exact(1);
        let ends = client.get_ref().read(&mut [0]);
        assert!(!matches!(ends, Ok(1)), "{ends:?}");
        let line = proxy.stdout_line();
        assert_eq!(field(&line, "end"), "\"idle\"");
        assert_eq!(field(&line, "bytes_up"), "1");
    }
}

#[test]
fn one_active_direction_keeps_both_open() {
    let target = Target::start();
    let proxy = target.proxy(&["--idle-timeout", "1s"]);
    let (mut client, mut server) = target.tunnel(&proxy);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        thread::sleep(Duration::from_millis(20));
        server.send("x");
        client.read_exact(1);
    }
    client.send("y");
    server.read_exact(1);
}

#[test]
fn a_tunnel_ends_with_its_lifetime() {
    let target = Target::start();
    let mut proxy = target.proxy(&["--lifetime", PATIENCE, "--log", "json"]);
    let (mut client, server) = target.tunnel(&proxy);
    let start = Instant::now();
    let trickle = thread::spawn(move || client.trickle_until_answered());
    server.get_ref().set_read_timeout(None).unwrap();
    let mut received = Vec::new();
    // Ends with a reset: the stream is incomplete.
    let _ = server.get_ref().read_to_end(&mut received);
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_eq!(field(&proxy.stdout_line(), "end"), "\"lifetime\"");
    // The client sees the end as an error, which is no answer.
    drop(trickle);
}

#[test]
fn the_counters_count() {
    let target = Target::start();
    let mut proxy = target.proxy(&["--counters", "127.0.0.1:0", "--log", "text"]);
    let (client, server) = target.tunnel(&proxy);
    drop((client, server));
    assert!(proxy.stdout_line().contains(" 200 closed up 0 down 0 in "));
    wait_until(|| {
        let counted = proxy.counted();
        counted
            .text()
            .contains("\nuthread_tunnel_connections_open 0\n")
    });
    let text = proxy.counted();
    for line in [
        "uthread_tunnel_connections_total 1",
        "uthread_tunnel_established_total 1",
        "uthread_tunnel_failed_total 0",
        "# TYPE uthread_fibers_ready gauge",
    ] {
        assert!(
            text.text().lines().any(|found| found == line),
            "{}",
            text.text()
        );
    }
}

#[test]
fn many_idle_tunnels_stay_usable() {
    let echo = Program::echo(&["--workers", "1"]);
    let to = echo.addr.to_string();
    let many = MANY.to_string();
    let forwarder = Program::tunnel(&["--to", &to, "--workers", "1", "--max-connections", &many]);
    let mut clients: Vec<_> = (0..MANY).map(|_| forwarder.connect()).collect();
    for _ in 0..2 {
        for client in &mut clients {
            client.send("x");
        }
        for client in &mut clients {
            client.read_exact(1);
        }
    }
    let mut refused = forwarder.connect();
    assert_eq!(refused.count_rest(), 0);
}
