//! Clients that hold on to a server: some send an endless request header byte by byte, others
//! request a large file over and over and never read a response.
//!
//! Each is a fiber on a thread of low priority. A client that the server drops connects again.

use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};
use rustix::process::setpriority_process;
use rustix::thread::{CpuSet, sched_setaffinity};
use uthread::net::TcpStream;
use uthread::{Driver, Runtime, scope, sleep};

/// Time in which each client acts once: for a slow header, it sends one byte.
const INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which the thread wakes up at least.
const WAKE_UP: Duration = Duration::from_millis(1);
/// The lowest priority: the server is measured, and not which process runs first beside it.
const NICE: i32 = 19;
const HEADER: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ";

/// Hostile clients that run until they are stopped.
pub(crate) struct Attack {
    stop: Arc<AtomicBool>,
    /// Returns how often the server has dropped or refused a client.
    thread: JoinHandle<io::Result<u64>>,
}

impl Attack {
    /// Starts this many clients with slow headers, and clients that request `/{file}` and never
    /// read, on these CPUs. Without clients the thread wakes up as often, so that it keeps its CPU
    /// equally awake.
    pub(crate) fn start(
        address: SocketAddr,
        clients: [u32; 2],
        file: &str,
        cpus: &[usize],
    ) -> Attack {
        let request = format!("GET /{file} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut allowed = CpuSet::new();
        cpus.iter().for_each(|&cpu| allowed.set(cpu));
        let attack = move || {
            // The worker inherits the affinity of this thread.
            sched_setaffinity(None, &allowed)?;
            run(address, clients, request.as_bytes(), &stopped)
        };
        Attack {
            stop,
            thread: thread::spawn(attack),
        }
    }

    /// Stops the clients. Returns how often the server has dropped or refused one.
    pub(crate) fn finish(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        Ok(ended.map_err(|_| anyhow!("the hostile clients have panicked"))??)
    }
}

fn run(
    address: SocketAddr,
    [slow, never_read]: [u32; 2],
    request: &[u8],
    stop: &AtomicBool,
) -> io::Result<u64> {
    // Linux lowers the priority of this thread alone, and the worker inherits it. Lowering needs no
    // privilege.
    let _ = setpriority_process(None, NICE);
    let dropped = AtomicU64::new(0);
    let client = |index: u32| {
        // Spread over the interval: a burst would delay the ordinary client on the CPU they share.
        sleep(INTERVAL * index / (slow + never_read));
        while !stop.load(Ordering::Relaxed) {
            let request = (index >= slow).then_some(request);
            if hold_connection(address, request, stop).is_err() {
                dropped.fetch_add(1, Ordering::Relaxed);
                sleep(INTERVAL);
            }
        }
    };
    let runtime = Runtime::builder()
        .workers(1)
        .driver(Driver::Epoll)
        .build()?;
    runtime.run(|| {
        scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    sleep(WAKE_UP);
                }
            });
            for index in 0..slow + never_read {
                scope.spawn(move || client(index));
            }
        });
    });
    Ok(dropped.into_inner())
}

/// Sends the request, or the next byte of a slow header, again and again until the attack is
/// stopped.
fn hold_connection(
    address: SocketAddr,
    request: Option<&[u8]>,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(Duration::from_millis(1)))?;
    let mut header = HEADER.iter();
    while !stop.load(Ordering::Relaxed) {
        let byte = [*header.next().unwrap_or(&b'a')];
        match stream.write(request.unwrap_or(&byte)) {
            // A request that is cut short is never reached: all buffers before it are full.
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => sleep(INTERVAL),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn clients_connect_again_and_repeat_their_requests() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let cpus = uthread_report::machine::allowed_cpus().unwrap();
        let read = |bytes| {
            let mut received = vec![0; bytes];
            let (mut server, _) = listener.accept().unwrap();
            server.read_exact(&mut received).unwrap();
            received
        };
        let attack = Attack::start(address, [1, 0], "large", &cpus);
        assert_eq!([read(5), read(5)], [b"GET /", b"GET /"]);
        assert!(attack.finish().unwrap() >= 1);
        let request = b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
        let attack = Attack::start(address, [0, 1], "large", &cpus);
        assert_eq!(read(2 * request.len()), request.repeat(2));
        attack.finish().unwrap();
    }
}
