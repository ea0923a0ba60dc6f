//! Conditional requests with the validators that the server itself returns.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::harness::{Program, wait_until};

#[test]
fn validators_come_back() {
    let program = Program::serve(&[("a.txt", "0123456789")], &[]);
    let first = program.get("/a.txt");
    let etag = first.field("etag").unwrap();
    let modified = first.field("last-modified").unwrap();
    let long_ago = "Sun, 06 Nov 1994 08:49:37 GMT";
    let far_off = "Fri, 31 Dec 9999 23:59:59 GMT";

    for (fields, status) in [
        (format!("If-None-Match: {etag}\r\n"), 304),
        (format!("If-None-Match: \"x\", W/{etag}\r\n"), 304),
        ("If-None-Match: *\r\n".to_owned(), 304),
        ("If-None-Match: \"x\"\r\n".to_owned(), 200),
        (
            format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {far_off}\r\n"),
            200,
        ),
        (format!("If-Modified-Since: {modified}\r\n"), 304),
        (format!("If-Modified-Since: {long_ago}\r\n"), 200),
        (format!("If-Match: {etag}\r\n"), 200),
        ("If-Match: *\r\n".to_owned(), 200),
        (format!("If-Match: W/{etag}\r\n"), 412),
        ("If-Match: \"x\"\r\n".to_owned(), 412),
        (format!("If-Unmodified-Since: {modified}\r\n"), 200),
        (format!("If-Unmodified-Since: {long_ago}\r\n"), 412),
        (format!("If-Range: {etag}\r\nRange: bytes=0-1\r\n"), 206),
        (format!("If-Range: W/{etag}\r\nRange: bytes=0-1\r\n"), 200),
        ("If-Range: \"x\"\r\nRange: bytes=0-1\r\n".to_owned(), 200),
        (format!("If-Range: {long_ago}\r\nRange: bytes=0-1\r\n"), 200),
        (
            format!("If-None-Match: {etag}\r\nRange: bytes=0-1\r\n"),
            304,
        ),
    ] {
        let response = program.get_with("/a.txt", &fields);
        assert_eq!(response.status, status, "{fields}");
        if status == 304 {
            assert_eq!(response.field("etag"), Some(etag));
            assert_eq!(response.field("vary"), Some("Accept-Encoding"));
        }
    }
}

#[test]
fn a_304_has_no_body_and_the_connection_goes_on() {
    let program = Program::serve(&[("a", "0123456789")], &[]);
    let mut client = program.connect();
    for _ in 0..2 {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n");
        assert_eq!(client.response_head().status, 304);
    }
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response().text(), "0123456789");
}

#[test]
fn a_change_changes_the_tag() {
    let program = Program::serve(&[("a", "one")], &[]);
    let first = program.get("/a");
    std::fs::write(program.dir().join("a"), "three").unwrap();
    let second = program.get("/a");
    assert_ne!(first.field("etag"), second.field("etag"));
}

#[test]
fn a_replaced_file_of_equal_size_and_time_has_another_tag() {
    let program = Program::serve(&[("a", "one"), ("b", "two")], &[]);
    let path = |name: &str| program.dir().join(name);
    let modified = std::fs::metadata(path("a")).unwrap().modified().unwrap();
    let overwrite = || {
        let changed = |file: &File| {
            let metadata = file.metadata().unwrap();
            (metadata.ctime(), metadata.ctime_nsec())
        };
        let file = File::options().write(true).open(path("a")).unwrap();
        let before = changed(&file);
        // More than once only if the file system's clock is coarse.
        wait_until(|| {
            file.write_all_at(b"six", 0).unwrap();
            changed(&file) != before
        });
    };
    let replace = || std::fs::rename(path("b"), path("a")).unwrap();
    let changes: [&dyn Fn(); 2] = [&overwrite, &replace];
    for change in changes {
        let first = program.get("/a");
        let etag = first.field("etag").unwrap();
        change();
        let file = File::options().write(true).open(path("a")).unwrap();
        file.set_modified(modified).unwrap();
        let second = program.get_with("/a", &format!("If-None-Match: {etag}\r\n"));
        assert_eq!(second.field("last-modified"), first.field("last-modified"));
        assert_eq!(second.status, 200);
        let fields = format!("If-Range: {etag}\r\nRange: bytes=1-\r\n");
        assert_eq!(program.get_with("/a", &fields).status, 200);
    }
}

#[test]
fn a_file_from_the_future_was_changed_now() {
    let program = Program::serve(&[("a", "one")], &[]);
    let file = std::fs::File::open(program.dir().join("a")).unwrap();
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(1_000_000);
    file.set_modified(future).unwrap();
    // More than once only if a second begins between the two.
    wait_until(|| {
        let response = program.get("/a");
        response.field("last-modified") == response.field("date")
    });
}
