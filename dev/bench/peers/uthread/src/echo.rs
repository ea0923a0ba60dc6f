//! The echo server: a fiber per connection.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;

use anyhow::Result;
use uthread::net::{TcpListener, TcpStream};
use uthread::{Runtime, spawn};

#[path = "../../compute.rs"]
mod compute;

use compute::Compute;

/// Size of a receive buffer: more than a message of 16 bytes, so that a short read means that there
/// is no more.
const READ_BYTES: usize = 64;

/// An echo server and its work for each message.
#[derive(clap::Args)]
pub(super) struct Echo {
    port: u16,
    pub(super) workers: usize,
    compute_us: u64,
}

impl Echo {
    /// Prints the address, and serves until standard input ends.
    pub(super) fn serve(&self, runtime: Runtime) -> Result<()> {
        let compute = Compute::calibrated(self.compute_us);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))?;
        println!("{}", listener.local_addr()?);
        runtime.spawn(move || -> io::Result<()> {
            for stream in listener.incoming() {
                let stream = stream?;
                spawn(move || echo(&stream, compute));
            }
            Ok(())
        });
        io::copy(&mut io::stdin(), &mut io::sink())?;
        Ok(())
    }
}

fn echo(mut stream: &TcpStream, compute: Compute) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; READ_BYTES];
    loop {
        let count = stream.read(&mut message)?;
        if count == 0 {
            return Ok(());
        }
        compute.run();
        stream.write_all(&message[..count])?;
    }
}
