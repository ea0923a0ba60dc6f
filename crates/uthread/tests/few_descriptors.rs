//! A server that runs out of descriptors: a test in a process of its own, whose limit it lowers.

mod restrict;

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use restrict::has_ring;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use uthread::fs::File;
use uthread::net::{TcpListener, TcpStream, UnixStream};
use uthread::{Driver, Runtime};

const DESCRIPTORS: u64 = 32;
/// How long a server waits for descriptors before it tries again.
const PAUSE: Duration = Duration::from_millis(5);
const PAUSES: u32 = 40;
/// Reached only where something never happens.
const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_shortage_of_descriptors_is_reported_and_survived() {
    let limit = Rlimit {
        current: Some(DESCRIPTORS),
        maximum: Some(DESCRIPTORS),
    };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut drivers = vec![Driver::Epoll, Driver::Threads];
    if has_ring("the driver uring") {
        drivers.push(Driver::Uring);
    }
    for driver in drivers {
        let runtime = Runtime::builder().driver(driver).workers(1);
        let runtime = runtime.build().unwrap();
        runtime.run(|| outlives_a_shortage(driver));
        let error = runtime.run(chooses_in_a_shortage);
        assert_eq!(error.is_some(), driver == Driver::Threads);
    }
    assert!(chooses_in_a_shortage().is_some(), "on a plain thread");
    let _files = take_all();
    for builder in [Runtime::builder(), Runtime::builder().driver(Driver::Epoll)] {
        let error = builder.build().unwrap_err();
        assert!(error.to_string().contains("ulimit -n"), "{error}");
    }
}

/// Waits for a socket beside a time, and returns the error of the wait, for which a thread needs a
/// descriptor.
fn chooses_in_a_shortage() -> Option<io::Error> {
    let (silent, _peer) = UnixStream::pair().unwrap();
    let _files = take_all();
    let error = uthread::select! {
        readable(&silent) -> error => Some(error.unwrap_err()),
        after(PAUSE) => None,
    };
    assert!(error.as_ref().is_none_or(is_shortage), "{error:?}");
    error
}

fn outlives_a_shortage(driver: Driver) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (refusals, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    uthread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        scope.spawn(move || echo(&mut stream));
                    }
                    Err(error) => {
                        assert!(is_shortage(&error), "{driver}: {error}");
                        refusals.fetch_add(1, Ordering::Relaxed);
                        uthread::sleep(PAUSE);
                    }
                }
            }
        });
        let first = TcpStream::connect(addr).unwrap();
        assert_echo(&first);

        let mut files = take_all();
        // One that is left for a client, and none for the server's end.
        drop(files.pop());
        let second = TcpStream::connect(addr).unwrap();
        assert!(is_shortage(&File::open("/").unwrap_err()));
        let (start, busy) = (Instant::now(), cpu_time());
        while refusals.load(Ordering::Relaxed) < PAUSES {
            assert!(start.elapsed() < LONG, "{driver}");
            uthread::sleep(PAUSE);
        }
        let (busy, elapsed) = (cpu_time() - busy, start.elapsed());
        assert!(busy < elapsed / 2, "{driver}: {busy:?} of {elapsed:?}");
        // Open connections do not notice.
        assert_echo(&first);

        drop(files);
        assert_echo(&second);
        is_over.store(true, Ordering::Relaxed);
        // Ends the last accept.
        let last = TcpStream::connect(addr).unwrap();
        for stream in [first, second, last] {
            stream.shutdown(Shutdown::Both).unwrap();
        }
    });
}

fn echo(stream: &mut TcpStream) {
    let mut buffer = [0; 16];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        stream.write_all(&buffer[..count]).unwrap();
    }
}

fn assert_echo(mut stream: &TcpStream) {
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut echo = [0; 5];
    stream.read_exact(&mut echo).unwrap();
    assert_eq!(&echo, b"hello");
}

/// Opens files until there is no descriptor left.
fn take_all() -> Vec<File> {
    let mut files = Vec::new();
    loop {
        match File::open("/dev/null") {
            Ok(file) => files.push(file),
            Err(error) => {
                assert!(is_shortage(&error), "{error}");
                return files;
            }
        }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MFILE)
}

/// Returns the CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap()
}
