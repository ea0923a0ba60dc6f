//! Descriptors that are closed by number while a fiber waits for them, against the rules of I/O
//! safety: foreign code that closes a number twice does that. The runtime still ends, and the next
//! file with the number keeps its bytes.

use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};
use std::{fs, net, thread};

use rustix::stdio;

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, behaviours};
use crate::support::{HANG, pair_with_std, pass_a_round};
use uthread::io::PipeReader;
use uthread::net::{TcpStream, UnixStream};
use uthread::process::Command;
use uthread::signal::{Signal, Signals};
use uthread::{JoinHandle, Runtime};

behaviours![(
    IN_FIBERS,
    [
        a_number_closed_elsewhere_does_not_delay_the_end,
        the_next_file_with_the_number_keeps_its_bytes,
        closed_standard_streams_remain_closed
    ]
)];

/// Number of messages, above that after which a driver keeps state for a connection.
const MESSAGES: usize = 8;

type Reader = Box<dyn Read + Send>;
type Writer = Box<dyn Write + Send>;

/// Makes a number and a peer, and how to read from the number.
type Maker = fn() -> (RawFd, Reader, Writer);

const MAKERS: [Maker; 4] = [tcp, lasting_tcp, unix, pipe];

fn tcp() -> (RawFd, Reader, Writer) {
    let (ours, peer) = pair_with_std();
    (ours.as_raw_fd(), unowned(ours), Box::new(peer))
}

fn lasting_tcp() -> (RawFd, Reader, Writer) {
    let (mut ours, mut peer): (TcpStream, net::TcpStream) = pair_with_std();
    for _ in 0..MESSAGES {
        peer.write_all(b"x").unwrap();
        ours.read_exact(&mut [0]).unwrap();
    }
    (ours.as_raw_fd(), unowned(ours), Box::new(peer))
}

fn unix() -> (RawFd, Reader, Writer) {
    let (ours, peer) = UnixStream::pair().unwrap();
    (ours.as_raw_fd(), unowned(ours), Box::new(peer))
}

fn pipe() -> (RawFd, Reader, Writer) {
    let (reader, writer) = io::pipe().unwrap();
    let reader = PipeReader::from(reader);
    (reader.as_raw_fd(), unowned(reader), Box::new(writer))
}

/// Reads from a file that is not closed again: its number may be another file's.
fn unowned(file: impl Read + Send + 'static) -> Reader {
    struct Unowned<R>(ManuallyDrop<R>);
    impl<R: Read> Read for Unowned<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }
    Box::new(Unowned(ManuallyDrop::new(file)))
}

fn start_to_read(
    place: Place,
    runtime: &Runtime,
    mut reader: Reader,
) -> JoinHandle<io::Result<usize>> {
    let reading = place.spawn_waiting(runtime, move || reader.read(&mut [0; 100]));
    // A kernel thread that polls for submissions has looked the number up by then.
    runtime.run(pass_a_round);
    reading
}

#[allow(unsafe_code, reason = "that is what happens elsewhere")]
fn close(number: RawFd) {
    // SAFETY: not at all, by the rules of I/O safety: the reader has the number.
    assert_eq!(unsafe { libc::close(number) }, 0);
}

fn a_number_closed_elsewhere_does_not_delay_the_end(place: Place) {
    alone(|| {
        for maker in MAKERS {
            let runtime = place.runtime();
            let (number, reader, _writer) = runtime.run(maker);
            let reading = start_to_read(place, &runtime, reader);
            runtime.run(|| close(number));
            runtime.run(pass_a_round);
            drop(runtime);
            // Unwound, or with an error.
            assert!(!reading.join().is_ok_and(|result| result.is_ok()));
        }
    });
}

/// Gives the file another number, whose file is closed.
#[allow(unsafe_code, reason = "that is what happens elsewhere")]
fn renumbered(file: RawFd, number: RawFd) -> OwnedFd {
    // SAFETY: not at all, as for `close`: the owner of `number` has it.
    assert_eq!(unsafe { libc::dup2(file, number) }, number);
    close(file);
    // SAFETY: nobody else closes it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

/// Checks that a read of the former file, which still waits, ends without those bytes.
fn the_next_file_with_the_number_keeps_its_bytes(place: Place) {
    alone(|| {
        for maker in MAKERS {
            for next in [tcp, unix] {
                check_next(place, maker, next);
            }
        }
    });
}

fn check_next(place: Place, former: Maker, next: Maker) {
    let runtime = place.runtime();
    let (number, reader, _writer) = runtime.run(former);
    let stale = start_to_read(place, &runtime, reader);
    let (mut next, mut peer) = runtime.run(|| {
        let (next, _, peer) = next();
        (TcpStream::from(renumbered(next, number)), peer)
    });
    let reading = place.spawn_waiting(&runtime, move || {
        let mut received = [0; 2 * MESSAGES];
        for byte in received.chunks_mut(1) {
            next.read_exact(byte)?;
        }
        io::Result::Ok(received)
    });
    // One by one, so that a driver begins to keep state for it.
    for _ in 0..MESSAGES {
        peer.write_all(b"x").unwrap();
        runtime.run(pass_a_round);
    }
    peer.write_all(&[b'x'; MESSAGES]).unwrap();
    drop(peer);
    assert_eq!(reading.join().unwrap().unwrap(), [b'x'; 2 * MESSAGES]);
    drop(runtime);
    let stale = stale.join();
    assert!(
        !stale.is_ok_and(|result| result.is_ok()),
        "the read got bytes of the new file"
    );
}

/// Checks what the library opens for itself in a program without standard streams, such as a
/// daemon: with one of their numbers, it would be read and written by `std`.
fn closed_standard_streams_remain_closed(place: Place) {
    alone(|| {
        let (mut connection, mut peer): (TcpStream, net::TcpStream) = pair_with_std();
        let streams = [stdio::stdin(), stdio::stdout(), stdio::stderr()];
        let [input, output, errors] = streams.map(|fd| fd.try_clone_to_owned().unwrap());
        (0..3).for_each(close);
        let opened =
            || (0..3).filter(|number| fs::read_link(format!("/proc/self/fd/{number}")).is_ok());
        let mut seen: Vec<(&str, RawFd)> = Vec::new();
        let mut look = |after| {
            // A ring has such a number until another one is built in its place, and workers that
            // start later build theirs meanwhile.
            let start = Instant::now();
            let mut open: Vec<RawFd> = opened().collect();
            while !open.is_empty() && start.elapsed() < HANG {
                thread::sleep(Duration::from_millis(1));
                open = opened().collect();
            }
            seen.extend(open.into_iter().map(|number| (after, number)));
        };
        let runtime = place.runtime();
        look("the runtime has started");
        runtime.run(|| {
            for _ in 0..MESSAGES {
                peer.write_all(b"x").unwrap();
                connection.read_exact(&mut [0]).unwrap();
            }
            look("a connection has lasted");
            let signals = Signals::new([Signal::USR1]).unwrap();
            look("signals are awaited");
            let mut child = Command::new("sleep").arg("60").spawn().unwrap();
            look("a child has started");
            child.kill().unwrap();
            child.wait().unwrap();
            drop(signals);
        });
        drop(runtime);
        stdio::dup2_stdin(input).unwrap();
        stdio::dup2_stdout(output).unwrap();
        stdio::dup2_stderr(errors).unwrap();
        assert_eq!(seen, []);
    });
}
