//! Clients that hold on to a server: some send an endless request header byte by byte, others request a large file over and
//! over and never read a response.
//!
//! Each is a fiber on a thread of low priority. A client that the server drops connects again.

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::process::setpriority_process;
use uthread::net::TcpStream;
use uthread::{Driver, Runtime, sleep};

/// Each client acts once in this time: for a slow header, it sends one byte.
const INTERVAL: Duration = Duration::from_millis(100);
/// The lowest priority: the server is measured, and not which process runs first beside it.
const NICE: i32 = 19;
const HEADER: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ";

/// Hostile clients that run until they are stopped.
pub(crate) struct Attack {
    stop: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
    thread: JoinHandle<io::Result<()>>,
}

impl Attack {
    /// Starts this many clients with slow headers, and clients that request `/{file}` and never read.
    pub(crate) fn start(
        address: SocketAddr,
        slow_headers: u32,
        never_reads: u32,
        file: &str,
    ) -> Attack {
        let request = format!("GET /{file} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        let (stop, dropped) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let attack = Shared {
            address,
            stop: Arc::clone(&stop),
            dropped: Arc::clone(&dropped),
        };
        let thread =
            thread::spawn(move || attack.run(slow_headers, never_reads, request.as_bytes()));
        Attack {
            stop,
            dropped,
            thread,
        }
    }

    /// Stops the clients. Returns how often the server has dropped or refused one.
    pub(crate) fn finish(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended
            .map_err(|_| anyhow!("the hostile clients have panicked"))?
            .context("attack")?;
        Ok(self.dropped.load(Ordering::Relaxed))
    }
}

struct Shared {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    dropped: Arc<AtomicU64>,
}

impl Shared {
    fn run(&self, slow_headers: u32, never_reads: u32, request: &[u8]) -> io::Result<()> {
        // Linux lowers the priority of this thread alone, and the worker inherits it. Lowering needs no privilege.
        let _ = setpriority_process(None, NICE);
        let runtime = Runtime::builder()
            .workers(1)
            .driver(Driver::Epoll)
            .build()?;
        runtime.run(|| {
            uthread::scope(|scope| {
                for index in 0..slow_headers + never_reads {
                    // Spread over the interval: a burst would delay the ordinary client on the CPU they share.
                    let delay = INTERVAL * index / (slow_headers + never_reads);
                    scope.spawn(move || {
                        sleep(delay);
                        self.be_hostile(|sent, stream| match index < slow_headers {
                            true => write_what_fits(stream, &[*HEADER.get(sent).unwrap_or(&b'a')]),
                            false => write_what_fits(stream, request),
                        });
                    });
                }
            });
        });
        Ok(())
    }

    /// Connects and acts, again and again, until the attack is stopped. `act` is told how many bytes it has sent on this connection.
    fn be_hostile(&self, act: impl Fn(usize, &mut TcpStream) -> io::Result<usize>) {
        while !self.stop.load(Ordering::Relaxed) {
            if self.hold_connection(&act).is_err() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                sleep(INTERVAL);
            }
        }
    }

    fn hold_connection(
        &self,
        act: impl Fn(usize, &mut TcpStream) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(Duration::from_millis(1)))?;
        let mut sent = 0;
        while !self.stop.load(Ordering::Relaxed) {
            sent += act(sent, &mut stream)?;
            sleep(INTERVAL);
        }
        Ok(())
    }
}

/// Sends what the socket takes at once. A request cut short is never reached: all buffers before it are full.
fn write_what_fits(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match stream.write(bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn a_dropped_client_connects_again_and_one_that_never_reads_repeats_its_request() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let attack = Attack::start(address, 1, 0, "large");
        for _ in 0..2 {
            let (mut server, _) = listener.accept().unwrap();
            let mut start = [0; 5];
            server.read_exact(&mut start).unwrap();
            assert_eq!(&start, b"GET /");
        }
        assert!(attack.finish().unwrap() >= 1);

        let attack = Attack::start(address, 0, 1, "large");
        let (mut server, _) = listener.accept().unwrap();
        let request = b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        let mut received = vec![0; 2 * request.len()];
        server.read_exact(&mut received).unwrap();
        assert_eq!(received, request.repeat(2));
        assert_eq!(attack.finish().unwrap(), 0);
    }
}
