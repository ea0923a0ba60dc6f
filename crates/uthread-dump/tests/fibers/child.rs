//! What the child of the test does: its fibers wait in many ways.

use std::io::Read as _;
use std::net::SocketAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::stat::Mode;
use uthread::fs::{File, OpenOptions};
use uthread::net::{TcpListener, TcpStream, UdpSocket};
use uthread::os::unix::net::UnixListener;
use uthread::sync::{Barrier, Condvar, Mutex, RwLock, Semaphore, mpsc, oneshot, watch};

/// Number of fibers that wait in each way, unless the environment names another one.
pub(crate) const EACH: usize = 3;

/// The variable of the environment with that number.
pub(crate) const EACH_IN_ENVIRONMENT: &str = "UTHREAD_DUMP_EACH";

/// Maximum number of fibers in each way that needs descriptors.
pub(crate) const EACH_WITH_FILES_MAX: usize = 500;

fn each() -> usize {
    let number = std::env::var(EACH_IN_ENVIRONMENT).ok();
    number.map_or(EACH, |number| number.parse().unwrap())
}

/// Number of fibers that run all the time.
pub(crate) const BUSY: u64 = 200;

/// Runs fibers that are suspended again and again, in two functions by turns.
pub(crate) fn turn_all_the_time() {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    for index in 0..BUSY {
        let builder = uthread::thread::Builder::new().name("busy".to_owned());
        let turn = move || {
            STARTED.fetch_add(1, Ordering::SeqCst);
            loop {
                turn_left(index % 7);
                turn_right(index % 5);
            }
        };
        drop(builder.spawn(turn).unwrap());
    }
    // A fiber that has not started has no frames to show.
    while STARTED.load(Ordering::SeqCst) < BUSY {
        uthread::sleep(Duration::from_millis(1));
    }
    println!("all are spawned");
    uthread::thread::park();
}

#[inline(never)]
fn turn_left(depth: u64) -> u64 {
    match std::hint::black_box(depth) {
        0 => uthread::sleep(Duration::from_millis(2)),
        _ => {
            turn_left(depth - 1);
        }
    }
    std::hint::black_box(depth)
}

#[inline(never)]
fn turn_right(depth: u64) -> u64 {
    match std::hint::black_box(depth) {
        0 => uthread::sleep(Duration::from_millis(1)),
        _ => {
            turn_right(depth - 1);
        }
    }
    std::hint::black_box(depth)
}

/// Returns both ends of a FIFO, which has no name any more.
fn fifo() -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let mut options = OpenOptions::new();
    options.read(true).write(true).open(path).unwrap()
}

/// Ends the process by a fiber that has been suspended before.
pub(crate) fn overflow() {
    let builder = uthread::thread::Builder::new().name("overflows".to_owned());
    let overflows = builder.spawn(|| {
        uthread::sleep(Duration::from_millis(1));
        descend(0)
    });
    let _ = overflows.unwrap().join();
}

#[inline(never)]
fn descend(depth: u64) -> u64 {
    let place = std::hint::black_box([depth; 16]);
    match depth {
        u64::MAX => 0,
        _ => descend(depth + 1) + place[0],
    }
}

/// Spawns fibers of this name, which run until the process ends.
#[track_caller]
fn spawn_all(name: &str, body: impl Fn() + Send + Sync + Clone + 'static) {
    spawn(each(), name, body);
}

/// Spawns fewer such fibers, each of which needs descriptors.
#[track_caller]
fn spawn_some(name: &str, body: impl Fn() + Send + Sync + Clone + 'static) {
    spawn(each().min(EACH_WITH_FILES_MAX), name, body);
}

#[track_caller]
fn spawn(count: usize, name: &str, body: impl Fn() + Send + Sync + Clone + 'static) {
    for _ in 0..count {
        let builder = uthread::thread::Builder::new().name(name.to_owned());
        drop(builder.spawn(body.clone()).unwrap());
    }
}

#[inline(never)]
fn compute(begun: &AtomicBool) {
    begun.store(true, Ordering::SeqCst);
    loop {
        std::hint::spin_loop();
    }
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

pub(crate) fn wait_in_many_ways(computes: bool) {
    wait_in_locks();
    wait_in_channels();
    wait_for_fibers();
    wait_for_the_kernel();
    if computes {
        static BEGUN: AtomicBool = AtomicBool::new(false);
        let builder = uthread::thread::Builder::new().name("computes".to_owned());
        drop(builder.spawn(|| compute(&BEGUN)).unwrap());
        while !BEGUN.load(Ordering::SeqCst) {
            uthread::yield_now();
        }
    }
    println!("all are spawned");
    uthread::thread::park();
}

fn wait_in_locks() {
    let mutex = leak(Mutex::new(()));
    let lock = leak(RwLock::new(()));
    std::mem::forget((mutex.lock(), lock.write()));
    spawn_all("mutex", || drop(mutex.lock()));
    spawn_all("read-lock", || drop(lock.read()));
    let (free, condvar) = (leak(Mutex::new(())), leak(Condvar::new()));
    spawn_all("condvar", || drop(condvar.wait(free.lock().unwrap())));
    let barrier = leak(Barrier::new(each() + 1));
    spawn_all("barrier", || {
        barrier.wait();
    });
    let semaphore = leak(Semaphore::new(0));
    spawn_all("semaphore", || drop(semaphore.acquire()));
}

fn wait_in_channels() {
    spawn_all("receiver", || {
        let (sender, receiver) = mpsc::channel::<()>();
        let _sender = leak(sender);
        let _ = receiver.recv();
    });
    spawn_all("sender", || {
        let (sender, receiver) = mpsc::sync_channel::<()>(1);
        let _receiver = leak(receiver);
        sender.send(()).unwrap();
        let _ = sender.send(());
    });
    spawn_all("oneshot", || {
        let (sender, receiver) = oneshot::channel::<()>();
        let _sender = leak(sender);
        let _ = receiver.recv();
    });
    spawn_all("watch", || {
        let (sender, mut receiver) = watch::channel(0);
        let _sender = leak(sender);
        let _ = receiver.changed();
    });
    spawn_all("select", || {
        let (sender, receiver) = mpsc::channel::<()>();
        let _sender = leak(sender);
        uthread::select! {
            recv(&receiver) => {},
            after(Duration::from_secs(3600)) => {},
        }
    });
}

#[inline(never)]
fn wait_on_a_thread() {
    uthread::thread::park();
}

fn wait_for_fibers() {
    spawn_all("join", || {
        drop(uthread::spawn(uthread::thread::park).join())
    });
    for _ in 0..EACH {
        let builder = uthread::thread::Builder::new().name("dedicated".to_owned());
        drop(builder.dedicated().spawn(wait_on_a_thread).unwrap());
    }
    spawn_all("park", || {
        loop {
            uthread::thread::park();
        }
    });
    spawn_all("sleep", || uthread::sleep(Duration::from_secs(3600)));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = leak(TcpListener::bind(any).unwrap());
    let address = listener.local_addr().unwrap();
    // It has waited for an operation before.
    spawn_some("connected", move || {
        let _stream = TcpStream::connect(address).unwrap();
        uthread::sleep(Duration::from_secs(3600));
    });
    spawn_all("scope", || {
        uthread::scope(|scope| {
            let builder = uthread::thread::Builder::new().name("in-scope".to_owned());
            builder.spawn_scoped(scope, uthread::thread::park).unwrap();
        });
    });
}

fn wait_for_the_kernel() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = leak(TcpListener::bind(any).unwrap());
    let address = listener.local_addr().unwrap();
    spawn_some("accept", move || {
        drop(leak(TcpListener::bind(any).unwrap()).accept())
    });
    spawn_some("read", move || {
        let mut stream = TcpStream::connect(address).unwrap();
        let _ = stream.read(&mut [0]);
    });
    spawn_some("datagram", move || {
        drop(UdpSocket::bind(any).unwrap().recv_from(&mut [0]))
    });
    let name = format!("uthread-dump-{}", std::process::id());
    let name = unix::net::SocketAddr::from_abstract_name(name).unwrap();
    let unix_listener = leak(UnixListener::bind_addr(&name).unwrap());
    spawn_some("unix", || drop(unix_listener.accept()));
    spawn_some("pipe", || {
        let (mut reader, writer) = uthread::io::pipe().unwrap();
        let _writer = leak(writer);
        let _ = reader.read(&mut [0]);
    });
    spawn_some("fifo", || {
        let _ = fifo().read(&mut [0]);
    });
}
