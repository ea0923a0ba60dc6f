//! The limit of connections, and a shortage of file descriptors.

use crate::harness::{Program, wait_until};
use crate::restrict::has_ring;

#[test]
fn a_connection_beyond_the_cap_is_asked_to_come_again() {
    let program = Program::serve(&[("a", "hello")], &["--max-connections", "2"]);
    let mut inside = [program.connect(), program.connect()];
    for client in &mut inside {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().text(), "hello");
    }
    for _ in 0..10 {
        let mut beyond = program.connect();
        let response = beyond.response();
        assert_eq!(response.status, 503);
        assert_eq!(response.field("retry-after"), Some("2"));
        assert_eq!(response.field("connection"), Some("close"));
        assert_eq!(beyond.rest(), b"");
    }
    for client in &mut inside {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().text(), "hello");
    }
    drop(inside);
    wait_until(|| program.get("/a").status == 200);
}

#[test]
fn a_shortage_of_descriptors_is_reported_and_survived() {
    let mut drivers = vec!["epoll", "threads"];
    if has_ring("the driver uring") {
        drivers.push("uring");
    }
    for driver in drivers {
        let files = [("a", "hello"), ("b", "again")];
        let mut program = Program::serve(&files, &["--driver", driver]);
        let mut inside = program.connect();
        inside.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(inside.response().text(), "hello");

        // Another file, because the first may be in memory by now.
        let before = program.limit_descriptors(3);
        inside.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = inside.response();
        assert_eq!(
            (response.status, response.field("retry-after")),
            (503, Some("2")),
            "{driver}"
        );
        let mut waiting = program.connect();
        program.stderr_line("cannot accept connections");

        program.limit_descriptors(before);
        for client in [&mut inside, &mut waiting] {
            client.send("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(client.response().text(), "again", "{driver}");
        }
    }
}
