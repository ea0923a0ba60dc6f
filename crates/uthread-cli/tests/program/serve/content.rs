//! The basics of a web server: methods, versions, types, encodings, connections, error pages.

use std::fs;

use crate::harness::{Program, site};

#[test]
fn a_file_with_all_its_fields() {
    let program = Program::serve(&[("a.txt", "hello")], &[]);
    let response = program.get("/a.txt");
    assert_eq!((response.status, response.text()), (200, "hello"));
    for (name, value) in [
        ("content-type", "text/plain; charset=utf-8"),
        ("content-length", "5"),
        ("accept-ranges", "bytes"),
        ("vary", "Accept-Encoding"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "SAMEORIGIN"),
        ("referrer-policy", "strict-origin-when-cross-origin"),
    ] {
        assert_eq!(response.field(name), Some(value), "{name}");
    }
    for name in ["date", "last-modified", "etag", "server"] {
        assert!(response.field(name).is_some(), "{name}");
    }
    assert_eq!(response.field("connection"), None);
}

#[test]
fn head_is_get_without_the_body() {
    let program = Program::serve(&[("a.txt", "hello")], &[]);
    let mut client = program.connect();
    for (path, status, bytes) in [
        ("/a.txt", "200", "5"),
        ("/", "200", ""),
        ("/none", "404", ""),
    ] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = client.response_head();
        assert_eq!(head.status.to_string(), status);
        let announced = head.field("content-length").unwrap();
        assert!(announced.starts_with(bytes) && announced != "0", "{path}");
    }
    client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().text(), "hello");
    assert_eq!(client.rest(), b"");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let program = Program::serve(&[("a", "first"), ("b", "second")], &[]);
    let mut client = program.connect();
    let pair = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(pair.repeat(200));
    for _ in 0..200 {
        assert_eq!(client.response().text(), "first");
        assert_eq!(client.response().text(), "second");
    }
}

#[test]
fn a_head_may_come_byte_by_byte() {
    let program = Program::serve(&[("a", "first")], &[]);
    let mut client = program.connect();
    for byte in b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n" {
        client.send([*byte]);
    }
    assert_eq!(client.response().text(), "first");
}

#[test]
fn http_1_0_stays_open_only_when_asked() {
    let program = Program::serve(&[("a", "first")], &[]);
    let mut client = program.connect();
    client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(client.response().field("connection"), Some("keep-alive"));
    client.send("GET /a HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().field("connection"), Some("close"));
    assert_eq!(client.rest(), b"");
}

#[test]
fn other_methods_are_answered_with_the_allowed_ones() {
    let program = Program::serve(&[("a", "first")], &[]);
    let mut client = program.connect();
    for request in [
        "POST /a",
        "DELETE /a",
        "OPTIONS *",
        "CONNECT a:443",
        "get /a",
        "TRACE /",
    ] {
        client.send(format!(
            "{request} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxx"
        ));
        let response = client.response();
        assert_eq!(
            (response.status, response.field("allow")),
            (405, Some("GET, HEAD")),
            "{request}"
        );
    }
}

#[test]
fn precompressed_neighbours() {
    let program = Program::serve(
        &[
            ("a.js", "plain"),
            ("a.js.br", "brotli"),
            ("a.js.gz", "gzip"),
            ("b.css", "plain"),
            ("c.png", "plain"),
            ("c.png.gz", "gzip"),
            ("sub/index.html", "plain"),
            ("sub/index.html.zst", "zstd"),
        ],
        &[],
    );
    for (path, accepts, expected) in [
        ("/a.js", "gzip, br", "brotli"),
        ("/a.js", "gzip", "gzip"),
        ("/a.js", "br;q=0, *", "gzip"),
        ("/a.js", "zstd", "plain"),
        ("/a.js", "identity, br;q=0.5", "plain"),
        ("/b.css", "gzip, br", "plain"),
        ("/c.png", "gzip", "plain"),
        ("/sub/", "gzip, zstd", "zstd"),
    ] {
        let response = program.get_with(path, &format!("Accept-Encoding: {accepts}\r\n"));
        assert_eq!(response.text(), expected, "{path} {accepts}");
        let coding = match expected {
            "brotli" => Some("br"),
            "plain" => None,
            coding => Some(coding),
        };
        assert_eq!(
            response.field("content-encoding"),
            coding,
            "{path} {accepts}"
        );
        let varies = path != "/c.png";
        assert_eq!(response.field("vary").is_some(), varies, "{path}");
    }
    let refused = program.get_with("/b.css", "Accept-Encoding: identity;q=0\r\n");
    assert_eq!(refused.status, 406);
    let plain = program.get("/a.js");
    let brotli = program.get_with("/a.js", "Accept-Encoding: br\r\n");
    assert_ne!(plain.field("etag"), brotli.field("etag"));
    assert_eq!(brotli.field("content-type"), plain.field("content-type"));
}

#[test]
fn error_pages_of_the_user() {
    let pages = site(&[("404.html", "<p>lost?")]);
    let dir = pages.path().to_str().unwrap();
    let program = Program::serve(&[], &["--error-pages", dir]);
    let own = program.get("/none");
    assert_eq!((own.status, own.text()), (404, "<p>lost?"));
    assert_eq!(own.field("content-security-policy"), None);
    let built_in = program.get("/%");
    assert_eq!(built_in.status, 400);
    assert!(built_in.text().contains("Bad Request"));
    assert!(built_in.field("content-security-policy").is_some());
}

#[test]
fn bodies_of_every_size_arrive_whole() {
    let files = site(&[]);
    let sizes = [0_usize, 1, 1024, 65_535, 65_536, 65_537, 131_072, 1_000_003];
    let content = |bytes: usize| -> Vec<u8> { (0..bytes).map(|at| (at % 251) as u8).collect() };
    for bytes in sizes {
        fs::write(files.path().join(bytes.to_string()), content(bytes)).unwrap();
    }
    let program = Program::serve_site(files, &[]);
    let mut client = program.connect();
    for bytes in sizes {
        client.send(format!("GET /{bytes} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(client.response().body == content(bytes), "{bytes}");
    }
}

#[test]
fn a_file_that_grew_is_sent_as_announced() {
    const BYTES: u64 = 64 << 20;
    let program = Program::serve(&[("next", "next")], &[]);
    let path = program.dir().join("large");
    crate::harness::sparse_file(&path, BYTES);
    let mut client = program.connect();
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(
        client.response_head().field("content-length"),
        Some("67108864")
    );
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(2 * BYTES)
        .unwrap();
    client.read_exact(BYTES as usize);
    assert_eq!(client.response().text(), "next");
}

#[test]
fn a_file_that_shrank_ends_the_connection() {
    const BYTES: u64 = 64 << 20;
    let mut program = Program::serve(&[], &[]);
    let path = program.dir().join("large");
    crate::harness::sparse_file(&path, BYTES);
    let mut client = program.connect();
    client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.response_head().status, 200);
    // The file has more than the socket's buffers hold, because the client has read nothing of the
    // body.
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(BYTES / 2)
        .unwrap();
    assert!(client.count_rest() <= BYTES / 2);
    program.stderr_line("was truncated");
}

#[test]
fn a_change_is_seen_by_the_next_request() {
    let program = Program::serve(&[("a", "0")], &[]);
    let path = program.dir().join("a");
    let mut client = program.connect();
    let mut get = || {
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        client.response()
    };
    // Until the file is kept in memory, and afterwards. It is kept once it has not changed for 3 s.
    let settled = std::time::Instant::now() + std::time::Duration::from_secs(4);
    while std::time::Instant::now() < settled {
        assert_eq!(get().text(), "0");
    }
    for text in ["one", "two and more", "3"] {
        fs::write(&path, text).unwrap();
        for _ in 0..3 {
            assert_eq!(get().text(), text);
        }
    }
    let other = program.dir().join("b");
    fs::write(&other, "4").unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(get().text(), "4");
    fs::remove_file(&path).unwrap();
    assert_eq!(get().status, 404);
}
