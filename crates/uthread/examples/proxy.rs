//! A TCP proxy: forwards each connection to a target, in both directions.
//!
//! ```sh
//! cargo run -p uthread --example proxy 127.0.0.1:7001 127.0.0.1:7000
//! ```

use std::env;
use std::time::Duration;

use uthread::net::{self, Shutdown, TcpListener, TcpStream};
use uthread::{io, scope, timeout};

const CONNECTIONS_MAX: usize = 10_000;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[uthread::main]
fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [listen, target] = &arguments[..] else {
        return Err(io::Error::other("usage: proxy LISTEN TARGET"));
    };
    let listener = TcpListener::bind(listen)?;
    println!("listening on {}", listener.local_addr()?);

    net::serve(&listener, CONNECTIONS_MAX, |client, peer| {
        match forward(&client, target) {
            Ok((up, down)) => println!("{peer}: {up} bytes up, {down} bytes down"),
            Err(error) => println!("{peer}: {error}"),
        }
    })
}

/// Returns the number of bytes in each direction, when both have ended.
fn forward(client: &TcpStream, target: &str) -> io::Result<(u64, u64)> {
    let server = timeout(CONNECT_TIMEOUT, || TcpStream::connect(target))??;
    scope(|scope| {
        let up = scope.spawn(|| copy(client, &server));
        let down = copy(&server, client)?;
        Ok((up.join().expect("copying does not panic")?, down))
    })
}

/// Copies until the end of one stream, and passes the end on: the other direction may last longer.
fn copy(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<u64> {
    let copied = io::copy(&mut from, &mut to);
    match copied {
        Ok(_) => to.shutdown(Shutdown::Write)?,
        // Ends the other direction, too.
        Err(_) => from.shutdown(Shutdown::Both)?,
    }
    copied
}
