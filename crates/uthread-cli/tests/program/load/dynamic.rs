//! A server whose responses change: requests of any method, chunks, statuses other than 200.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use super::{assert_all_right, errors, load, read_request, report, server};

/// Serves `POST` requests with a body of 5 bytes by chunks that change from response to response,
/// and all others by 404.
fn serve_dynamic() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = |mut stream: TcpStream| -> io::Result<()> {
        let mut received = Vec::new();
        for number in 0.. {
            let head = loop {
                if let Some(end) = received.windows(4).position(|end| end == b"\r\n\r\n") {
                    break end + 4;
                }
                let mut piece = [0; 1024];
                match stream.read(&mut piece)? {
                    0 => return Ok(()),
                    count => received.extend_from_slice(&piece[..count]),
                }
            };
            let text = String::from_utf8(received.drain(..head).collect()).unwrap();
            let is_right = text.starts_with("POST /items HTTP/1.1\r\n")
                && text.contains("\r\nContent-Length: 5\r\n")
                && text.contains("\r\nAccept: text/plain\r\n");
            if !is_right {
                stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone")?;
                continue;
            }
            let mut body = [0; 5];
            let there = received.len().min(5);
            body[..there].copy_from_slice(&received[..there]);
            received.drain(..there);
            stream.read_exact(&mut body[there..])?;
            assert_eq!(&body, b"hello");
            let text = format!("number {number}");
            let bytes = text.len();
            let response = format!(
                "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n{text}\r\n0\r\n\r\n"
            );
            stream.write_all(response.as_bytes())?;
        }
        Ok(())
    };
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || answer(stream));
        }
    });
    address
}

#[test]
fn a_dynamic_server_is_loaded_with_requests_of_any_kind() {
    let address = serve_dynamic();
    let url = format!("{address}/items");
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("body");
    std::fs::write(&file, "hello").unwrap();
    let body = format!("--body=@{}", file.display());
    let post = ["-X", "POST", "-H", "Accept: text/plain", "-c", "2"];
    for body in ["--body=hello", &body] {
        let options = [&post[..], &[body, "--status=200,201", "--no-check"]].concat();
        assert_all_right(&report("http", &url, &options, 0));
    }
    // Without --no-check, the bodies that change are wrong.
    let options = [&post[..], &["--body=hello", "--status=201"]].concat();
    let checked = report("http", &url, &options, 0);
    assert!(errors(&checked, "wrong", "differs from that of the first response") > 0);
    let missing = report("http", &url, &["-c", "2", "--status=404"], 0);
    assert_all_right(&missing);
    let refused = load("http", &url, &["--header", "nothing"]);
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("\"nothing\" is no header field"), "{text}");
}

#[test]
fn a_server_may_send_interim_responses_and_large_heads() {
    let address = server(|stream| {
        let large = "Set-Cookie: 0123456789\r\n".repeat(500);
        let response = format!(
            "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\n{large}Content-Length: 2\r\n\r\nok"
        );
        loop {
            read_request(stream)?;
            stream.write_all(response.as_bytes())?;
        }
    });
    let report = report("http", &address, &["--connections=2"], 0);
    assert_all_right(&report);
}
