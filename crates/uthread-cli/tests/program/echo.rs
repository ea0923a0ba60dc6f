//! The echo server.

use std::time::{Duration, Instant};

use crate::harness::Program;

#[test]
fn bytes_come_back() {
    let program = Program::echo(&[]);
    let mut one = program.connect();
    let mut two = program.connect();
    let long: Vec<u8> = (0..100_000_usize).map(|at| (at % 251) as u8).collect();
    one.send("hello");
    two.send(&long);
    assert!(two.read_exact(long.len()) == long);
    assert_eq!(one.read_exact(5), b"hello");
}

#[test]
fn work_is_done_before_each_reply() {
    let program = Program::echo(&["--compute", "20ms", "--workers", "1"]);
    let mut client = program.connect();
    let start = Instant::now();
    for _ in 0..3 {
        client.send("x");
        client.read_exact(1);
    }
    assert!(start.elapsed() >= Duration::from_millis(60));
}

#[test]
fn a_busy_server_gives_its_user_no_advice_for_programmers() {
    let mut echo = Program::echo(&["--workers", "1", "--compute", "500ms"]);
    let mut clients = [echo.connect(), echo.connect()];
    clients.iter_mut().for_each(|client| client.send("x"));
    for client in &mut clients {
        assert_eq!(client.read_exact(1), b"x");
    }
    drop(clients);
    echo.terminate();
    echo.exit_code();
    let warnings = echo.stderr_rest();
    assert!(!warnings.contains("kept worker"), "{warnings}");
}
