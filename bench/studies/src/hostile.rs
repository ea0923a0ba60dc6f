//! Clients that hold on to a server: some send a request header one byte at a time and never finish it, others request
//! a large file over and over and never read an answer.
//!
//! One thread drives them all without blocking. A client that the server drops comes back at once, as a real one would.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::process::setpriority_process;

/// Each client acts once in this time: for a slow header, one byte.
const ROUND: Duration = Duration::from_millis(100);
/// The clients act in turns of 1 ms, a few at a time: a burst would hold up the ordinary client on the CPU they share.
const TURNS: usize = 100;
/// The lowest priority, for the same reason: what is measured is the server, not who runs first beside it.
const NICE: i32 = 19;
/// A server that does not take a connection within this time refuses it; the client tries again next round.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Begins every slow header; what follows is an endless field value.
const SLOW_HEADER: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ";

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// How often the server dropped one of the clients, or refused it.
    pub(crate) dropped: u64,
}

pub(crate) struct Attack {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Outcome>>,
}

impl Attack {
    /// All clients are connected when this returns.
    pub(crate) fn start(
        address: SocketAddr,
        slow_headers: usize,
        never_reads: usize,
        path: &str,
    ) -> Result<Attack> {
        let request: Arc<[u8]> = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            .into_bytes()
            .into();
        let kinds = (0..slow_headers)
            .map(|_| Kind::SlowHeader { bytes_sent: 0 })
            .chain((0..never_reads).map(|_| Kind::NeverRead {
                request: Arc::clone(&request),
            }));
        let mut clients = Vec::with_capacity(slow_headers + never_reads);
        for kind in kinds {
            let stream = connect(address)
                .with_context(|| format!("connect hostile client {}", clients.len()))?;
            clients.push(Client {
                kind,
                stream: Some(stream),
            });
        }
        let stop = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let stop = Arc::clone(&stop);
            move || drive(clients, address, &stop)
        });
        Ok(Attack {
            stop,
            thread: Some(thread),
        })
    }

    pub(crate) fn finish(mut self) -> Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("the attack has already ended")?;
        thread
            .join()
            .map_err(|_| anyhow!("the hostile clients' thread has panicked"))
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn drive(mut clients: Vec<Client>, address: SocketAddr, stop: &AtomicBool) -> Outcome {
    // Linux lowers this thread alone. Lowering needs no right, so there is nothing to handle.
    let _ = setpriority_process(None, NICE);
    let mut outcome = Outcome::default();
    let mut turn = 0;
    while !stop.load(Ordering::Relaxed) {
        for client in clients.iter_mut().skip(turn).step_by(TURNS) {
            if client.act(address).is_err() {
                outcome.dropped += 1;
                client.stream = None;
            }
        }
        turn = (turn + 1) % TURNS;
        thread::sleep(ROUND / TURNS as u32);
    }
    outcome
}

struct Client {
    kind: Kind,
    stream: Option<TcpStream>,
}

enum Kind {
    SlowHeader { bytes_sent: usize },
    NeverRead { request: Arc<[u8]> },
}

impl Client {
    fn act(&mut self, address: SocketAddr) -> Result<()> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                self.kind.restart();
                none.insert(connect(address)?)
            }
        };
        match &mut self.kind {
            Kind::SlowHeader { bytes_sent } => {
                let byte = SLOW_HEADER.get(*bytes_sent).copied().unwrap_or(b'a');
                *bytes_sent += write_without_waiting(stream, &[byte])?;
            }
            // A write cut short only happens once all buffers are full; the garbled request is then never reached.
            Kind::NeverRead { request } => {
                write_without_waiting(stream, request)?;
            }
        }
        Ok(())
    }
}

impl Kind {
    fn restart(&mut self) {
        if let Kind::SlowHeader { bytes_sent } = self {
            *bytes_sent = 0;
        }
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_MAX)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

fn write_without_waiting(stream: &mut TcpStream, bytes: &[u8]) -> Result<usize> {
    match stream.write(bytes) {
        Ok(count) => Ok(count),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn a_slow_header_arrives_byte_by_byte_and_a_dropped_client_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let attack = Attack::start(listener.local_addr().unwrap(), 1, 0, "/large").unwrap();
        let (mut first, _) = listener.accept().unwrap();
        let mut start = [0; 5];
        first.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"GET /");
        drop(first);
        let (mut second, _) = listener.accept().unwrap();
        second.read_exact(&mut start).unwrap();
        assert_eq!(&start, b"GET /");
        assert_eq!(attack.finish().unwrap(), Outcome { dropped: 1 });
    }

    #[test]
    fn a_client_that_never_reads_asks_again_and_again() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let attack = Attack::start(listener.local_addr().unwrap(), 0, 1, "/large").unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let request = b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        let mut received = vec![0; 2 * request.len()];
        server.read_exact(&mut received).unwrap();
        assert_eq!(received, [request.as_slice(), request].concat());
        assert_eq!(attack.finish().unwrap(), Outcome::default());
    }
}
