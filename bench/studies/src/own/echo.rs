//! The echo server: a fiber per connection, and the ways in which connections and bytes can come and go.

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

#[path = "../../../peers/compute.rs"]
mod compute;

use crate::say::say;
use compute::Compute;

/// Longer than a message of 16 bytes, so that a short read says that there is no more.
const READ_BYTES: usize = 64;
/// Number of buffers of a multishot receive, for all connections: as many as may have sent between two rounds
/// of the worker.
const BUFFERS: u16 = 4096;
/// Size of a buffer: some messages.
const BUFFER_BYTES: usize = 256;

/// By which requests the server does its work; those of the library's own calls by default.
#[derive(clap::Args, Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ways {
    #[arg(long, value_enum, default_value_t)]
    pub(crate) accepts: Accepts,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) reads: Reads,
    #[arg(long, value_enum, default_value_t)]
    pub(crate) sends: Sends,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub(crate) enum Accepts {
    /// A request for each connection
    #[default]
    Single,
    /// One request for all
    Multishot,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub(crate) enum Reads {
    /// Like sockets of the library: by system calls, once a poll stands for a long-lived connection
    #[default]
    Own,
    /// A request for each: what vectored calls are, of one buffer
    Requests,
    /// One request for all, into buffers that the ring was lent
    Multishot,
    /// One request tells when there is something, and system calls that do not wait read it
    Readiness,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub(crate) enum Sends {
    /// Like sockets of the library: by non-blocking system calls, and by a request if they would block
    #[default]
    Own,
    /// A request for each, as of reads, which reach the kernel together
    Requests,
}

/// Prints where it listens; ends when standard input does.
pub(super) fn serve(port: u16, runtime: Runtime, compute_us: u64, ways: Ways) -> Result<()> {
    let server = Server {
        ways,
        compute: Compute::calibrated(compute_us),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    say!("{}", listener.local_addr()?);
    runtime.spawn(move || server.accept(&listener));
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

#[derive(Clone, Copy)]
struct Server {
    ways: Ways,
    compute: Compute,
}

impl Server {
    fn accept(self, listener: &TcpListener) -> io::Result<()> {
        let buffers = match self.ways.reads {
            Reads::Multishot => Some(Arc::new(BufferRing::new(BUFFERS, BUFFER_BYTES)?)),
            Reads::Own | Reads::Requests | Reads::Readiness => None,
        };
        let start = |stream: TcpStream| {
            let buffers = buffers.clone();
            spawn(move || self.echo(&stream, buffers.as_deref()));
        };
        match self.ways.accepts {
            Accepts::Single => listener.incoming().try_for_each(|stream| {
                start(stream?);
                Ok(())
            }),
            Accepts::Multishot => ring::accept(listener).try_for_each(|stream| {
                start(stream?);
                Ok(())
            }),
        }
    }

    fn echo(self, stream: &TcpStream, buffers: Option<&BufferRing>) -> io::Result<()> {
        stream.set_nodelay(true)?;
        match self.ways.reads {
            Reads::Own => self.echo_by_reads(stream, |mut stream, message| stream.read(message)),
            Reads::Requests => self.echo_by_reads(stream, |mut stream, message| {
                stream.read_vectored(&mut [IoSliceMut::new(message)])
            }),
            Reads::Multishot => {
                let buffers = buffers.expect("they are made for such reads");
                ring::receive(stream, buffers).try_for_each(|chunk| self.answer(stream, &chunk?))
            }
            Reads::Readiness => self.echo_when_ready(stream),
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
        match self.ways.sends {
            Sends::Own => stream.write_all(message),
            Sends::Requests => {
                while !message.is_empty() {
                    message = &message[stream.write_vectored(&[IoSlice::new(message)])?..];
                }
                Ok(())
            }
        }
    }
}
