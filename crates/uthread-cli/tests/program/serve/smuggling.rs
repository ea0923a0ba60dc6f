//! Requests that two servers in a row could read differently: each is refused, and the connection
//! ends.

use crate::harness::Program;

/// Sends the bytes; expects one valid response with this status, and then the end of the
/// connection.
fn check(program: &Program, bytes: &str, status: u16) {
    let mut client = program.connect();
    client.send(bytes);
    let response = client.response();
    assert_eq!(response.status, status, "{bytes:?}");
    assert_eq!(response.field("connection"), Some("close"), "{bytes:?}");
    assert!(response.text().contains(&status.to_string()));
    assert_eq!(client.rest(), b"", "{bytes:?}");
}

#[test]
fn refusals_are_answered_and_end_the_connection() {
    let program = Program::serve(&[("index.html", "hi")], &[]);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for (fields, status) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
        ("Content-Length: 5\r\nContent-Length: 6\r\n", 400),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", 400),
        ("Content-Length: +5\r\n", 400),
        ("Content-Length: 5,5\r\n", 400),
        ("Content-Length: \r\n", 400),
        ("Content-Length : 5\r\n", 400),
        ("Content-Length: 5\r\n 6\r\n", 400),
        ("X: a\nContent-Length: 5\r\n", 400),
        ("X: a\0b\r\n", 400),
        ("X: a\rb\r\n", 400),
        ("Host: b\r\n", 400),
        ("Transfer-Encoding: chunked\r\n", 411),
        ("Transfer-Encoding: gzip, chunked\r\n", 501),
        ("Content-Length: 65537\r\n", 413),
    ] {
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{smuggled}");
        check(&program, &bytes, status);
    }
    check(&program, "GET / HTTP/1.1\r\n\r\n", 400);
    check(&program, "GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505);
    check(&program, "nonsense\r\n\r\n", 400);
    check(&program, "GET / HTTP/1.1\nHost: a\n\n", 400);
}

#[test]
fn too_large_requests_are_refused_before_they_are_complete() {
    let program = Program::serve(&[], &[]);
    check(&program, &format!("GET /{}", "x".repeat(9000)), 414);
    let head = "GET / HTTP/1.1\r\nHost: a\r\n";
    check(&program, &format!("{head}X: {}", "x".repeat(17_000)), 431);
    check(
        &program,
        &format!("{head}{}\r\n", "X: x\r\n".repeat(100)),
        431,
    );
}

#[test]
fn a_refusal_reaches_a_client_that_is_still_sending() {
    let program = Program::serve(&[], &[]);
    let body = "x".repeat(200_000);
    check(
        &program,
        &format!("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n{body}"),
        413,
    );
}

#[test]
fn a_body_is_discarded_and_not_taken_for_a_request() {
    let program = Program::serve(&[("index.html", "hi")], &[]);
    let mut client = program.connect();
    let body = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n".repeat(1000);
    client.send(format!(
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}GET /second HTTP/1.1\r\nHost: a\r\n\r\n",
        body.len()
    ));
    assert_eq!(client.response().status, 200);
    assert_eq!(client.response().status, 404);
}

#[test]
fn a_body_that_waits_for_leave_is_not_waited_for() {
    let program = Program::serve(&[("index.html", "hi")], &[]);
    let mut client = program.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let response = client.response();
    assert_eq!(
        (response.status, response.field("connection")),
        (200, Some("close"))
    );
    assert_eq!(client.rest(), b"");
}
