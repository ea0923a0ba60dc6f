//! The floor: an echo by epoll and nothing else, no runtime, no buffering, no task. What any server
//! on epoll has to do for a message is done here and no more, so that what the others cost beyond
//! it is theirs.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::thread;

use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, listen, recv,
    send, socket_with, sockopt,
};

#[path = "../../compute.rs"]
mod compute;
#[path = "../../fatal.rs"]
mod fatal;

use compute::Compute;
use fatal::make_panics_fatal;

const MESSAGE_BYTES: usize = 16;
/// Size of the receive buffer: more than a message, so that a short read says that there is no
/// more.
const BUFFER_BYTES: usize = 64;
/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// Maximum number of events per call: enough that the cost of the call is negligible, and few
/// enough for the first-level cache.
const EVENTS: usize = 1024;
/// Edges: for a level, the next call would have to find out that each connection has been emptied.
const MESSAGES: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);
/// The event data of the listener: no descriptor has this number.
const LISTENER: u64 = u64::MAX;

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

/// Serves in one loop per worker, each with its own listener.
fn serve(port: u16, workers: u64, compute: Compute) {
    let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    for _ in 0..workers {
        let listener = listen_on(address).expect("a free port");
        // For port 0 the first finds a free one; the others share it.
        let bound = rustix::net::getsockname(&listener).expect("a bound address");
        address = bound.try_into().expect("an address of the internet");
        thread::spawn(move || Worker::new(listener, compute).run());
    }
    println!("{address}");
    io::copy(&mut io::stdin(), &mut io::sink()).expect("a pipe");
}

fn listen_on(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let listener = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&listener, true)?;
    sockopt::set_socket_reuseport(&listener, true)?;
    bind(&listener, &address)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

struct Worker {
    epoll: OwnedFd,
    listener: OwnedFd,
    compute: Compute,
}

impl Worker {
    fn new(listener: OwnedFd, compute: Compute) -> Worker {
        let worker = Worker {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance"),
            listener,
            compute,
        };
        worker.watch(&worker.listener, LISTENER, EventFlags::IN);
        worker
    }

    fn watch(&self, fd: impl AsFd, data: u64, flags: EventFlags) {
        let data = epoll::EventData::new_u64(data);
        epoll::add(&self.epoll, fd, data, flags).expect("memory for it");
    }

    fn run(&self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                None,
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => panic!("epoll_wait: {errno}"),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    fd => self.echo(fd as RawFd, event.flags),
                }
            }
        }
    }

    /// Accepts all connections that have come.
    fn accept(&self) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            match accept_with(&self.listener, flags) {
                Ok(stream) => {
                    sockopt::set_tcp_nodelay(&stream, true).expect("a socket of TCP");
                    self.watch(&stream, stream.as_raw_fd() as u64, MESSAGES);
                    // From now on it belongs to the epoll instance: `echo` gets the number from
                    // there and closes it.
                    let _ = stream.into_raw_fd();
                }
                Err(Errno::AGAIN) => return,
                Err(errno) => panic!("accept: {errno}"),
            }
        }
    }

    /// Answers all messages that have come: a short read says that there is no more, but not
    /// whether the other side has ended.
    fn echo(&self, fd: RawFd, flags: EventFlags) {
        // SAFETY: the instance names only descriptors that `accept` gave it, and only this function
        // closes them, after which the kernel names them no more; no connection is twice among the
        // events of one call.
        let stream = unsafe { BorrowedFd::borrow_raw(fd) };
        let has_ended = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let mut messages = [0; BUFFER_BYTES];
        loop {
            match recv(stream, &mut messages, RecvFlags::empty()) {
                Ok((0, _)) => return close(fd),
                Ok((count, _)) => {
                    if self.answer(stream, &messages[..count]).is_err() {
                        return close(fd);
                    }
                    if count < messages.len() && !has_ended {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => return close(fd),
            }
        }
    }

    /// Computes for each message, then sends them all back. A client that does not read its
    /// responses delays the others of this worker; no load here does that.
    fn answer(&self, stream: BorrowedFd<'_>, mut messages: &[u8]) -> rustix::io::Result<()> {
        for _ in messages.chunks(MESSAGE_BYTES) {
            self.compute.run();
        }
        while !messages.is_empty() {
            match send(stream, messages, SendFlags::NOSIGNAL) {
                Ok(count) => messages = &messages[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    poll(&mut [PollFd::new(&stream, PollFlags::OUT)], None)?;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

fn close(fd: RawFd) {
    // SAFETY: the descriptor is open, `accept` gave up its owner, and it is not used after this.
    unsafe { rustix::io::close(fd) }
}
