//! Requests that no client should send, and what follows each: a refusal, the end of the connection, or an
//! answer to nothing but the request that was meant.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use uthread_http::Server;

use super::common::{LONG, SHORT, ask, everywhere, get, router};

/// What a request leads to. After a refusal, the connection ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// The status of the one response.
    Status(u16),
    /// The end without a response.
    End,
}

use Outcome::{End, Status};

/// What is wrong, the request, and what follows. `\` in a request stands for the end of a line.
const CASES: &[(&str, &str, Outcome)] = &[
    // The line of the request.
    ("nothing", "", End),
    ("only ends of lines", r"\\\\", End),
    ("no request", r"nonsense\\", Status(400)),
    ("no version", r"GET /hello/a\\", Status(400)),
    (
        "a version that is none",
        r"GET /hello/a HTTP/1\\",
        Status(400),
    ),
    (
        "a version of the future",
        r"GET /hello/a HTTP/9.9\\",
        Status(400),
    ),
    ("another protocol", r"GET /hello/a FTP/1.1\\", Status(400)),
    (
        "a method with a space",
        r"G ET /hello/a HTTP/1.1\Host: h\\",
        Status(400),
    ),
    (
        "a method with a control character",
        "G\u{1}T /hello/a HTTP/1.1\\Host: h\\\\",
        Status(400),
    ),
    (
        "a method with a separator",
        r"G(T /hello/a HTTP/1.1\Host: h\\",
        Status(400),
    ),
    (
        "an unknown method",
        r"BREW /hello/a HTTP/1.1\Host: h\\",
        Status(405),
    ),
    ("an empty target", r"GET  HTTP/1.1\Host: h\\", Status(400)),
    (
        "a target with a space",
        r"GET /hello/a b HTTP/1.1\Host: h\\",
        Status(400),
    ),
    (
        "a target with a tab",
        "GET /hello/\ta HTTP/1.1\\Host: h\\\\",
        Status(400),
    ),
    (
        "a target with a control character",
        "GET /hello/\u{1} HTTP/1.1\\Host: h\\\\",
        Status(400),
    ),
    (
        "a target with DEL",
        "GET /hello/\u{7f} HTTP/1.1\\Host: h\\\\",
        Status(400),
    ),
    (
        "a target that is no path",
        r"GET hello/a HTTP/1.1\Host: h\\",
        Status(400),
    ),
    (
        "a target with no host",
        r"GET http:// HTTP/1.1\Host: h\\",
        Status(400),
    ),
    (
        "a port that is none",
        r"GET http://h:x/hello/a HTTP/1.1\Host: h\\",
        Status(200),
    ),
    (
        "a path above the root",
        r"GET /../hello/a HTTP/1.1\Host: h\\",
        Status(404),
    ),
    ("an asterisk", r"GET * HTTP/1.1\Host: h\\", Status(404)),
    ("a tunnel", r"CONNECT h:80 HTTP/1.1\Host: h\\", Status(404)),
    (
        "TLS",
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3}\\\\",
        Status(400),
    ),
    // Headers.
    ("no colon", r"GET /hello/a HTTP/1.1\Host h\\", Status(400)),
    ("no name", r"GET /hello/a HTTP/1.1\: h\\", Status(400)),
    (
        "a space before the colon",
        r"GET /hello/a HTTP/1.1\Host : h\\",
        Status(400),
    ),
    (
        "a space in a name",
        r"GET /hello/a HTTP/1.1\Ho st: h\\",
        Status(400),
    ),
    (
        "a space before the first name",
        r"GET /hello/a HTTP/1.1\ Host: h\\",
        Status(400),
    ),
    (
        "a folded value",
        r"GET /hello/a HTTP/1.1\Host: h\X: a\ b\\",
        Status(400),
    ),
    (
        "a separator in a name",
        r"GET /hello/a HTTP/1.1\Ho(st: h\\",
        Status(400),
    ),
    (
        "a control character in a name",
        "GET /hello/a HTTP/1.1\\H\u{1}: h\\\\",
        Status(400),
    ),
    (
        "NUL in a name",
        "GET /hello/a HTTP/1.1\\H\u{0}: h\\\\",
        Status(400),
    ),
    (
        "NUL in a value",
        "GET /hello/a HTTP/1.1\\X: a\u{0}b\\\\",
        Status(400),
    ),
    (
        "a control character in a value",
        "GET /hello/a HTTP/1.1\\X: a\u{1}b\\\\",
        Status(400),
    ),
    (
        "CR in a value",
        "GET /hello/a HTTP/1.1\\X: a\rb\\\\",
        Status(400),
    ),
    (
        "a name that is no text",
        "GET /hello/a HTTP/1.1\\\u{e9}: h\\\\",
        Status(400),
    ),
    // Lengths.
    (
        "a length that is none",
        r"POST /sum HTTP/1.1\Content-Length: x\\",
        Status(400),
    ),
    (
        "an empty length",
        r"POST /sum HTTP/1.1\Content-Length:\\",
        Status(400),
    ),
    (
        "a negative length",
        r"POST /sum HTTP/1.1\Content-Length: -1\\",
        Status(400),
    ),
    (
        "a length with a sign",
        r"POST /sum HTTP/1.1\Content-Length: +1\\a",
        Status(400),
    ),
    (
        "a hexadecimal length",
        r"POST /sum HTTP/1.1\Content-Length: 0x1\\a",
        Status(400),
    ),
    (
        "a length with a point",
        r"POST /sum HTTP/1.1\Content-Length: 1.0\\a",
        Status(400),
    ),
    (
        "a length that overflows",
        r"POST /sum HTTP/1.1\Content-Length: 99999999999999999999\\",
        Status(400),
    ),
    (
        "a length above the limit",
        r"POST /sum HTTP/1.1\Content-Length: 18446744073709551613\\",
        Status(413),
    ),
    (
        "two lengths",
        r"POST /sum HTTP/1.1\Content-Length: 1\Content-Length: 2\\ab",
        Status(400),
    ),
    (
        "a list of lengths",
        r"POST /sum HTTP/1.1\Content-Length: 1, 2\\ab",
        Status(400),
    ),
    (
        "less than the length, and the end",
        r"POST /sum HTTP/1.1\Content-Length: 9\\abc",
        Status(500),
    ),
    // Chunks, and other codings.
    (
        "an unknown coding",
        r"POST /sum HTTP/1.1\Transfer-Encoding: gzip\\",
        Status(400),
    ),
    (
        "chunks that are not the last coding",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked, gzip\\0\\",
        Status(400),
    ),
    (
        "a coding that resembles chunks",
        r"POST /sum HTTP/1.1\Transfer-Encoding: xchunked\\0\\",
        Status(400),
    ),
    (
        "chunks by HTTP/1.0",
        r"POST /sum HTTP/1.0\Transfer-Encoding: chunked\\0\\",
        Status(400),
    ),
    (
        "a chunk without a size",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\\\\",
        Status(500),
    ),
    (
        "a size that is none",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\\x\a\0\\",
        Status(500),
    ),
    (
        "a negative size",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\\-1\a\0\\",
        Status(500),
    ),
    (
        "a size with a prefix",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\\0x1\a\0\\",
        Status(500),
    ),
    (
        "a size that overflows",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\\fffffffffffffffff\a",
        Status(500),
    ),
    (
        "a chunk above the limit",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\\fffffffffffffff\a",
        Status(500),
    ),
    (
        "a chunk longer than its size",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\\1\abc\0\\",
        Status(500),
    ),
    (
        "a chunk that ends early",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\\5\ab",
        Status(500),
    ),
    (
        "LF alone after a size",
        "POST /sum HTTP/1.1\\Transfer-Encoding: chunked\\\\1\na\\0\\\\",
        Status(500),
    ),
    (
        "a control character in an extension",
        "POST /sum HTTP/1.1\\Transfer-Encoding: chunked\\\\1;\n\\a\\0\\\\",
        Status(500),
    ),
    (
        "no end of the chunks",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\\1\a\",
        Status(500),
    ),
    (
        "a trailer that is none",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\\0\no colon\\",
        Status(500),
    ),
    // A request within another one, for whoever takes the other length.
    (
        "a length beside chunks",
        r"POST /sum HTTP/1.1\Content-Length: 4\Transfer-Encoding: chunked\\0\\GET /hello/smuggled HTTP/1.1\Host: h\\",
        Status(200),
    ),
    (
        "chunks beside a length",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\Content-Length: 40\\0\\GET /hello/smuggled HTTP/1.1\Host: h\\",
        Status(200),
    ),
    (
        "two codings",
        r"POST /sum HTTP/1.1\Transfer-Encoding: chunked\Transfer-Encoding: identity\\0\\GET /hello/smuggled HTTP/1.1\Host: h\\",
        Status(400),
    ),
    (
        "a coding with a tab",
        "POST /sum HTTP/1.1\\Transfer-Encoding:\tchunked\\Content-Length: 3\\\\0\\\\GET /hello/smuggled HTTP/1.1\\Host: h\\\\",
        Status(200),
    ),
    // Connections and upgrades.
    (
        "what follows the last request",
        r"GET /hello/a HTTP/1.1\Host: h\Connection: close\\GET /hello/smuggled HTTP/1.1\Host: h\\",
        Status(200),
    ),
    (
        "what follows the request of HTTP/1.0",
        r"GET /hello/a HTTP/1.0\\GET /hello/smuggled HTTP/1.1\Host: h\\",
        Status(200),
    ),
    ("HTTP/2 that is none", r"PRI * HTTP/2.0\\XX\\", End),
    (
        "an expectation that is none",
        r"POST /sum HTTP/1.1\Expect: more\Content-Length: 0\Connection: close\\",
        Status(200),
    ),
];

/// Requests that are too large, by the part that is repeated.
const LARGE: &[(&str, &str, &str, usize, Outcome)] = &[
    ("a long target", "GET /", "a", 500_000, Status(431)),
    (
        "a long name",
        "GET /hello/a HTTP/1.1\r\n",
        "a",
        500_000,
        Status(431),
    ),
    (
        "a long value",
        "GET /hello/a HTTP/1.1\r\nX: ",
        "a",
        500_000,
        Status(431),
    ),
    (
        "many headers",
        "GET /hello/a HTTP/1.1\r\n",
        "a: b\r\n",
        200,
        Status(431),
    ),
    (
        "very many headers",
        "GET /hello/a HTTP/1.1\r\n",
        "a: b\r\n",
        100_000,
        Status(431),
    ),
    ("a long method", "", "A", 500_000, Status(431)),
    ("ends of lines", "", "\r\n", 500_000, End),
    (
        "a long extension of a chunk",
        "POST /sum HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        "x",
        100_000,
        Status(500),
    ),
    (
        "long trailers",
        "POST /sum HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        "a: b\r\n",
        100_000,
        Status(500),
    ),
];

fn strict() -> Server<uthread_http::Router> {
    Server::new(router())
        .head_timeout(4 * SHORT)
        .keep_alive(8 * SHORT)
}

/// Returns what follows until the end of the connection: the first status, and how many responses.
fn outcome(mut stream: TcpStream) -> (Outcome, usize) {
    let mut received = Vec::new();
    let end = stream.read_to_end(&mut received);
    // A reset might discard a response on its way.
    let is_reset = end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset);
    assert!(!is_reset || received.is_empty(), "{received:?}");
    let text = String::from_utf8_lossy(&received);
    let first = text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    (first.map_or(End, Status), text.matches("HTTP/1.").count())
}

#[test]
fn requests_that_break_the_protocol_are_refused() {
    everywhere(strict, |address| {
        for (name, request, expected) in CASES {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let bytes: Vec<u8> = request
                .replace('\\', "\r\n")
                .chars()
                .map(|c| c as u8)
                .collect();
            stream.write_all(&bytes).unwrap();
            // The server may have ended the connection.
            let _ = stream.shutdown(Shutdown::Write);
            let start = Instant::now();
            let (found, count) = outcome(stream);
            assert_eq!(found, *expected, "{name}");
            assert!(count <= 1, "{name}: {count} responses");
            assert!(start.elapsed() < LONG / 2, "{name}");
        }
        assert_eq!(ask(address, &get("/hello/a")).0, 200);
    });
}

#[test]
fn requests_that_are_too_large_are_refused() {
    everywhere(strict, |address| {
        for (name, begin, part, count, expected) in LARGE {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let bytes = [*begin, &part.repeat(*count)].concat();
            // The server does not take all of it.
            let _ = stream.write_all(bytes.as_bytes());
            let (found, count) = outcome(stream);
            assert_eq!(found, *expected, "{name}");
            assert!(count <= 1, "{name}: {count} responses");
        }
        assert_eq!(ask(address, &get("/hello/a")).0, 200);
    });
}
