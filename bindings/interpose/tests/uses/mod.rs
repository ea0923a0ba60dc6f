//! Uses of `std` in which many fibers wait at once, and how many threads that takes.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};
use std::{fs, mem, ptr, thread};

use uthread::runtime::{Driver, Runtime};

/// Number of fibers that wait at once.
const FIBERS: usize = 100;

/// How many threads may be started for a use without waits that block a thread: one is for a fiber that
/// computes for long, or starts a program.
pub(crate) const THREADS_MAX: usize = FIBERS / 4;

/// How long a use waits where only time ends the wait.
const WAIT: Duration = Duration::from_millis(100);

/// The uses, by name.
pub(crate) const USES: &[(&str, fn())] = &[
    ("echo", echo),
    ("mutex", mutex),
    ("condition", condition),
    ("channel", channel),
    ("rwlock", rwlock),
    ("sleep", sleep),
    ("park", park),
    ("read timeout", read_timeout),
    ("epoll", epoll),
    ("ppoll", ppoll),
    ("select", select),
    ("process", process),
];

/// Calls `test` with the name of each driver that this machine has, one test at a time: the threads of
/// the process are counted.
pub(crate) fn on_each_driver(test: impl Fn(&str, &dyn Fn(fn()) -> usize)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for driver in [Driver::Uring, Driver::Epoll] {
        match Runtime::builder().driver(driver).workers(1).build() {
            Ok(_) => test(&driver.to_string(), &|case| threads_of(driver, case)),
            Err(error) => eprintln!("not checked: {}: {error}", &driver.to_string()),
        }
    }
}

/// Runs a use in a fiber of a runtime with one worker, and returns the number of threads that were
/// started for it.
fn threads_of(driver: Driver, case: fn()) -> usize {
    let runtime = Runtime::builder().driver(driver).workers(1).build();
    let runtime = runtime.unwrap();
    assert!(!runtime.is_lean());
    runtime.run(|| {
        let before = tasks();
        case();
        tasks().saturating_sub(before)
    })
}

/// Returns the number of threads of the process. Those that go on in place of a blocked one do not end
/// before their runtime.
fn tasks() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Runs a function in many fibers.
fn many(fiber: impl Fn(usize) + Sync) {
    let fiber = &fiber;
    uthread::scope(|scope| {
        for number in 0..FIBERS {
            scope.spawn(move || fiber(number));
        }
    });
}

/// Clients that are all connected before the first one writes.
fn echo() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let all = Barrier::new(FIBERS);
    uthread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..FIBERS {
                let (mut stream, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    let mut bytes = [0; 64];
                    loop {
                        match stream.read(&mut bytes).unwrap() {
                            0 => return,
                            count => stream.write_all(&bytes[..count]).unwrap(),
                        }
                    }
                });
            }
        });
        many(|number| {
            let mut stream = TcpStream::connect(address).unwrap();
            all.wait();
            for round in 0..3 {
                let sent = [number as u8, round, 3, 4];
                stream.write_all(&sent).unwrap();
                let mut received = [0; 4];
                stream.read_exact(&mut received).unwrap();
                assert_eq!(received, sent);
            }
        });
    });
}

fn mutex() {
    let count = Mutex::new(0);
    let held = count.lock().unwrap();
    uthread::scope(|scope| {
        scope.spawn(|| many(|_| *count.lock().unwrap() += 1));
        thread::sleep(WAIT);
        drop(held);
    });
    assert_eq!(*count.lock().unwrap(), FIBERS);
}

fn condition() {
    let (arrived, is_open, changed) = (Mutex::new(0), Mutex::new(false), Condvar::new());
    many(|_| {
        let mut arrived = arrived.lock().unwrap();
        *arrived += 1;
        if *arrived == FIBERS {
            *is_open.lock().unwrap() = true;
            changed.notify_all();
        }
        drop(arrived);
        let is_open = is_open.lock().unwrap();
        let is_open = changed.wait_while(is_open, |is_open| !*is_open).unwrap();
        assert!(*is_open);
    });
    let lock = Mutex::new(());
    let start = Instant::now();
    let (_guard, ended) = changed.wait_timeout(lock.lock().unwrap(), WAIT).unwrap();
    assert!(!ended.timed_out() || start.elapsed() >= WAIT);
}

fn channel() {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..FIBERS).map(|_| mpsc::channel()).unzip();
    let sums = Mutex::new(0);
    uthread::scope(|scope| {
        for receiver in receivers {
            scope.spawn(|| *sums.lock().unwrap() += receiver.into_iter().sum::<usize>());
        }
        thread::sleep(WAIT);
        for number in 1..=3 {
            for sender in &senders {
                sender.send(number).unwrap();
            }
            uthread::yield_now();
        }
        drop(senders);
    });
    assert_eq!(*sums.lock().unwrap(), 6 * FIBERS);
}

fn rwlock() {
    let value = RwLock::new(0);
    let held = value.write().unwrap();
    uthread::scope(|scope| {
        scope.spawn(|| {
            many(|number| match number % 2 {
                0 => *value.write().unwrap() += 1,
                _ => assert!(*value.read().unwrap() <= FIBERS),
            });
        });
        thread::sleep(WAIT);
        drop(held);
    });
    assert_eq!(*value.read().unwrap(), FIBERS / 2);
}

fn sleep() {
    let start = Instant::now();
    many(|_| thread::sleep(WAIT));
    let time = start.elapsed();
    assert!(time >= WAIT && time < WAIT * FIBERS as u32 / 2, "{time:?}");
}

fn park() {
    let parked = Arc::new(Mutex::new(Vec::new()));
    uthread::scope(|scope| {
        scope.spawn(|| {
            many(|_| {
                parked.lock().unwrap().push(thread::current());
                thread::park();
            });
        });
        while parked.lock().unwrap().len() < FIBERS {
            thread::sleep(WAIT / 10);
        }
        thread::sleep(WAIT);
        parked
            .lock()
            .unwrap()
            .iter()
            .for_each(thread::Thread::unpark);
    });
}

fn read_timeout() {
    many(|_| {
        let (mut stream, _other) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(WAIT)).unwrap();
        let start = Instant::now();
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        // The kernel counts its own timeout in ticks, which a busy virtual machine gets late.
        assert!(start.elapsed() >= WAIT / 2);
    });
}

/// As the event loops of crates wait, here without descriptors.
#[allow(unsafe_code, reason = "system calls that std has no function for")]
fn epoll() {
    many(|_| {
        // SAFETY: the call takes no memory.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        // SAFETY: nothing else has the new descriptor.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let milliseconds = WAIT.as_millis() as i32;
        let start = Instant::now();
        // SAFETY: there is room for one event.
        let ready = unsafe { libc::epoll_wait(epoll.as_raw_fd(), &raw mut event, 1, milliseconds) };
        assert_eq!(ready, 0);
        assert!(start.elapsed() >= WAIT);
    });
}

/// Waits in each fiber for one of two sockets by a call of C, which returns the number that is ready.
fn either(wait: impl Fn(&[libc::pollfd; 2]) -> i32 + Sync) {
    let waiting = Barrier::new(FIBERS);
    many(|number| {
        let (first, second) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let wanted = [&first, &second].map(|(socket, _)| libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        waiting.wait();
        let other = [&first.1, &second.1][number % 2];
        uthread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(WAIT);
                (&*other).write_all(&[1]).unwrap();
            });
            assert_eq!(wait(&wanted), 1);
        });
    });
}

#[allow(unsafe_code, reason = "a call of C")]
fn ppoll() {
    either(|wanted| {
        let mut wanted = *wanted;
        // SAFETY: there are two descriptors, no time and no mask.
        let ready = unsafe { libc::ppoll(wanted.as_mut_ptr(), 2, ptr::null(), ptr::null()) };
        assert_eq!(
            wanted
                .iter()
                .filter(|one| one.revents == libc::POLLIN)
                .count(),
            1
        );
        ready
    });
}

#[allow(unsafe_code, reason = "a call of C")]
fn select() {
    either(|wanted| {
        // SAFETY: zeros are an empty set.
        let mut set: libc::fd_set = unsafe { mem::zeroed() };
        for one in wanted {
            // SAFETY: the number is less than 1024.
            unsafe { libc::FD_SET(one.fd, &raw mut set) };
        }
        let [write, except] = [ptr::null_mut(); 2];
        // SAFETY: the set lives during the call.
        unsafe { libc::select(1024, &raw mut set, write, except, ptr::null_mut()) }
    });
}

fn process() {
    many(|number| {
        let mut command = Command::new("sh");
        command
            .args(["-c", "sleep 0.5; echo $0"])
            .arg(number.to_string());
        let output = command.output().unwrap();
        assert!(output.status.success());
        assert_eq!(output.stdout, format!("{number}\n").into_bytes());
    });
}
