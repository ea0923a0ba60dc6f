//! The standard outputs, whatever they are. Each trial has a process of its own, to put something
//! in their place.

use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::process::exit;
use std::time::Duration;

use crate::harness::child::{alone, child};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, Gap, IN_FIBERS, ON_ONE_WORKER, behaviours};
use crate::support::standard::{Kind, with_stdout, written_by};
use crate::support::{Flag, assert_same, drain, errno};
use rustix::fs::OFlags;
use rustix::io::Errno;
use uthread::fs::File;
use uthread::io::{Write, stderr, stdout};
use uthread::{spawn, timeout, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            output_keeps_its_order_with_the_macros_of_std,
            lines_come_at_once_and_the_rest_when_flushed,
            much_goes_to_a_slow_reader,
            many_small_pieces_go_to_a_slow_reader,
            errors_go_to_a_slow_reader,
            buffered_output_is_written_at_the_exit,
            closed_output_discards_all,
            output_without_a_reader_is_an_error,
            descriptor_stays_blocking_for_other_processes
        ]
    ),
    (
        IN_FIBERS,
        [
            a_wait_for_room_ends_with_the_runtime,
            a_wait_for_room_ends_in_time
        ]
    ),
    (
        &[Gap(|place| !place.is_of_fibers(), "a thread blocks in it")],
        [a_full_pipe_does_not_keep_the_worker]
    ),
    (ON_ONE_WORKER, [locked_output_keeps_others_out]),
];

fn output_keeps_its_order_with_the_macros_of_std(place: Place) {
    alone(|| {
        let long = "-".repeat(5_000);
        let many = format!("{long}\n{long}");
        let text = written_by(|| {
            place.run(|| {
                print!("a");
                write!(stdout(), "b{}", 1).unwrap();
                println!("c");
                write!(stdout(), "d").unwrap();
                print!("e");
                writeln!(stdout(), "f").unwrap();
                print!("g");
                write!(stdout(), "{long}\nh{long}").unwrap();
                print!("i");
                stdout().write_all(long.as_bytes()).unwrap();
                println!("j");
                print!("k");
                stdout().write_all(many.as_bytes()).unwrap();
                for _ in 0..200 {
                    write!(stdout(), "{}", "k".repeat(17)).unwrap();
                    print!("l");
                }
            });
        });
        let pieces = format!("{}l", "k".repeat(17)).repeat(200);
        let lines = format!("ab1c\ndef\ng{long}\nh{long}i{long}j\nk{many}");
        assert_eq!(text, lines + &pieces);
    });
}

fn lines_come_at_once_and_the_rest_when_flushed(place: Place) {
    alone(|| {
        let (output, reader) = Kind::Socket.output();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let come = || {
            let mut bytes = [0; 100];
            let count = (&reader).read(&mut bytes).unwrap_or(0);
            String::from_utf8(bytes[..count].to_vec()).unwrap()
        };
        with_stdout(output, || {
            place.run(|| {
                write!(stdout(), "line\nrest").unwrap();
                assert_eq!(come(), "line\n");
                write!(stdout(), "s").unwrap();
                assert_eq!(come(), "");
                stdout().flush().unwrap();
                assert_eq!(come(), "rests");
            });
        });
    });
}

/// Gives what is written to a standard stream of each kind while somebody reads it slowly.
fn read_slowly(place: Place, write: fn(), expected: &[u8]) {
    for kind in Kind::ALL {
        let (output, reader) = kind.output();
        with_stdout(output, || {
            place.run(|| {
                let reader = File::from(reader);
                let writer = spawn(write);
                let mut seen = Vec::new();
                while seen.len() < expected.len() {
                    let mut piece = [0; 1500];
                    let count = std::io::Read::read(&mut &reader, &mut piece).unwrap();
                    seen.extend_from_slice(&piece[..count]);
                    yield_now();
                }
                writer.join().unwrap();
                assert_same(&seen, expected);
            });
        });
    }
}

/// Number of lines, above what pipes and sockets hold.
const LINES: usize = 2_000;

fn line(number: usize) -> String {
    format!("line {number:100}")
}

fn text() -> Vec<u8> {
    let lines = (0..LINES).map(|number| line(number) + "\n");
    lines.collect::<String>().into_bytes()
}

fn much_goes_to_a_slow_reader(place: Place) {
    alone(|| read_slowly(place, || stdout().write_all(&text()).unwrap(), &text()));
}

fn many_small_pieces_go_to_a_slow_reader(place: Place) {
    let write = || {
        let mut out = stdout().lock();
        (0..LINES).for_each(|number| writeln!(out, "{}", line(number)).unwrap());
    };
    alone(|| read_slowly(place, write, &text()));
}

fn errors_go_to_a_slow_reader(place: Place) {
    let write = || {
        let before = rustix::stdio::stderr().try_clone_to_owned().unwrap();
        rustix::stdio::dup2_stderr(rustix::stdio::stdout()).unwrap();
        stderr().write_all(&text()[..100_000]).unwrap();
        for piece in text()[100_000..].chunks(1000) {
            stderr().write_all(piece).unwrap();
        }
        rustix::stdio::dup2_stderr(before).unwrap();
    };
    alone(|| read_slowly(place, write, &text()));
}

fn buffered_output_is_written_at_the_exit(place: Place) {
    let Some(output) = child() else {
        return place.run(|| {
            write!(stdout(), "without a newline").unwrap();
            exit(7);
        });
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("without a newline"), "{text}");
    assert_eq!(output.status.code(), Some(7));
}

fn closed_output_discards_all(place: Place) {
    alone(|| {
        // A descriptor that cannot be written to gives the error of a closed one.
        let read_only = std::fs::File::open("/dev/null").unwrap();
        with_stdout(OwnedFd::from(read_only), || {
            place.run(|| {
                stdout().write_all(&text()).unwrap();
                writeln!(stdout(), "line").unwrap();
                stdout().flush().unwrap();
            });
        });
    });
}

fn output_without_a_reader_is_an_error(place: Place) {
    alone(|| {
        let (output, reader) = Kind::Pipe.output();
        drop(reader);
        with_stdout(output, || {
            let results = place.run(|| (writeln!(stdout()), stdout().write_all(&text())));
            assert_eq!(errno(results.0), Errno::PIPE);
            assert_eq!(errno(results.1), Errno::PIPE);
            // Bytes that could not be written are still buffered: they go to `/dev/null`.
            let null = std::fs::File::options().write(true).open("/dev/null");
            rustix::stdio::dup2_stdout(null.unwrap()).unwrap();
        });
    });
}

fn descriptor_stays_blocking_for_other_processes(place: Place) {
    alone(|| {
        for kind in Kind::ALL {
            let (output, _reader) = kind.output();
            let shared = output.try_clone().unwrap();
            with_stdout(output, || {
                place.run(|| stdout().write_all(&[b'\n'; 4000])).unwrap();
            });
            let flags = rustix::fs::fcntl_getfl(&shared).unwrap();
            assert!(!flags.contains(OFlags::NONBLOCK), "{kind:?}");
        }
    });
}

/// Writes to a pipe until there is no room.
fn fill(pipe: impl AsFd) {
    rustix::io::ioctl_fionbio(&pipe, true).unwrap();
    while rustix::io::write(&pipe, &[b'.'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&pipe, false).unwrap();
}

fn a_wait_for_room_ends_with_the_runtime(place: Place) {
    alone(|| {
        for size in [1, 1_000_000] {
            let (output, mut reader) = Kind::Pipe.output();
            fill(&output);
            with_stdout(output, || {
                let runtime = place.runtime_of(1);
                let bytes = vec![b'\n'; size];
                let waiting = place.spawn_waiting(&runtime, move || stdout().write_all(&bytes));
                drop(runtime);
                assert_eq!(errno(waiting.join().unwrap()), Errno::CANCELED);
                let _ = reader.read(&mut [0; 10_000]).unwrap();
            });
        }
    });
}

fn a_wait_for_room_ends_in_time(place: Place) {
    alone(|| {
        let (output, reader) = Kind::Pipe.output();
        fill(&output);
        with_stdout(output, || {
            place.run(|| {
                let soon = Duration::from_millis(5);
                let result = timeout(soon, || stdout().write_all(&text()));
                assert_eq!(errno(result.unwrap()), Errno::TIMEDOUT);
                let result = timeout(soon, || writeln!(stdout(), "line"));
                assert_eq!(errno(result.unwrap()), Errno::TIMEDOUT);
            });
            drop(reader);
            let null = std::fs::File::options().write(true).open("/dev/null");
            rustix::stdio::dup2_stdout(null.unwrap()).unwrap();
        });
    });
}

fn a_full_pipe_does_not_keep_the_worker(place: Place) {
    alone(|| {
        let (output, reader) = Kind::Pipe.output();
        fill(&output);
        with_stdout(output, || {
            place.run(|| {
                let writer = spawn(|| {
                    // The pieces of a long line, of which few fit in the buffer.
                    (0..300).try_for_each(|_| stdout().write_all(b"0123456789"))?;
                    writeln!(stdout())
                });
                for _ in 0..100 {
                    yield_now();
                }
                assert!(!writer.is_finished());
                let drained = spawn(|| drain(File::from(reader)).len());
                writer.join().unwrap().unwrap();
                let null = std::fs::File::open("/dev/null").unwrap();
                rustix::stdio::dup2_stdout(null).unwrap();
                assert!(drained.join().unwrap() > 4096);
            });
        });
    });
}

fn locked_output_keeps_others_out(place: Place) {
    alone(|| {
        let text = written_by(|| {
            place.run(|| {
                let mut out = stdout().lock();
                let flag = Flag::default();
                let about_to_write = flag.clone();
                let other = spawn(move || {
                    about_to_write.raise();
                    writeln!(stdout(), "other").unwrap();
                });
                flag.wait();
                write!(out, "own ").unwrap();
                yield_now();
                write!(stdout(), "again ").unwrap();
                writeln!(stdout().lock(), "and again").unwrap();
                yield_now();
                writeln!(out, "last").unwrap();
                drop(out);
                other.join().unwrap();
            });
        });
        assert_eq!(text, "own again and again\nlast\nother\n");
    });
}
