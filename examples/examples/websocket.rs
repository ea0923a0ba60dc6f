//! A WebSocket echo with tungstenite: a server, and clients that talk to it at the same time.

use anyhow::{Result, ensure};
use tungstenite::{Error, Message};
use uthread::net::{TcpListener, TcpStream};

const CLIENTS: usize = 50;
const MESSAGES: usize = 20;

fn main() -> Result<()> {
    uthread::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        uthread::spawn(move || {
            for stream in listener.incoming().flatten() {
                uthread::spawn(|| echo(stream).expect("a connection in order"));
            }
        });
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| uthread::spawn(move || talk(number, TcpStream::connect(address)?)))
            .collect();
        let mut echoes = 0;
        for client in clients {
            echoes += client.join().expect("no panic")?;
        }
        println!("{CLIENTS} clients, {echoes} echoes");
        ensure!(echoes == CLIENTS * MESSAGES);
        Ok(())
    })
}

/// Sends back each message, until the client closes.
fn echo(stream: TcpStream) -> Result<()> {
    let mut socket = tungstenite::accept(stream)?;
    loop {
        match socket.read() {
            Ok(message @ (Message::Text(_) | Message::Binary(_))) => socket.send(message)?,
            Ok(_) => {} // tungstenite itself answers control messages
            Err(Error::ConnectionClosed) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Sends messages of growing length and returns how many came back.
fn talk(number: usize, stream: TcpStream) -> Result<usize> {
    let (mut socket, _) = tungstenite::client("ws://localhost/", stream)?;
    for length in 0..MESSAGES {
        let message = Message::text(format!("{number}: {}", "long ".repeat(length * 100)));
        socket.send(message.clone())?;
        ensure!(socket.read()? == message);
    }
    socket.close(None)?;
    loop {
        match socket.read() {
            Ok(Message::Close(_)) => {}
            Err(Error::ConnectionClosed) => return Ok(MESSAGES),
            other => ensure!(false, "instead of the end: {other:?}"),
        }
    }
}
