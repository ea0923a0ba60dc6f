//! Bulk clients, which write a mebibyte to an echo server and read it back, over and over.
//!
//! Each is a thread with blocking calls. `uthread-load` cannot be such a client, because it has at
//! most 64 KiB in flight.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Size of a transfer: far more than a server reads at a time, and less than the buffers of a
/// connection hold by default.
const TRANSFER_BYTES: usize = 1024 * 1024;
/// A transfer on the loopback that makes no progress for this long has stalled. A client writes a
/// transfer before it reads, so it stalls as well if the socket buffers of this machine
/// (`net.ipv4.tcp_wmem`) hold less than a transfer.
const STALL_MAX: Duration = Duration::from_secs(10);
/// Period of the bytes of a transfer. It is prime, so that no lost or repeated power of two goes
/// unnoticed.
const PERIOD: usize = 251;

/// Clients that transfer until they are stopped.
pub(crate) struct Transfers {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<Result<()>>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    received: AtomicU64,
}

impl Transfers {
    /// Connects this many clients, and starts a thread for each on these CPUs.
    pub(crate) fn start(address: SocketAddr, clients: u32, cpus: &[usize]) -> Result<Transfers> {
        let mut allowed = CpuSet::new();
        cpus.iter().for_each(|&cpu| allowed.set(cpu));
        let streams: io::Result<Vec<TcpStream>> = (0..clients).map(|_| connect(address)).collect();
        let streams = streams.context("connect the bulk clients")?;
        let shared = Arc::new(Shared::default());
        let clients = streams.into_iter().map(|stream| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                sched_setaffinity(None, &allowed).context("pin a bulk client")?;
                transfer(stream, &shared)
            })
        });
        Ok(Transfers {
            clients: clients.collect(),
            shared,
        })
    }

    /// Returns how many bytes all clients have received so far.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
    }

    /// Stops the clients after their transfers. Fails if one of them failed.
    pub(crate) fn finish(self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let ended = self.clients.into_iter().map(JoinHandle::join);
        // All have to end before the first error is returned.
        let ended: Vec<_> = ended.collect();
        ended
            .into_iter()
            .try_for_each(|client| client.map_err(|_| anyhow!("a bulk client has panicked"))?)
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STALL_MAX))?;
    stream.set_write_timeout(Some(STALL_MAX))?;
    Ok(stream)
}

/// Writes a transfer and reads it back until the clients are stopped.
fn transfer(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    let sent: Vec<u8> = (0..TRANSFER_BYTES)
        .map(|index| (index % PERIOD) as u8)
        .collect();
    let mut received = vec![0; TRANSFER_BYTES];
    while !shared.stop.load(Ordering::Relaxed) {
        stream.write_all(&sent).context("write a transfer")?;
        let mut filled = 0;
        while filled < TRANSFER_BYTES {
            let count = stream.read(&mut received[filled..]);
            let count = count.context("read a transfer")?;
            ensure!(count > 0, "the server has closed a bulk connection");
            filled += count;
            shared.received.fetch_add(count as u64, Ordering::Relaxed);
        }
        ensure!(received == sent, "a transfer came back changed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Starts a server that handles each of its connections on a thread.
    fn serve(handle: fn(TcpStream) -> io::Result<()>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                thread::spawn(move || handle(stream));
            }
        });
        address
    }

    fn start(handle: fn(TcpStream) -> io::Result<()>) -> Transfers {
        let cpus = uthread_report::machine::allowed_cpus().unwrap();
        Transfers::start(serve(handle), 3, &cpus).unwrap()
    }

    #[test]
    fn every_client_transfers_until_it_is_stopped() {
        let transfers = start(|stream| io::copy(&mut &stream, &mut &stream).map(drop));
        // More than all clients have in flight, so that at least one has begun anew.
        let anew = 4 * TRANSFER_BYTES as u64;
        while transfers.received_bytes() < anew {
            thread::yield_now();
        }
        let shared = Arc::clone(&transfers.shared);
        transfers.finish().unwrap();
        let received = shared.received.load(Ordering::Relaxed);
        assert!(received >= anew && received.is_multiple_of(TRANSFER_BYTES as u64));
    }

    #[test]
    fn a_server_that_closes_or_changes_a_transfer_fails_the_clients() {
        let check = |handle, reason: &str| {
            let transfers = start(handle);
            while !transfers.clients.iter().all(JoinHandle::is_finished) {
                thread::yield_now();
            }
            let error = format!("{:#}", transfers.finish().unwrap_err());
            assert!(error.contains(reason), "{error}");
        };
        let closes = |mut stream: TcpStream| {
            let mut transfer = vec![0; TRANSFER_BYTES];
            stream.read_exact(&mut transfer)?;
            stream.write_all(&transfer[1..])
        };
        check(closes, "the server has closed");
        let changes = |mut stream: TcpStream| {
            let mut transfer = vec![0; TRANSFER_BYTES];
            stream.read_exact(&mut transfer)?;
            transfer[TRANSFER_BYTES / 2] ^= 1;
            stream.write_all(&transfer)
        };
        check(changes, "came back changed");
    }
}
