//! The echo server: a task per connection.

use std::io;
use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::spawn;

use crate::compute::Compute;

/// Size of a receive buffer: more than a message of 16 bytes, so that a short read says that there
/// is no more.
const BUFFER_BYTES: usize = 64;

pub(crate) fn serve(port: u16, workers: usize, compute: Compute) {
    serve_by(port, workers, move |listener| accept(listener, compute));
}

/// Prints the address, and serves until standard input ends.
pub(crate) fn serve_by<S>(port: u16, workers: usize, server: impl FnOnce(TcpListener) -> S)
where
    S: Future<Output = ()> + Send + 'static,
{
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .expect("a runtime");
    let bound = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, port)));
    let listener = bound.expect("a free port");
    println!("{}", listener.local_addr().expect("a bound address"));
    runtime.spawn(server(listener));
    io::copy(&mut io::stdin(), &mut io::sink()).expect("a pipe");
    runtime.shutdown_background();
}

async fn accept(listener: TcpListener, compute: Compute) {
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        spawn(echo(stream, compute));
    }
}

async fn echo(mut stream: TcpStream, compute: Compute) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = [0; BUFFER_BYTES];
    loop {
        let count = stream.read(&mut message).await?;
        if count == 0 {
            return Ok(());
        }
        compute.run();
        stream.write_all(&message[..count]).await?;
    }
}
