//! The HTTP server with one response: a fiber per connection.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;

use anyhow::Result;
use uthread::net::{TcpListener, TcpStream};
use uthread::{Runtime, spawn};

/// The path and the body.
const FIXED: (&str, &str) = ("fixed", "hello, world\n");

/// Maximum size of a request's head, above that of any load.
const HEAD_BYTES_MAX: usize = 4 * 1024;
const HEADERS_MAX: usize = 32;

/// Prints the address, and serves until standard input ends.
pub(super) fn serve(port: u16, runtime: Runtime) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    println!("{}", listener.local_addr()?);
    runtime.spawn(move || -> io::Result<()> {
        for stream in listener.incoming() {
            let stream = stream?;
            spawn(move || answer_all(&stream));
        }
        Ok(())
    });
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

/// Answers until the client closes the connection, or sends something that is not a request.
fn answer_all(mut stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (path, body) = FIXED;
    let response = |status: &str, body: &str| {
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nContent-Type: text/plain\r\n\r\n{body}"
        )
    };
    let (found, missing) = (response("200 OK", body), response("404 Not Found", ""));
    let mut received = [0; HEAD_BYTES_MAX];
    let mut length = 0;
    loop {
        let count = stream.read(&mut received[length..])?;
        if count == 0 {
            return Ok(());
        }
        length += count;
        let mut begin = 0;
        while let Some((bytes, is_found)) = request(&received[begin..length], path)? {
            begin += bytes;
            stream.write_all(if is_found {
                found.as_bytes()
            } else {
                missing.as_bytes()
            })?;
        }
        received.copy_within(begin..length, 0);
        length -= begin;
    }
}

/// Returns the length of the first request if it is complete, and whether it is for `path`.
fn request(received: &[u8], path: &str) -> io::Result<Option<(usize, bool)>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let status = request.parse(received).map_err(io::Error::other)?;
    let is_found = request.path.and_then(|found| found.strip_prefix('/')) == Some(path);
    Ok(match status {
        httparse::Status::Complete(bytes) => Some((bytes, is_found)),
        httparse::Status::Partial => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_complete_with_its_head() {
        let text = b"GET /fixed HTTP/1.1\r\nHost: x\r\n\r\n";
        for end in 0..text.len() {
            assert_eq!(request(&text[..end], "fixed").unwrap(), None, "{end}");
        }
        let two = text.repeat(2);
        assert_eq!(request(&two, "fixed").unwrap(), Some((text.len(), true)));
        assert_eq!(request(text, "other").unwrap(), Some((text.len(), false)));
        assert!(request(b"\0\r\n\r\n", "fixed").is_err());
    }
}
