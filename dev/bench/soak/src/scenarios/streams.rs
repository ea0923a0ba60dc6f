//! Streams of messages that come to an orderly end: what is sent is received.

use std::io::{self, Read, Seek, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt;
use uthread::fs::File;
use uthread::net::{TcpListener, TcpStream};
use uthread::{JoinHandle, sleep, yield_now};

use super::files::TemporaryFile;
use crate::messages::{Ledger, Receiver, Sender};
use crate::random::{Choices as _, Random};
use crate::stage::{Stage, expect, join_all, spawn};

const MESSAGES_MAX: u64 = 200;

/// A small buffer, so that a writer waits for its reader.
const NARROW_BYTES: usize = 8 * 1024;

/// Returns the two ends of a connection.
pub(super) fn connection(random: &mut Random) -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    if random.percent(50) {
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
    }
    if random.percent(30) {
        for end in [&client, &server] {
            sockopt::set_socket_send_buffer_size(end, NARROW_BYTES)?;
            sockopt::set_socket_recv_buffer_size(end, NARROW_BYTES)?;
        }
    }
    Ok((client, server))
}

/// Sends some messages with a pause now and then, and ends the stream.
fn send_all<W: Write>(
    mut sender: Sender<W>,
    mut random: Random,
    end: impl FnOnce(W) -> io::Result<()>,
) -> io::Result<()> {
    for _ in 0..random.u64(..MESSAGES_MAX) {
        sender.send(&mut random)?;
        pause_at_times(&mut random);
    }
    sender.finish(end)
}

fn pause_at_times(random: &mut Random) {
    match random.u64(..50) {
        0 => sleep(random.pause(2000)),
        1..5 => yield_now(),
        _ => {}
    }
}

fn end_writing(stream: TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)
}

fn receive_all<R: Read>(mut receiver: Receiver<R>, mut random: Random) -> io::Result<()> {
    while receiver.receive()? {
        pause_at_times(&mut random);
    }
    Ok(())
}

/// Starts a fiber for each end.
fn start<W: Write + Send + 'static, R: Read + Send + 'static>(
    stage: &Arc<Stage>,
    random: &mut Random,
    (sender, receiver): (Sender<W>, Receiver<R>),
    end: impl FnOnce(W) -> io::Result<()> + Send + 'static,
) -> [JoinHandle<io::Result<()>>; 2] {
    let (sending, receiving) = (random.fork(), random.fork());
    [
        spawn(stage, move |_| send_all(sender, sending, end)),
        spawn(stage, move |_| receive_all(receiver, receiving)),
    ]
}

pub(super) fn one_way(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let (client, server) = connection(random)?;
    let ends = Ledger::open(stage, client, server, false);
    join_all(start(stage, random, ends, end_writing))
}

/// Sets timeouts so short that many expire: the read that follows goes on where the last one left
/// off.
pub(super) fn with_timeouts(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let (client, server) = connection(random)?;
    for end in [&client, &server] {
        end.set_read_timeout(Some(random.pause(2000)))?;
        end.set_write_timeout(Some(random.pause(2000)))?;
    }
    let ends = Ledger::open(stage, client, server, false);
    join_all(start(stage, random, ends, end_writing))
}

pub(super) fn both_ways(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let (client, server) = connection(random)?;
    if random.percent(50) {
        client.set_read_timeout(Some(Duration::from_millis(1)))?;
    }
    let to = Ledger::open(stage, client.try_clone()?, server.try_clone()?, false);
    let fro = Ledger::open(stage, server, client, false);
    let to = start(stage, random, to, end_writing);
    let fro = start(stage, random, fro, end_writing);
    join_all(to.into_iter().chain(fro))
}

pub(super) fn pipe(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    let (reader, writer) = (OwnedFd::from(reader), OwnedFd::from(writer));
    let ends = Ledger::open(stage, File::from(writer), File::from(reader), false);
    let close = |writer| {
        drop(writer);
        Ok(())
    };
    join_all(start(stage, random, ends, close))
}

/// Writes the messages to a file first, and sends them from there to the socket without a copy.
pub(super) fn from_file(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let (client, server) = connection(random)?;
    let temporary = TemporaryFile::create(stage)?;
    let file = temporary.open()?;
    let (mut sender, receiver) = Ledger::open(stage, file, server, false);
    for _ in 0..random.u64(..MESSAGES_MAX) {
        sender.send(random)?;
    }
    let receiving = random.fork();
    let receiving = spawn(stage, move |_| receive_all(receiver, receiving));
    let sent = sender.finish(|mut file| {
        let length = file.stream_position()?;
        let sent = client.send_file(&file, 0, length)?;
        expect(sent == length, format_args!("{sent} of {length} bytes"))?;
        end_writing(client)
    });
    let received = join_all([receiving]);
    sent.and(received)
}
