//! The echo server: a thread per connection.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use crate::compute::Compute;
use crate::threads::spawn;

/// Size of a receive buffer: more than a message of 16 bytes, so that a short read says that there
/// is no more.
const BUFFER_BYTES: usize = 64;

/// Serves with a thread per connection. The kernel puts the threads on all CPUs that the process
/// may use: for fewer workers, give it fewer CPUs.
pub(crate) fn serve(port: u16, compute: Compute) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port");
    println!("{}", listener.local_addr().expect("a bound address"));
    thread::spawn(move || accept(&listener, compute));
    io::copy(&mut io::stdin(), &mut io::sink()).expect("a pipe");
}

fn accept(listener: &TcpListener, compute: Compute) {
    for stream in listener.incoming() {
        let stream = stream.expect("a connection");
        spawn(move || echo(stream, compute));
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
