//! Network faults: resets, refusals, timeouts. Each is the expected error, and the data that
//! arrives before it is correct.

use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};
use uthread::net::{TcpListener, TcpStream};
use uthread::{JoinHandle, sleep};

use super::streams::connection;
use crate::messages::{Ledger, Receiver, Sender};
use crate::random::{Choices as _, Random};
use crate::stage::{Stage, broken, expect, is_reset, join, join_all, spawn};

const MESSAGES_MAX: u64 = 100;

/// Time after which a reset that the kernel does not report has not arrived.
const RESET_PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

/// Makes the next close a reset.
fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(stream, Some(Duration::ZERO))?)
}

/// Counts a reset; other errors stay errors.
fn forgive_reset(stage: &Stage, error: io::Error) -> io::Result<()> {
    if !is_reset(&error) {
        return Err(error);
    }
    stage.tally.resets.add(1);
    Ok(())
}

fn send_some(sender: &mut Sender<TcpStream>, random: &mut Random) -> io::Result<()> {
    (0..random.u64(..MESSAGES_MAX)).try_for_each(|_| sender.send(random))
}

/// Receives until the end, which may be a reset.
fn receive_until_reset(stage: &Stage, mut receiver: Receiver<TcpStream>) -> io::Result<()> {
    receiver
        .receive_all()
        .or_else(|error| forgive_reset(stage, error))
}

/// Ends a stream whose sender has reset it, if the kernel has lost the reset: a receiver without
/// room drops data, closes its window, and then also drops the reset behind that data. Its socket
/// stays connected to nobody.
fn end_without_reset(
    stage: &Stage,
    server: &TcpStream,
    receiving: &JoinHandle<io::Result<()>>,
) -> io::Result<()> {
    let begin = Instant::now();
    while !receiving.is_finished() {
        sleep(PAUSE);
        if begin.elapsed() < RESET_PATIENCE {
            continue;
        }
        let mut events = [PollFd::new(server, PollFlags::IN)];
        if poll(&mut events, Some(&Timespec::default()))? == 0 {
            stage.tally.resets_lost.add(1);
            let ended = server.shutdown(Shutdown::Both);
            return ended.or_else(|error| forgive_reset(stage, error));
        }
    }
    Ok(())
}

pub(super) fn sender_resets(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let (client, server) = connection(random)?;
    let observed = server.try_clone()?;
    let (mut sender, receiver) = Ledger::open(stage, client, server, true);
    let mut theirs = random.fork();
    let sending = spawn(stage, move |_| {
        send_some(&mut sender, &mut theirs)?;
        reset_on_close(&sender.into_sink())
    });
    let receiving = spawn(stage, move |stage| receive_until_reset(stage, receiver));
    let sent = join(sending);
    let ended = end_without_reset(stage, &observed, &receiving);
    let received = join(receiving);
    sent?.and(ended).and(received?)
}

/// Resets by `SO_LINGER`, or by closing with unread bytes.
pub(super) fn receiver_resets(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let (client, server) = connection(random)?;
    let (mut sender, mut receiver) = Ledger::open(stage, client, server, true);
    let mut theirs = random.fork();
    let sending = spawn(stage, move |stage| {
        send_some(&mut sender, &mut theirs).or_else(|error| forgive_reset(stage, error))
    });
    let (limit, lingers) = (random.u64(..MESSAGES_MAX), random.percent(50));
    let receiving = spawn(stage, move |_| {
        let mut received = 0;
        while received < limit && receiver.receive()? {
            received += 1;
        }
        if lingers {
            reset_on_close(&receiver.into_source())
        } else {
            Ok(())
        }
    });
    join_all([sending, receiving])
}

/// Returns a socket with an address that does not listen, and whose port no other process can take.
fn silent_socket() -> io::Result<(OwnedFd, std::net::SocketAddr)> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    let any: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
    rustix::net::bind(&socket, &any)?;
    let address = rustix::net::getsockname(&socket)?.try_into()?;
    Ok((socket, address))
}

pub(super) fn refused(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let (_socket, address) = silent_socket()?;
    let connected = if random.percent(50) {
        TcpStream::connect(address)
    } else {
        TcpStream::connect_timeout(&address, Duration::from_secs(60))
    };
    match connected {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            stage.tally.refused.add(1);
            Ok(())
        }
        Err(error) => Err(error),
        Ok(_) => Err(broken("connected to nobody")),
    }
}

/// Checks that the call times out, and not too early.
fn expires<T>(
    stage: &Stage,
    timeout: Duration,
    kind: ErrorKind,
    call: impl FnOnce() -> io::Result<T>,
) -> io::Result<()> {
    let begin = Instant::now();
    let result = call();
    let elapsed = begin.elapsed();
    match result {
        Err(error) if error.kind() == kind => {
            stage.tally.timeouts.add(1);
            expect(
                elapsed >= timeout,
                format_args!("{elapsed:?} of {timeout:?}"),
            )
        }
        Err(error) => Err(error),
        Ok(_) => Err(broken("nobody had sent that")),
    }
}

pub(super) fn reads_expire(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let handles: Vec<_> = (0..1 + random.u64(..20))
        .map(|_| {
            let mut random = random.fork();
            spawn(stage, move |stage| {
                let (mut client, _server) = connection(&mut random)?;
                let timeout = random.pause(5000);
                client.set_read_timeout(Some(timeout))?;
                let mut untouched = [7; 64];
                expires(stage, timeout, ErrorKind::WouldBlock, || {
                    client.read(&mut untouched)
                })?;
                expect(untouched == [7; 64], "a read that expired has read")
            })
        })
        .collect();
    join_all(handles)
}

/// Connects to a listener whose queue is full, until the timeout expires.
pub(super) fn connect_expires(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let (socket, address) = silent_socket()?;
    rustix::net::listen(&socket, 0)?;
    let _queued = TcpStream::connect(address)?;
    rustix::event::poll(&mut [PollFd::new(&socket.as_fd(), PollFlags::IN)], None)?;
    let timeout = random.pause(5000);
    expires(stage, timeout, ErrorKind::TimedOut, || {
        TcpStream::connect_timeout(&address, timeout)
    })
}

pub(super) fn accept_ends(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let theirs = listener.try_clone()?;
    let accepting = spawn(stage, move |_| theirs.accept().map(drop));
    uthread::sleep(random.pause(500));
    rustix::net::shutdown(&listener, rustix::net::Shutdown::Both)?;
    match join(accepting)? {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Err(broken("nobody had connected")),
    }
}
