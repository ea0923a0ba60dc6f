//! The echo server: a fiber per connection.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;

use anyhow::Result;
use uthread::net::{TcpListener, TcpStream};
use uthread::{Runtime, spawn};

#[path = "../../../../peers/compute.rs"]
mod compute;

use compute::Compute;

const MESSAGE_BYTES: usize = 16;

/// Prints where it listens; ends when standard input does.
pub(super) fn serve(port: u16, runtime: Runtime, compute_us: u64) -> Result<()> {
    let compute = Compute::calibrated(compute_us);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    println!("{}", listener.local_addr()?);
    runtime.spawn(move || accept(&listener, compute));
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn accept(listener: &TcpListener, compute: Compute) -> io::Result<()> {
    for stream in listener.incoming() {
        let stream = stream?;
        spawn(move || echo(stream, compute));
    }
    Ok(())
}

fn echo(mut stream: TcpStream, compute: Compute) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; MESSAGE_BYTES];
    loop {
        let count = stream.read(&mut message)?;
        if count == 0 {
            return Ok(());
        }
        compute.run();
        stream.write_all(&message[..count])?;
    }
}
