//! What the tests of the network share: places to run in, peers, and processes of their own.
//!
//! Nothing sleeps and hopes. On a runtime with one worker a fiber that said "I am about to wait" waits
//! by the time another fiber hears it, because nothing else makes it give the worker up; of a plain
//! thread the kernel tells whether it sleeps.
#![allow(dead_code, reason = "each test program uses its part")]

#[path = "../common/child.rs"]
mod child;
pub(crate) mod signals;

use std::io::{self, Read, Write};
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{env, fs, thread};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use uthread::Runtime;
use uthread::fs::{File, OpenOptions};
use uthread::net::{TcpListener, TcpStream};

use child::passes_in_child;

/// Far beyond what any step takes on a loaded machine: it only turns a hang into a failure.
pub(crate) const HANG: Duration = Duration::from_secs(30);

/// Any free port of this machine.
pub(crate) const FREE: &str = "127.0.0.1:0";

/// Runs a behaviour on a plain thread, and in a fiber with one worker and with two.
pub(crate) fn everywhere(behaviour: fn()) {
    within_deadline(behaviour);
    for workers in [1, 2] {
        within_deadline(move || runtime(workers).run(behaviour));
    }
}

/// Runs a behaviour in a fiber of a runtime with a single worker.
pub(crate) fn on_one_worker<T: Send + 'static>(
    behaviour: impl FnOnce() -> T + Send + 'static,
) -> T {
    within_deadline(move || runtime(1).run(behaviour))
}

pub(crate) fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// Runs on a thread of its own, which is given up when it hangs.
pub(crate) fn within_deadline<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(panic::catch_unwind(AssertUnwindSafe(body))));
    match receiver.recv_timeout(HANG).expect("it hangs") {
        Ok(value) => value,
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Runs the body in a process that runs no other test: for what belongs to the whole process, as
/// the table of descriptors or the action of a signal. `test` is the calling test's name.
pub(crate) fn alone(test: &str, body: fn()) {
    if !passes_in_child(test) {
        within_deadline(body);
    }
}

/// Where a call waits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum World {
    Fiber,
    Thread,
}

/// Runs a behaviour in a fiber with one worker, and on a plain thread.
pub(crate) fn in_both_worlds(behaviour: fn(World)) {
    on_one_worker(move || behaviour(World::Fiber));
    within_deadline(move || behaviour(World::Thread));
}

impl World {
    /// What `call` returns that waits in the kernel when `event` happens.
    pub(crate) fn meanwhile<T: Send>(
        self,
        call: impl FnOnce() -> T + Send,
        event: impl FnOnce(),
    ) -> T {
        match self {
            World::Fiber => uthread::scope(|scope| {
                let waits = Flag::default();
                let raised = waits.clone();
                let caller = scope.spawn(move || {
                    raised.raise();
                    call()
                });
                waits.wait();
                pass_a_round();
                assert!(!caller.is_finished(), "it does not wait");
                event();
                caller.join().unwrap()
            }),
            World::Thread => thread::scope(|scope| {
                let (sender, receiver) = mpsc::channel();
                let caller = scope.spawn(move || {
                    sender.send(rustix::thread::gettid()).unwrap();
                    call()
                });
                wait_until_asleep(receiver.recv().unwrap());
                assert!(!caller.is_finished(), "it does not wait");
                event();
                caller.join().unwrap()
            }),
        }
    }
}

/// Returns when the kernel has got what the fibers of this worker asked for before: it takes
/// submissions in their order.
pub(crate) fn pass_a_round() {
    uthread::fs::File::open("/dev/null").unwrap();
}

/// Two ends of a connection.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(FREE).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server)
}

/// The same, with a peer of `std`.
pub(crate) fn pair_with_std() -> (TcpStream, net::TcpStream) {
    let listener = net::TcpListener::bind(FREE).unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    (ours, peer)
}

/// A peer on a plain thread.
pub(crate) fn peer<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    thread::spawn(body)
}

/// Joins a thread without blocking the worker.
pub(crate) fn join<T: Send>(thread: thread::JoinHandle<T>) -> T {
    uthread::blocking(|| thread.join()).unwrap()
}

/// Fibers of one worker tell each other that they are about to wait.
#[derive(Clone, Default)]
pub(crate) struct Flag(Arc<AtomicBool>);

impl Flag {
    pub(crate) fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Lets the other fibers run until it is raised.
    pub(crate) fn wait(&self) {
        while !self.is_raised() {
            uthread::yield_now();
        }
    }
}

/// Waits until a thread of this process sleeps in the kernel, or has ended.
pub(crate) fn wait_until_asleep(thread: rustix::thread::Pid) {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    loop {
        match fs::read_to_string(&path) {
            Ok(stat) if !stat.rsplit(") ").next().unwrap().starts_with('S') => thread::yield_now(),
            _ => return,
        }
    }
}

/// A socket that has an address and does not listen: connecting to it is refused, and nobody else
/// can take its port.
pub(crate) fn refusing_socket() -> (OwnedFd, SocketAddr) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &FREE.parse::<SocketAddr>().unwrap()).unwrap();
    let address = rustix::net::getsockname(&socket).unwrap();
    (socket, SocketAddr::try_from(address).unwrap())
}

/// A listener whose queue is full: who connects to it now waits until the kernel asks again, which
/// takes a second.
pub(crate) struct FullListener {
    pub(crate) listener: net::TcpListener,
    pub(crate) address: SocketAddr,
    queued: net::TcpStream,
}

impl FullListener {
    pub(crate) fn new() -> FullListener {
        let (socket, address) = refusing_socket();
        rustix::net::listen(&socket, 0).unwrap();
        let queued = net::TcpStream::connect(address).unwrap();
        rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::IN)], None).unwrap();
        FullListener {
            listener: socket.into(),
            address,
            queued,
        }
    }
}

/// Ends a connection by a reset.
pub(crate) fn reset(stream: impl AsFd) {
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
}

/// Makes the buffers between two ends small, so that a writer soon waits for its reader.
pub(crate) fn narrow(writer: impl AsFd, reader: impl AsFd) {
    rustix::net::sockopt::set_socket_send_buffer_size(writer, 16 * 1024).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(reader, 16 * 1024).unwrap();
}

/// A file without a name that holds these bytes.
pub(crate) fn file_of(bytes: &[u8]) -> File {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::TMPFILE.bits().cast_signed())
        .open(env::temp_dir())
        .unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Bytes of which no part looks like another.
pub(crate) fn pattern(length: usize, seed: usize) -> Vec<u8> {
    let mut state = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Reads to the end.
pub(crate) fn drain(mut stream: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Compares without printing megabytes.
#[track_caller]
pub(crate) fn assert_same(left: &[u8], right: &[u8]) {
    assert_eq!(left.len(), right.len(), "lengths differ");
    let place = left
        .iter()
        .zip(right)
        .position(|(left, right)| left != right);
    assert_eq!(place, None, "bytes differ");
}

/// The number of the error.
#[track_caller]
pub(crate) fn errno<T>(result: io::Result<T>) -> Errno {
    let error = result.err().expect("an error");
    Errno::from_io_error(&error).unwrap_or_else(|| panic!("no error of the kernel: {error}"))
}

/// The kind of the error.
#[track_caller]
pub(crate) fn kind<T>(result: io::Result<T>) -> io::ErrorKind {
    result.err().expect("an error").kind()
}
