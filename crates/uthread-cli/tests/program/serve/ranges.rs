//! Range requests.

use std::fs;

use crate::harness::Program;

#[test]
fn single_ranges() {
    let program = Program::serve(&[("a", "0123456789")], &[]);
    for (range, expected, content_range) in [
        ("0-0", "0", "bytes 0-0/10"),
        ("2-4", "234", "bytes 2-4/10"),
        ("7-", "789", "bytes 7-9/10"),
        ("-3", "789", "bytes 7-9/10"),
        ("5-500", "56789", "bytes 5-9/10"),
        ("1-2,50-60", "12", "bytes 1-2/10"),
    ] {
        let response = program.get_with("/a", &format!("Range: bytes={range}\r\n"));
        assert_eq!(
            (response.status, response.text()),
            (206, expected),
            "{range}"
        );
        assert_eq!(
            response.field("content-range"),
            Some(content_range),
            "{range}"
        );
    }
}

#[test]
fn whole_or_not_satisfiable() {
    let program = Program::serve(&[("a", "0123456789"), ("empty", "")], &[]);
    for (path, range, status) in [
        ("/a", "bytes=10-", 416),
        ("/a", "bytes=-0", 416),
        ("/a", "bytes=5-2", 200),
        ("/a", "bytes=0-5,3-7", 200),
        ("/a", "bytes=0-,0-,0-,0-", 200),
        ("/a", "apples=1-2", 200),
        ("/empty", "bytes=0-", 200),
    ] {
        let response = program.get_with(path, &format!("Range: {range}\r\n"));
        assert_eq!(response.status, status, "{range}");
        let content_range = (status == 416).then_some("bytes */10");
        assert_eq!(response.field("content-range"), content_range, "{range}");
    }
    let many = (0..17).map(|_| "1-1").collect::<Vec<_>>().join(",");
    assert_eq!(
        program
            .get_with("/a", &format!("Range: bytes={many}\r\n"))
            .status,
        200
    );
}

#[test]
fn several_ranges_in_one_response() {
    let program = Program::serve(&[("a.txt", "0123456789")], &[]);
    let response = program.get_with("/a.txt", "Range: bytes=8-9,0-1,4-4\r\n");
    assert_eq!(response.status, 206);
    let kind = response.field("content-type").unwrap();
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .unwrap();
    let part = |range: &str, content: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Range: bytes {range}/10\r\n\r\n{content}"
        )
    };
    let expected = [
        part("8-9", "89"),
        part("0-1", "01"),
        part("4-4", "4"),
        format!("\r\n--{boundary}--\r\n"),
    ];
    assert_eq!(response.text(), expected.concat());
}

#[test]
fn large_parts_between_small_ones() {
    let program = Program::serve(&[], &[]);
    let content: Vec<u8> = (0..1_000_000_usize).map(|at| (at % 251) as u8).collect();
    fs::write(program.dir().join("a"), &content).unwrap();
    let mut client = program.connect();
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9,100-300099,-10\r\n\r\n");
    let response = client.response();
    assert_eq!(response.status, 206);
    for part in [&content[..10], &content[100..300_100], &content[999_990..]] {
        assert!(
            response
                .body
                .windows(part.len())
                .any(|window| window == part)
        );
    }
    client.send("GET /a HTTP/1.1\r\nHost: a\r\nRange: bytes=5-200004\r\n\r\n");
    assert!(client.response().body == content[5..200_005]);
}

#[test]
fn a_range_is_for_get_only() {
    let program = Program::serve(&[("a", "0123456789")], &[]);
    let mut client = program.connect();
    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n");
    let head = client.response_head();
    assert_eq!(
        (head.status, head.field("content-length")),
        (200, Some("10"))
    );
}
