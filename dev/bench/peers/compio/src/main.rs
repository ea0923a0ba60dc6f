//! The peer on compio, a thread per core and its io_uring. `dev/bench/peers/README.md` tells what each
//! command does.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, Sender};
use std::thread;

use compio::driver::ProactorBuilder;
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpSocket, TcpStream};
use compio::runtime::{RuntimeBuilder, spawn};

#[path = "../../compute.rs"]
mod compute;
#[path = "../../fatal.rs"]
mod fatal;

use compute::Compute;
use fatal::make_panics_fatal;

/// Size of a receive buffer: more than a message of 16 bytes, so that a short read says that there
/// is no more.
const BUFFER_BYTES: usize = 64;
/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;

fn main() {
    make_panics_fatal();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse().expect("a number");
    match arguments[0].as_str() {
        "echo" => {
            let port = arguments[1].parse().expect("a port");
            serve(port, number(2), Compute::calibrated(number(3)));
        }
        unknown => panic!("unknown command {unknown}"),
    }
}

fn serve(port: u16, workers: u64, compute: Compute) {
    let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    for _ in 0..workers {
        let (listens, listening) = mpsc::channel();
        thread::spawn(move || work(address, compute, &listens));
        // For port 0 the first finds a free one; the others share it.
        address = listening.recv().expect("the worker listens");
    }
    println!("{address}");
    io::copy(&mut io::stdin(), &mut io::sink()).expect("a pipe");
}

/// Runs one worker, with its own runtime and its own listener.
fn work(address: SocketAddr, compute: Compute, listens: &Sender<SocketAddr>) {
    let mut proactor = ProactorBuilder::new();
    // The flags that the documentation of compio recommends for a ring of one thread;
    // `coop_taskrun` instead of `defer_taskrun` takes more CPU time.
    proactor
        .single_issuer(true)
        .defer_taskrun(true)
        .taskrun_flag(true);
    let mut builder = RuntimeBuilder::new();
    let runtime = builder.with_proactor(proactor).build().expect("a ring");
    runtime.block_on(async {
        let listener = listen(address).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        listens
            .send(address)
            .expect("the main thread waits for the address");
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            spawn(echo(stream, compute)).detach();
        }
    });
}

async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4().await?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(address).await?;
    socket.listen(BACKLOG).await
}

async fn echo(mut stream: TcpStream, compute: Compute) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let (count, received) = stream.read(message).await.into();
        if count? == 0 {
            return Ok(());
        }
        compute.run();
        let (sent, emptied) = stream.write_all(received).await.into();
        sent?;
        message = emptied;
        message.clear();
    }
}
