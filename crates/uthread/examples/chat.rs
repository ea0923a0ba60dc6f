//! A chat room: what one client writes, all of them read.
//!
//! ```sh
//! cargo run -p uthread --example chat 127.0.0.1:7000
//! nc 127.0.0.1 7000
//! ```

use std::env;

use uthread::io::{self, BufRead, BufReader, Write};
use uthread::net::{self, TcpListener, TcpStream};
use uthread::scope;
use uthread::sync::broadcast::{self, Receiver, RecvError, Sender};

const CLIENTS_MAX: usize = 10_000;

/// Number of lines that a client may be behind the others.
const BACKLOG: usize = 256;

#[uthread::main]
fn main() -> io::Result<()> {
    let address = env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:7000"))?;
    println!("listening on {}", listener.local_addr()?);

    let (room, _) = broadcast::channel(BACKLOG);
    net::serve(&listener, CLIENTS_MAX, |stream, peer| {
        if let Err(error) = serve(&stream, &room) {
            println!("{peer}: {error}");
        }
    })
}

fn serve(stream: &TcpStream, room: &Sender<String>) -> io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    writeln!(&*stream, "Your name?")?;
    let Some(name) = lines.next().transpose()? else {
        return Ok(());
    };
    let messages = room.subscribe();
    scope(|scope| {
        // Two fibers for each client: this one reads, the other one writes.
        let writer = scope.spawn(|| write(stream, messages));
        let result = read(&name, lines, room);
        writer.cancel();
        result
    })
}

fn read(
    name: &str,
    lines: impl Iterator<Item = io::Result<String>>,
    room: &Sender<String>,
) -> io::Result<()> {
    // Nobody may be there to read it: that is no error.
    let _ = room.send(format!("{name} has joined"));
    for line in lines {
        let _ = room.send(format!("{name}: {}", line?));
    }
    let _ = room.send(format!("{name} has left"));
    Ok(())
}

fn write(mut stream: &TcpStream, mut messages: Receiver<String>) -> io::Result<()> {
    loop {
        match messages.recv() {
            Ok(line) => writeln!(stream, "{line}")?,
            Err(RecvError::Lagged(missed)) => writeln!(stream, "({missed} lines missed)")?,
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}
