//! The echo server: a coroutine per connection.

use std::io::{self, Read, Write};
use std::net::Ipv4Addr;

use may::go;
use may::net::{TcpListener, TcpStream};

use crate::compute::Compute;

/// Size of a receive buffer: more than a message of 16 bytes, so that a short read says that there
/// is no more.
const BUFFER_BYTES: usize = 64;
/// Stack size in words, as may counts: 8 KiB. An echo uses 123 words, which may reports for an odd
/// size.
const STACK_WORDS: usize = 0x400;

pub(crate) fn serve(port: u16, workers: usize, compute: Compute) {
    may::config()
        .set_workers(workers)
        .set_stack_size(STACK_WORDS);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port");
    println!("{}", listener.local_addr().expect("a bound address"));
    go!(move || accept(&listener, compute));
    io::copy(&mut io::stdin(), &mut io::sink()).expect("a pipe");
}

fn accept(listener: &TcpListener, compute: Compute) {
    for stream in listener.incoming() {
        let stream = stream.expect("a connection");
        go!(move || echo(stream, compute));
    }
}

fn echo(mut stream: TcpStream, compute: Compute) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; BUFFER_BYTES];
    loop {
        let count = stream.read(&mut message)?;
        if count == 0 {
            return Ok(());
        }
        compute.run();
        stream.write_all(&message[..count])?;
    }
}
