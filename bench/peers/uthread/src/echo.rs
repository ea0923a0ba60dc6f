//! The echo server: a fiber per connection, and several ways to accept, read and send.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use rustix::io::Errno;
use rustix::net::RecvFlags;
use uthread::net::{TcpListener, TcpStream};
use uthread::ring::{self, BufferRing, Events};
use uthread::{Runtime, spawn};

#[path = "../../compute.rs"]
mod compute;

use compute::Compute;

/// Size of a receive buffer: more than a message of 16 bytes, so that a short read means that there
/// is no more.
const READ_BYTES: usize = 64;
/// Buffers of a multishot receive, for all connections: as many as may have sent between two rounds
/// of the worker.
const BUFFERS: u16 = 4096;
/// Size of a buffer: some messages.
const BUFFER_BYTES: usize = 256;

/// An echo server and its work for each message.
#[derive(clap::Args)]
pub(super) struct Echo {
    port: u16,
    pub(super) workers: usize,
    compute_us: u64,
    #[arg(long, value_enum, default_value_t)]
    way: Way,
}

/// The requests by which the server works.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub(super) enum Way {
    /// The requests of the library's own calls
    #[default]
    Own,
    /// A request for each read and each send, which reach the kernel together
    Requests,
    /// A request for each read
    Reads,
    /// One receive for each connection, into buffers that the ring was lent
    MultishotReads,
    /// One poll for each connection, and system calls that do not wait
    Readiness,
    /// One accept for all connections
    MultishotAccepts,
}

impl Echo {
    /// Prints the address, and serves until standard input ends.
    pub(super) fn serve(&self, runtime: Runtime) -> Result<()> {
        let server = Server {
            way: self.way,
            compute: Compute::calibrated(self.compute_us),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port))?;
        println!("{}", listener.local_addr()?);
        runtime.spawn(move || server.accept(&listener));
        io::copy(&mut io::stdin(), &mut io::sink())?;
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Server {
    way: Way,
    compute: Compute,
}

impl Server {
    fn accept(self, listener: &TcpListener) -> io::Result<()> {
        let buffers = match self.way {
            Way::MultishotReads => Some(Arc::new(BufferRing::new(BUFFERS, BUFFER_BYTES)?)),
            _ => None,
        };
        let start = |stream: TcpStream| {
            let buffers = buffers.clone();
            spawn(move || self.echo(&stream, buffers.as_deref()));
        };
        match self.way {
            Way::MultishotAccepts => ring::accept(listener).try_for_each(|stream| {
                start(stream?);
                Ok(())
            }),
            _ => listener.incoming().try_for_each(|stream| {
                start(stream?);
                Ok(())
            }),
        }
    }

    fn echo(self, stream: &TcpStream, buffers: Option<&BufferRing>) -> io::Result<()> {
        stream.set_nodelay(true)?;
        match self.way {
            Way::Own | Way::MultishotAccepts => {
                self.echo_by_reads(stream, |mut stream, message| stream.read(message))
            }
            Way::Requests | Way::Reads => self.echo_by_reads(stream, |mut stream, message| {
                stream.read_vectored(&mut [IoSliceMut::new(message)])
            }),
            Way::MultishotReads => {
                let buffers = buffers.expect("multishot reads have buffers");
                ring::receive(stream, buffers).try_for_each(|chunk| self.answer(stream, &chunk?))
            }
            Way::Readiness => self.echo_when_ready(stream),
        }
    }

    fn echo_by_reads(
        self,
        stream: &TcpStream,
        read: impl Fn(&TcpStream, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<()> {
        let mut message = [0; READ_BYTES];
        loop {
            let count = read(stream, &mut message)?;
            if count == 0 {
                return Ok(());
            }
            self.answer(stream, &message[..count])?;
        }
    }

    fn echo_when_ready(self, stream: &TcpStream) -> io::Result<()> {
        let mut message = [0; READ_BYTES];
        for events in ring::poll(stream, Events::READABLE) {
            events?;
            loop {
                match rustix::net::recv(stream, &mut message, RecvFlags::DONTWAIT) {
                    Ok((0, _)) => return Ok(()),
                    Ok((count, _)) => {
                        self.answer(stream, &message[..count])?;
                        if count < message.len() {
                            break;
                        }
                    }
                    Err(Errno::AGAIN) => break,
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Ok(())
    }

    fn answer(self, mut stream: &TcpStream, mut message: &[u8]) -> io::Result<()> {
        self.compute.run();
        if self.way != Way::Requests {
            return stream.write_all(message);
        }
        while !message.is_empty() {
            message = &message[stream.write_vectored(&[IoSlice::new(message)])?..];
        }
        Ok(())
    }
}
