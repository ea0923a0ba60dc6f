//! What ends a wait of `std` in a fiber: data, a timeout of the socket, a cancellation, a deadline, and
//! threads.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Seek, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};
use std::{fs, mem, ptr, thread};

use uthread::interposition;
use uthread::runtime::{Driver, Runtime};
use uthread_interpose as _;

const SHORT: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(60);

/// Runs a test in a fiber, on each driver that this machine has.
fn in_fiber(workers: usize, test: impl Fn() + Sync) {
    for driver in [Driver::Uring, Driver::Epoll] {
        match Runtime::builder().driver(driver).workers(workers).build() {
            Ok(runtime) => runtime.run(&test),
            Err(error) => eprintln!("not checked: {driver}: {error}"),
        }
    }
}

/// Returns the error number of a call.
#[track_caller]
fn number<T>(result: io::Result<T>) -> Option<i32> {
    let error = result.err().expect("the call fails");
    error.raw_os_error()
}

#[test]
fn a_cancellation_ends_a_wait_for_a_descriptor_with_an_error() {
    in_fiber(1, || {
        let (mut stream, _other) = UnixStream::pair().unwrap();
        let reading = uthread::spawn(move || stream.read(&mut [0]));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let accepting = uthread::spawn(move || listener.accept());
        let (mut full, _other) = UnixStream::pair().unwrap();
        let writing = uthread::spawn(move || full.write_all(&vec![0; 10 << 20]));
        let (mut child, waiting) = (Command::new("sleep").arg("1").spawn().unwrap(), SHORT);
        let awaiting = uthread::spawn(move || child.wait());
        thread::sleep(waiting);
        assert!(!reading.is_finished() && !accepting.is_finished() && !writing.is_finished());
        reading.cancel();
        accepting.cancel();
        writing.cancel();
        awaiting.cancel();
        assert_eq!(number(reading.join().unwrap()), Some(libc::ECANCELED));
        assert_eq!(number(accepting.join().unwrap()), Some(libc::ECANCELED));
        assert_eq!(number(writing.join().unwrap()), Some(libc::ECANCELED));
        assert_eq!(number(awaiting.join().unwrap()), Some(libc::ECANCELED));
    });
}

#[test]
fn a_deadline_ends_a_wait_for_a_descriptor_with_an_error() {
    in_fiber(1, || {
        for timeout in [None, Some(LONG)] {
            let (mut stream, _other) = UnixStream::pair().unwrap();
            stream.set_read_timeout(timeout).unwrap();
            let result = uthread::timeout(SHORT, || stream.read(&mut [0])).unwrap();
            assert_eq!(number(result), Some(libc::ETIMEDOUT));
        }
        // The socket's own time is the earlier one.
        let (mut stream, _other) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(SHORT)).unwrap();
        let result = uthread::timeout(LONG, || stream.read(&mut [0])).unwrap();
        assert_eq!(number(result), Some(libc::EAGAIN));
    });
}

#[test]
fn what_is_printed_after_the_deadline_arrives() {
    const CHILD: &str = "UTHREAD_TEST_PRINTS";
    if std::env::var_os(CHILD).is_some() {
        in_fiber(1, || {
            // Late all the same.
            let _ = uthread::timeout(SHORT, || {
                std::thread::sleep(2 * SHORT);
                println!("late");
            });
        });
        return;
    }
    // A file, which may wait for the disk: the kernel refuses a write that must not.
    let mut output = tempfile::tempfile().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args([
            "what_is_printed_after_the_deadline_arrives",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD, "1")
        .stdout(output.try_clone().unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    output.rewind().unwrap();
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    assert!(text.contains("late\n"), "{text}");
}

/// Event loops, such as Tokio's in the crate `postgres`, wake themselves so, and panic if it fails.
#[test]
#[allow(unsafe_code, reason = "a call of C")]
fn a_write_to_an_eventfd_that_need_not_wait_succeeds_after_the_deadline() {
    in_fiber(1, || {
        for flags in [0, libc::EFD_NONBLOCK] {
            // SAFETY: the call takes no memory.
            let event = unsafe { libc::eventfd(0, flags) };
            assert!(event >= 0);
            // SAFETY: nothing else has the descriptor.
            let mut event = fs::File::from(unsafe { OwnedFd::from_raw_fd(event) });
            let mut written = None;
            let _ = uthread::timeout(SHORT, || {
                thread::sleep(2 * SHORT);
                written = Some(event.write(&1_u64.to_ne_bytes()));
            });
            assert_eq!(written.unwrap().unwrap(), 8);
            if flags == libc::EFD_NONBLOCK {
                let overflow = (u64::MAX - 1).to_ne_bytes();
                assert_eq!(number(event.write(&overflow)), Some(libc::EAGAIN));
            }
        }
    });
}

/// Waits in an epoll instance without descriptors. Returns the result of the call.
#[allow(unsafe_code, reason = "calls of C")]
fn wait_for_nothing(time: Duration) -> i32 {
    // SAFETY: the call takes no memory.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    // SAFETY: there is room for one event.
    let count = unsafe { libc::epoll_wait(epoll, &raw mut event, 1, time.as_millis() as i32) };
    // SAFETY: nothing else has the descriptor.
    assert_eq!(unsafe { libc::close(epoll) }, 0);
    count
}

/// Neither `std` nor event loops have an error for the end of these waits.
#[test]
fn a_cancellation_ends_no_sleep_no_wait_for_a_lock_and_no_event_loop() {
    in_fiber(1, || {
        let sleeping = uthread::spawn(|| {
            let start = Instant::now();
            thread::sleep(4 * SHORT);
            start.elapsed()
        });
        let (sender, receiver) = mpsc::channel();
        let receiving = uthread::spawn(move || receiver.recv());
        let polling = uthread::spawn(|| {
            let start = Instant::now();
            (wait_for_nothing(4 * SHORT), start.elapsed())
        });
        let parked = uthread::spawn(|| {
            let start = Instant::now();
            thread::park_timeout(4 * SHORT);
            start.elapsed()
        });
        // One that has not started would not start.
        thread::sleep(SHORT);
        sleeping.cancel();
        receiving.cancel();
        parked.cancel();
        polling.cancel();
        thread::sleep(SHORT);
        sender.send(5).unwrap();
        assert!(sleeping.join().unwrap() >= 4 * SHORT);
        assert!(parked.join().unwrap() >= 4 * SHORT);
        assert_eq!(receiving.join().unwrap(), Ok(5));
        let (events, time) = polling.join().unwrap();
        assert!(events == 0 && time >= 4 * SHORT);
        let start = Instant::now();
        let slept = uthread::timeout(SHORT, || thread::sleep(2 * SHORT));
        assert!(start.elapsed() >= 2 * SHORT);
        assert_eq!(slept, Ok(()));
    });
}

/// A fiber is unwound that ignores the errors of calls of the library; one of these calls must not.
#[test]
fn a_caller_that_ignores_cancellation_is_not_unwound() {
    in_fiber(1, || {
        let (mut stream, mut other) = UnixStream::pair().unwrap();
        let reading = uthread::spawn(move || {
            let mut refusals = 0;
            let mut byte = [0];
            while stream.read(&mut byte).is_err() {
                refusals += 1;
                if refusals == 1000 {
                    other.write_all(&[7]).unwrap();
                }
            }
            (refusals, byte)
        });
        // One that has not started would not start.
        thread::sleep(SHORT);
        reading.cancel();
        assert_eq!(reading.join().unwrap(), (1000, [7]));
    });
}

#[test]
fn files_are_read_and_written_at_offsets() {
    let test = || {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"fiber", 3).unwrap();
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        let mut bytes = [1; 8];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"\0\0\0fiber");
        assert_eq!(file.read_at(&mut bytes, 8).unwrap(), 0);
        let null = fs::File::open("/dev/null").unwrap();
        assert_eq!(number(null.sync_all()), Some(libc::EINVAL));
    };
    test();
    in_fiber(1, test);
}

#[test]
fn what_does_not_wait_is_as_in_a_thread() {
    let test = || {
        let (mut stream, mut other) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let error = stream.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let buffers = [IoSlice::new(b"ab"), IoSlice::new(b"cd")];
        assert_eq!(other.write_vectored(&buffers).unwrap(), 4);
        let (mut first, mut second) = ([0; 1], [0; 9]);
        let buffers = &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(stream.read_vectored(buffers).unwrap(), 4);
        assert_eq!((first, &second[..3]), (*b"a", &b"bcd"[..]));
        drop(other);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        let written = stream.write(&[0]);
        assert_eq!(written.unwrap_err().kind(), ErrorKind::BrokenPipe);

        let refused = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let connected = TcpStream::connect(refused);
        assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let connected = TcpStream::connect_timeout(&refused, SHORT);
        assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused);

        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let addresses = sockets
            .each_ref()
            .map(|socket| socket.local_addr().unwrap());
        sockets[0].send_to(b"datagram", addresses[1]).unwrap();
        let mut bytes = [0; 16];
        assert_eq!(sockets[1].peek(&mut bytes).unwrap(), 8);
        assert_eq!(sockets[1].recv_from(&mut bytes).unwrap(), (8, addresses[0]));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, b"one").unwrap();
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b" two").unwrap();
        let buffers = [IoSlice::new(b" "), IoSlice::new(b"three")];
        assert_eq!(file.write_vectored(&buffers).unwrap(), 6);
        assert_eq!(fs::read_to_string(&path).unwrap(), "one two three");
        assert!(Command::new("no such program").output().is_err());
        assert_eq!(Command::new("false").status().unwrap().code(), Some(1));
    };
    test();
    in_fiber(1, test);
    in_fiber(2, test);
}

/// Fibers wait in queues of the library, and threads in those of the kernel.
#[test]
fn threads_and_fibers_wake_each_other() {
    const TURNS: usize = 2000;
    let test = || {
        let (turn, changed) = (Mutex::new(0), Condvar::new());
        let players = 6;
        let play = |player: usize| {
            let mut turn = turn.lock().unwrap();
            while *turn < TURNS {
                if *turn % players == player {
                    *turn += 1;
                    changed.notify_all();
                } else {
                    turn = changed.wait(turn).unwrap();
                }
            }
        };
        let play = &play;
        thread::scope(|threads| {
            uthread::scope(|fibers| {
                for player in 0..players / 2 {
                    threads.spawn(move || play(player));
                    fibers.spawn(move || play(players / 2 + player));
                }
            });
        });
        assert!(*turn.lock().unwrap() >= TURNS);
        let (to_thread, in_thread) = mpsc::channel();
        let (to_fiber, in_fiber) = mpsc::sync_channel(1);
        let thread = thread::spawn(move || {
            for number in in_thread {
                to_fiber.send(number + 1).unwrap();
            }
        });
        for number in 0..TURNS {
            to_thread.send(number).unwrap();
            assert_eq!(in_fiber.recv(), Ok(number + 1));
        }
        drop(to_thread);
        thread.join().unwrap();
    };
    in_fiber(1, test);
    in_fiber(2, test);
}

/// The library's own locks are those of `std`, too.
#[test]
fn calls_of_the_library_go_on_beside_those_of_std() {
    in_fiber(2, || {
        let (sender, receiver) = uthread::sync::mpsc::channel();
        let lock = uthread::sync::Mutex::new(0);
        let other = Mutex::new(0);
        uthread::scope(|scope| {
            for _ in 0..50 {
                let sender = sender.clone();
                let (lock, other) = (&lock, &other);
                scope.spawn(move || {
                    for round in 0..100 {
                        *lock.lock().unwrap() += 1;
                        *other.lock().unwrap() += 1;
                        sender.send(round).unwrap();
                        if round % 10 == 0 {
                            thread::sleep(Duration::from_micros(50));
                        }
                    }
                });
            }
            drop(sender);
            assert_eq!(receiver.into_iter().count(), 5000);
        });
        assert_eq!(*lock.lock().unwrap(), 5000);
        assert_eq!(*other.lock().unwrap(), 5000);
    });
}

#[test]
fn a_lean_fiber_blocks_its_thread() {
    let runtime = Runtime::builder().lean().workers(1).build().unwrap();
    runtime.run(|| {
        let (mut stream, mut other) = UnixStream::pair().unwrap();
        let thread = thread::spawn(move || {
            thread::sleep(SHORT);
            other.write_all(&[1]).unwrap();
        });
        let start = Instant::now();
        stream.read_exact(&mut [0]).unwrap();
        thread::sleep(SHORT);
        assert!(start.elapsed() >= SHORT);
        thread.join().unwrap();
    });
}

static MAY_SUSPEND_IN_HANDLER: AtomicBool = AtomicBool::new(true);

extern "C" fn handle(_signal: i32) {
    MAY_SUSPEND_IN_HANDLER.store(interposition::may_suspend(), Ordering::Relaxed);
}

/// The next signal uses the stack of a handler again.
#[test]
#[allow(unsafe_code, reason = "a handler of a signal with a stack of its own")]
fn a_handler_of_a_signal_is_not_suspended_on_its_stack() {
    in_fiber(1, || {
        assert!(interposition::may_suspend());
        MAY_SUSPEND_IN_HANDLER.store(true, Ordering::Relaxed);
        // SAFETY: a structure of C without references.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        // SAFETY: the handler is a function that may be called at any time.
        unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()) };
        // SAFETY: the signal has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        assert!(!MAY_SUSPEND_IN_HANDLER.load(Ordering::Relaxed));
    });
}
