//! Urgent echoes beside bulk transfers, all over the loopback interface.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Ipv4Addr;

use uthread::net::{TcpListener, TcpStream};
use uthread::try_scope;

use super::Stage;
use crate::load::{Load, Rivals};
use crate::tally::Tally;

/// Size of a message, which begins with its number.
const MESSAGE_BYTES: usize = 64;
/// Size of a write of a bulk transfer.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024;
/// Numbers of messages are below this.
const NUMBERS: u64 = 1 << 32;

/// Sends messages to an echo server, one at a time, while each rival sends chunks to a fiber that
/// reads them.
pub(super) fn perform(load: &Load, rivals: Rivals) -> io::Result<Tally> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let stage = Stage::new(load, rivals, NUMBERS);
    try_scope(|scope| {
        let stage = &stage;
        for _ in 0..stage.count {
            let (from, to) = connection(&listener)?;
            stage.as_rival(|| {
                scope.spawn(move || send(&from, stage));
                scope.spawn(move || receive(&to));
            });
        }
        let (client, server) = connection(&listener)?;
        stage.as_urgent(|| {
            scope.spawn(move || answer(&server));
            ask(&client, stage)
        })
    })?;
    Ok(stage.into_tally())
}

/// Returns both ends of a new connection.
fn connection(listener: &TcpListener) -> io::Result<(TcpStream, TcpStream)> {
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    for end in [&near, &far] {
        end.set_nodelay(true)?;
    }
    Ok((near, far))
}

fn ask(mut server: &TcpStream, stage: &Stage) -> io::Result<()> {
    stage.urgent(|number| {
        let mut message = [0; MESSAGE_BYTES];
        message[..size_of::<u64>()].copy_from_slice(&number.to_le_bytes());
        server.write_all(&message)?;
        let mut echo = [0; MESSAGE_BYTES];
        server.read_exact(&mut echo)?;
        if echo == message {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "message {number} came back as {echo:?}"
            )))
        }
    })
}

fn answer(mut client: &TcpStream) -> io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    loop {
        match client.read_exact(&mut message) {
            Ok(()) => client.write_all(&message)?,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn send(mut to: &TcpStream, stage: &Stage) -> io::Result<()> {
    let chunk = vec![0; CHUNK_BYTES];
    stage.rival(|| to.write_all(&chunk))
}

/// Reads until the sender has ended.
fn receive(mut from: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK_BYTES];
    while from.read(&mut buffer)? > 0 {}
    Ok(())
}
