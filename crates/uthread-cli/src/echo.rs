//! `uthread echo`: sends back the bytes it receives, optionally after computing for a while. Meant
//! for measurements.

use std::hint::spin_loop;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};
use uthread::spawn;

use crate::args::EchoArgs;
use crate::exit::Exit;
use crate::listen::{Listening, listen};
use crate::runtime;
use crate::server::{self, Server};
use crate::stream::{Client, Stream};

/// Bytes to read and send back at a time, while the client sends more than [`MESSAGE_BYTES`] at
/// once.
const CHUNK_BYTES: usize = 16 * 1024;
/// Size of the buffer of a connection that waits: on the stack, beside the frames in its first
/// page.
const MESSAGE_BYTES: usize = 512;

struct Echo {
    compute: Duration,
}

impl Server for Echo {
    fn welcome(self: &Arc<Self>, stream: Stream, _: Client) {
        let compute = self.compute;
        spawn(move || {
            // An error means that the client has disconnected, which is how every echo ends.
            let _ = echo(&stream, compute);
        });
    }
}

pub(crate) fn run(args: &EchoArgs) -> Exit {
    server::run(runtime::start(&args.server, false), |place| {
        server::serve(start(args), place.stop, Duration::ZERO)
    })
}

fn start(args: &EchoArgs) -> anyhow::Result<(Listening, Arc<Echo>)> {
    let listening = listen(&args.listen, &args.server)?;
    // Scripts wait for this line. Nobody has to read it.
    let (addr, origin) = (&listening.addr, listening.origin());
    let _ = writeln!(io::stdout(), "listening on {addr}{origin}");
    let compute = args.compute;
    Ok((listening, Arc::new(Echo { compute })))
}

fn echo(mut stream: &Stream, compute: Duration) -> io::Result<()> {
    stream.set_nodelay()?;
    let mut message = [0; MESSAGE_BYTES];
    loop {
        let count = stream.read(&mut message)?;
        if count == 0 {
            return Ok(());
        }
        work(compute);
        stream.write_all(&message[..count])?;
        if count == MESSAGE_BYTES {
            echo_chunks(stream, compute)?;
        }
    }
}

/// Echoes in large pieces until a read returns less than a message.
#[inline(never)]
fn echo_chunks(mut stream: &Stream, compute: Duration) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = stream.read(&mut chunk)?;
        if count > 0 {
            work(compute);
            stream.write_all(&chunk[..count])?;
        }
        // At the end of input, the next read returns it again.
        if count < MESSAGE_BYTES {
            return Ok(());
        }
    }
}

/// Keeps the CPU busy, as handling a request would.
fn work(compute: Duration) {
    if compute.is_zero() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < compute {
        spin_loop();
    }
}
