//! An echo server: a fiber for each connection, until Ctrl-C.
//!
//! ```sh
//! cargo run -p uthread --example echo 127.0.0.1:7000
//! nc 127.0.0.1 7000
//! ```

use std::env;

use uthread::net::{self, TcpListener};
use uthread::{io, signal, thread};

/// Further connections wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 10_000;

#[uthread::main]
fn main() -> io::Result<()> {
    let address = env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:7000"))?;
    println!("listening on {}", listener.local_addr()?);

    let accepting = listener.try_clone()?;
    thread::spawn(move || {
        signal::ctrl_c()?;
        accepting.shutdown()
    });
    net::serve(&listener, CONNECTIONS_MAX, |stream, peer| {
        match io::copy(&mut &stream, &mut &stream) {
            Ok(bytes) => println!("{peer}: {bytes} bytes"),
            Err(error) => println!("{peer}: {error}"),
        }
    })
}
