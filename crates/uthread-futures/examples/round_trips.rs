//! Measures the cost of the adapters: the CPU time of a round trip over TCP, of the client and the
//! server together, with a client that blocks, and with one in `block_on`.
//!
//! Run it with `cargo run --release -p uthread-futures --example round_trips`.

use std::io::{self, Read, Write};
use std::time::Duration;

use futures_util::io::{AsyncReadExt, AsyncWriteExt};
use rustix::time::{ClockId, clock_gettime};
use uthread::net::{TcpListener, TcpStream};
use uthread::{Runtime, block_on};
use uthread_futures::{Async, Blocking};

const ROUND_TRIPS: u32 = 20_000;

/// The fastest of as many runs counts, as other programs only slow a run down.
const RUNS: usize = 5;

type Client = fn(TcpStream) -> io::Result<()>;

const CLIENTS: [(&str, Client); 3] = [
    ("blocking calls", blocking),
    ("Async in block_on", in_block_on),
    ("Blocking around Async", |stream| {
        blocking(Blocking::new(Async::new(stream)))
    }),
];

fn main() -> io::Result<()> {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build()?;
        for (name, client) in CLIENTS {
            let time = runtime.run(|| fastest(client))?;
            println!("workers: {workers}, {name}: {time:.1} us of CPU time a round trip");
        }
    }
    Ok(())
}

/// Returns the CPU time of a round trip in microseconds.
fn fastest(client: Client) -> io::Result<f64> {
    let mut fastest = f64::INFINITY;
    for _ in 0..RUNS {
        let stream = echo()?;
        let start = cpu_time();
        client(stream)?;
        let time = (cpu_time() - start) / ROUND_TRIPS;
        fastest = fastest.min(time.as_secs_f64() * 1e6);
    }
    Ok(fastest)
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("CPU time is not negative")
}

/// Connects to a fiber that returns what it receives.
fn echo() -> io::Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    stream.set_nodelay(true)?;
    uthread::spawn(move || {
        let (peer, _) = listener.accept()?;
        io::copy(&mut &peer, &mut &peer)
    });
    Ok(stream)
}

fn blocking(mut stream: impl Read + Write) -> io::Result<()> {
    for _ in 0..ROUND_TRIPS {
        stream.write_all(&[1; 16])?;
        stream.read_exact(&mut [0; 16])?;
    }
    Ok(())
}

fn in_block_on(stream: TcpStream) -> io::Result<()> {
    block_on(async {
        let mut stream = Async::new(stream);
        for _ in 0..ROUND_TRIPS {
            stream.write_all(&[1; 16]).await?;
            stream.read_exact(&mut [0; 16]).await?;
        }
        Ok(())
    })
}
