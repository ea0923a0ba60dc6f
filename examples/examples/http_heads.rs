//! HTTP with httparse: parses requests that arrive in pieces, several per connection, from a
//! growing buffer.

use std::io::{Read, Write};

use anyhow::{Result, ensure};
use httparse::{EMPTY_HEADER, Request, Status};
use uthread::net::{Shutdown, TcpListener, TcpStream};

/// Maximum length of a head.
const HEAD_MAX: usize = 8192;

fn main() -> Result<()> {
    uthread::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        uthread::spawn(move || {
            for stream in listener.incoming().flatten() {
                uthread::spawn(|| answer(stream));
            }
        });
        let mut stream = TcpStream::connect(address)?;
        let pieces =
            "GET /a HT|TP/1.1\r\nHost: here\r|\n\r\nGET /b HTTP/1.1\r\n\r\nGET|/ HTTP/1.1\r\n\r\n";
        for piece in pieces.split('|') {
            stream.write_all(piece.as_bytes())?;
            uthread::yield_now();
        }
        stream.shutdown(Shutdown::Write)?;
        let mut answers = String::new();
        stream.read_to_string(&mut answers)?;
        print!("{answers}");
        ensure!(
            answers.lines().count() == 3,
            "three answers to three requests"
        );
        Ok(())
    })
}

/// Answers each request with the parsed fields, and closes the connection after an invalid one.
fn answer(mut stream: TcpStream) -> Result<()> {
    let mut received = Vec::new();
    loop {
        let mut fields = [EMPTY_HEADER; 16];
        let mut request = Request::new(&mut fields);
        match request.parse(&received) {
            Ok(Status::Complete(end)) => {
                let (path, fields) = (request.path, request.headers.len());
                write!(stream, "HTTP/1.1 204 {path:?} and {fields} fields\r\n")?;
                received.drain(..end);
            }
            Ok(Status::Partial) if received.len() < HEAD_MAX => {
                let mut piece = [0; 1024];
                let length = stream.read(&mut piece)?;
                ensure!(length > 0 || received.is_empty(), "the end amid a request");
                if length == 0 {
                    return Ok(());
                }
                received.extend(&piece[..length]);
            }
            Ok(Status::Partial) => return Ok(write!(stream, "HTTP/1.1 431 too long\r\n")?),
            Err(error) => return Ok(write!(stream, "HTTP/1.1 400 {error}\r\n")?),
        }
    }
}
