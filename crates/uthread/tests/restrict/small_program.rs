//! A small program that does a little of everything.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use uthread::Runtime;
use uthread::fs::{File, OpenOptions};
use uthread::net::{TcpListener, TcpStream};
use uthread::ring::{self, RegisteredBuffer, RegisteredFile};

const CLIENTS: usize = 4;
/// A timeout long enough to distinguish waiting from not waiting.
const SHORT: Duration = Duration::from_millis(5);
/// Reached only where something never happens.
const LONG: Duration = Duration::from_secs(30);

/// Runs it, and sees that it does what it should.
pub(crate) fn works(runtime: &Runtime) {
    runtime.run(|| {
        echoes();
        keeps_files();
        registers();
        waits();
    });
}

fn echoes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    uthread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(move || {
                let mut stream = TcpStream::connect(addr).unwrap();
                stream.set_read_timeout(Some(LONG)).unwrap();
                let mut echo = [0; 5];
                for _ in 0..10 {
                    stream.write_all(b"hello").unwrap();
                    stream.read_exact(&mut echo).unwrap();
                    assert_eq!(&echo, b"hello");
                }
            });
            let (mut stream, _) = listener.accept().unwrap();
            scope.spawn(move || {
                std::io::copy(&mut stream.try_clone().unwrap(), &mut stream).unwrap();
            });
        }
    });
}

fn keeps_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.write_all(&[b'x'; 100_000]).unwrap();
    file.sync_all().unwrap();
    let mut end = [0; 10];
    file.read_exact_at(&mut end, 99_990).unwrap();
    assert_eq!(end, [b'x'; 10]);
    assert_eq!(uthread::fs::read(&path).unwrap().len(), 100_000);
    let missing = uthread::fs::read(path.join("beyond")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotADirectory);
}

/// Checks that registration works, whether the ring accepts it, refuses it or does not exist.
fn registers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    let file = RegisteredFile::new(file);
    let mut buffer = RegisteredBuffer::new(1 << 20).unwrap();
    buffer.fill(b'x');
    file.write_all_at(&buffer, 0).unwrap();
    file.read_exact_at(&mut buffer[..10], 1).unwrap();
    assert!(buffer.iter().all(|byte| *byte == b'x'));
    drop(file);
    let mut beginning = [0; 10];
    assert_eq!(ring::read_file(path, &mut beginning).unwrap(), 10);
    assert_eq!(beginning, [b'x'; 10]);
    ring::nop().unwrap();
}

fn waits() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    silent.set_read_timeout(Some(SHORT)).unwrap();
    let start = Instant::now();
    let error = silent.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    uthread::sleep(SHORT);
    assert!(start.elapsed() >= 2 * SHORT);
}
