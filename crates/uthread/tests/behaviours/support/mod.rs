//! Helpers of the behaviours and of their harness: peers, files, and ways to detect that a fiber or
//! thread waits.
//!
//! No test sleeps and hopes. On a runtime with one worker, a fiber that has announced its wait is
//! waiting when another fiber receives the announcement, as nothing else makes it leave the worker.
//! For a plain thread, the kernel reports whether it sleeps.

pub(crate) mod calls;
pub(crate) mod memory;
pub(crate) mod ready;
pub(crate) mod requests;
pub(crate) mod signals;
pub(crate) mod standard;
pub(crate) mod users;

use std::io::{self, Read, Write};
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::Pid;
use uthread::fs::{File, OpenOptions};
use uthread::net::{TcpListener, TcpStream};
use uthread::{JoinHandle, Runtime};

/// Time limit of a step, which only a hang exceeds, also on a loaded machine.
pub(crate) const HANG: Duration = Duration::from_secs(30);

/// Time that no test lasts, for waits and timeouts that end in another way.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Timeout that tests wait for, which hence is short.
pub(crate) const SHORT: Duration = Duration::from_millis(5);

/// Timeout of a socket that tests wait for: long enough to distinguish waiting from not waiting.
pub(crate) const SOCKET_TIMEOUT: Duration = Duration::from_millis(40);

/// The address of any free port of this machine.
pub(crate) const FREE: &str = "127.0.0.1:0";

/// Waits for what another thread does soon but tells nobody.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < HANG, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Starts a fiber, and returns it when it runs, with the thread that runs it.
pub(crate) fn spawn_begun<T: Send + 'static>(
    runtime: &Runtime,
    call: impl FnOnce() -> T + Send + 'static,
) -> (JoinHandle<T>, Pid) {
    let (sender, thread) = mpsc::channel();
    let fiber = runtime.spawn(move || {
        sender.send(rustix::thread::gettid()).unwrap();
        call()
    });
    (fiber, thread.recv().unwrap())
}

/// Gives the fibers of a runtime time to do what they should not.
pub(crate) fn let_others_run(runtime: &Runtime) {
    runtime.run(|| (0..100).for_each(|_| uthread::yield_now()));
}

/// Returns when the kernel has got what the fibers of this worker asked for before: it takes
/// submissions in their order.
pub(crate) fn pass_a_round() {
    uthread::fs::File::open("/dev/null").unwrap();
}

/// Returns two ends of a connection.
pub(crate) fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(FREE).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server)
}

/// Connects a stream of this crate with one of `std`.
pub(crate) fn pair_with_std() -> (TcpStream, net::TcpStream) {
    let listener = net::TcpListener::bind(FREE).unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    (ours, peer)
}

/// Starts a peer on a plain thread.
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
pub(crate) fn wait_until_asleep(thread: Pid) {
    let path = format!("/proc/self/task/{}/status", thread.as_raw_nonzero());
    // For longer than for a lock of the allocator: it neither ran nor was about to between two
    // looks.
    let look = || {
        let status = fs::read_to_string(&path).ok()?;
        let of_interest = |line: &&str| line.starts_with("State:") || line.contains("_ctxt_");
        Some(status.lines().filter(of_interest).collect::<String>())
    };
    let mut before = look();
    loop {
        thread::sleep(Duration::from_millis(1));
        let now = look();
        if now == before && now.as_ref().is_none_or(|now| now.contains("(sleeping)")) {
            return;
        }
        before = now;
    }
}

/// Returns a socket that has an address and does not listen: connecting to it is refused, and
/// nobody else can take its port. A listener of the test may be bound to the same address, which
/// remains the test's when that listener has ended.
pub(crate) fn refusing_socket() -> (OwnedFd, SocketAddr) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &FREE.parse::<SocketAddr>().unwrap()).unwrap();
    let address = rustix::net::getsockname(&socket).unwrap();
    (socket, SocketAddr::try_from(address).unwrap())
}

/// A listener whose queue is full: a connect waits until the kernel asks again, which takes a
/// second.
pub(crate) struct FullListener {
    pub(crate) listener: net::TcpListener,
    pub(crate) address: SocketAddr,
    _queued: net::TcpStream,
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
            _queued: queued,
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

/// Creates a file without a name that holds these bytes.
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

/// Returns bytes of which no part looks like another.
pub(crate) fn pattern(length: usize, seed: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fastrand::Rng::with_seed(seed as u64).fill(&mut bytes);
    bytes
}

/// Lets this process have so many descriptors open.
pub(crate) fn limit_descriptors(count: u64) {
    let limit = Rlimit {
        current: Some(count),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
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

/// Returns the number of the error.
#[track_caller]
pub(crate) fn errno<T>(result: io::Result<T>) -> Errno {
    let error = result.err().expect("an error");
    Errno::from_io_error(&error).unwrap_or_else(|| panic!("no error of the kernel: {error}"))
}

/// Returns the kind of the error.
#[track_caller]
pub(crate) fn kind<T>(result: io::Result<T>) -> io::ErrorKind {
    result.err().expect("an error").kind()
}

/// Returns the number of open descriptors, without those of rings and epoll instances: a spare
/// worker may start at any time.
pub(crate) fn open_descriptors() -> usize {
    let is_counted = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = entry.and_then(|entry| std::fs::read_link(entry.path()));
        target.is_ok_and(|target| !target.to_string_lossy().starts_with("anon_inode:"))
    };
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries.map(is_counted).filter(|counted| *counted).count()
}
