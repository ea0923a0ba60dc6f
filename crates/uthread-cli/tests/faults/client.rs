//! A client of HTTP in plain code of `std`.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Client(BufReader<TcpStream>);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Client {
    /// Connects, and lets each call take so long at most.
    pub(crate) fn connect(address: &str, limit: Duration) -> io::Result<Client> {
        let address = address.to_socket_addrs()?.next().unwrap();
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_nodelay(true)?;
        Ok(Client(BufReader::new(stream)))
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.0.get_ref()
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<Response> {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: server\r\n\r\n"))?;
        self.response()
    }

    pub(crate) fn send(&self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream().write_all(bytes.as_ref())
    }

    /// Receives a whole response, with a length.
    pub(crate) fn response(&mut self) -> io::Result<Response> {
        let (status, length) = self.head()?;
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Response { status, body })
    }

    /// Receives the head of a response. Returns its status, and the length of its body.
    pub(crate) fn head(&mut self) -> io::Result<(u16, usize)> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = 0;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok((status, length));
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let whole = line.strip_suffix("\r\n").ok_or(ErrorKind::UnexpectedEof)?;
        Ok(whole.to_owned())
    }

    /// Receives until the end of the stream.
    pub(crate) fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.read_to_end(&mut rest)?;
        Ok(rest)
    }
}

impl Read for Client {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
