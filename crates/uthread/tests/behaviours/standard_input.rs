//! The standard input, whatever it is. Each trial has a process of its own, to put something in its
//! place.

use std::fs::File as StdFile;
use std::io::Write as _;
use std::time::Duration;

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_ONE_WORKER, behaviours};
use crate::support::standard::{Kind, with_stdin};
use crate::support::{errno, file_of};
use rustix::fs::OFlags;
use rustix::io::Errno;
use uthread::io::{BufRead, IsTerminal, Read, stdin};
use uthread::{spawn, timeout, yield_now};

behaviours![
    (
        EVERYWHERE,
        [
            each_kind_is_read_to_its_end,
            a_file_is_read_from_its_position,
            a_waiting_reader_gets_the_next_line,
            closed_input_is_at_its_end,
            one_buffer_serves_all_handles,
            each_who_has_it_locked_gets_whole_lines,
            another_file_may_take_its_place,
            text_that_is_none_is_an_error,
            descriptor_stays_blocking_for_other_processes
        ]
    ),
    (ON_ONE_WORKER, [a_waiting_fiber_leaves_its_worker_to_others]),
    (
        IN_FIBERS,
        [a_wait_ends_with_the_runtime, a_wait_ends_in_time]
    ),
];

/// The character that a user types to end the input.
const END_OF_INPUT: &[u8] = &[4];

fn lines() -> Vec<String> {
    stdin().lines().map(Result::unwrap).collect()
}

fn end(kind: Kind, mut writer: StdFile) {
    if let Kind::Terminal = kind {
        writer.write_all(END_OF_INPUT).unwrap();
        // A terminal that nobody sits at has no end, but an error.
        std::mem::forget(writer);
    }
}

fn each_kind_is_read_to_its_end(place: Place) {
    alone(|| {
        for kind in Kind::ALL {
            let (input, mut writer) = kind.input();
            writer.write_all(b"one\ntwo\n").unwrap();
            end(kind, writer);
            with_stdin(input, || {
                assert_eq!(place.run(lines), ["one", "two"], "{kind:?}")
            });
        }
        let null = StdFile::open("/dev/null").unwrap();
        with_stdin(null, || assert!(place.run(lines).is_empty()));
    });
}

fn a_file_is_read_from_its_position(place: Place) {
    alone(|| {
        let text: String = (0..10_000).map(|number| format!("{number}\n")).collect();
        let file = StdFile::from(place.run(|| file_of(text.as_bytes())));
        std::io::Seek::seek(&mut &file, std::io::SeekFrom::Start(2)).unwrap();
        with_stdin(file, || {
            let mut rest = String::new();
            place.run(|| stdin().read_to_string(&mut rest)).unwrap();
            assert_eq!(rest, text[2..]);
        });
    });
}

fn a_waiting_reader_gets_the_next_line(place: Place) {
    alone(|| {
        for kind in Kind::ALL {
            let (input, mut writer) = kind.input();
            with_stdin(input, || {
                place.run(|| {
                    assert_eq!(stdin().is_terminal(), matches!(kind, Kind::Terminal));
                    for line in ["first\n", "second\n"] {
                        let read = || {
                            let mut line = String::new();
                            stdin().read_line(&mut line).map(|_| line)
                        };
                        let event = || writer.write_all(line.as_bytes()).unwrap();
                        assert_eq!(place.meanwhile(read, event).unwrap(), line, "{kind:?}");
                    }
                });
            });
        }
    });
}

fn a_waiting_fiber_leaves_its_worker_to_others(place: Place) {
    alone(|| {
        for kind in Kind::ALL {
            let (input, mut writer) = kind.input();
            with_stdin(input, || {
                place.run(|| {
                    let waiting = spawn(|| stdin().lines().next().unwrap().unwrap());
                    for _ in 0..100 {
                        yield_now();
                    }
                    assert!(!waiting.is_finished(), "{kind:?}");
                    writer.write_all(b"at last\n").unwrap();
                    assert_eq!(waiting.join().unwrap(), "at last");
                });
            });
        }
    });
}

fn closed_input_is_at_its_end(place: Place) {
    alone(|| {
        // A descriptor that cannot be read gives the error of a closed one.
        let write_only = StdFile::options().write(true).open("/dev/null").unwrap();
        with_stdin(write_only, || place.run(|| assert!(lines().is_empty())));
    });
}

fn one_buffer_serves_all_handles(place: Place) {
    alone(|| {
        let (input, mut writer) = Kind::Pipe.input();
        writer.write_all(b"one\ntwo\nthree\n").unwrap();
        with_stdin(input, || {
            place.run(|| {
                let mut line = String::new();
                assert_eq!(stdin().read_line(&mut line).unwrap(), 4);
                let mut bytes = [0; 4];
                let other = stdin();
                (&other).read_exact(&mut bytes).unwrap();
                assert_eq!((line.as_str(), &bytes), ("one\n", b"two\n"));
                assert_eq!(stdin().lock().fill_buf().unwrap(), b"three\n");
                stdin().lock().consume(6);
            });
        });
    });
}

fn each_who_has_it_locked_gets_whole_lines(place: Place) {
    const LINES: usize = 200;
    alone(|| {
        let (input, mut writer) = Kind::Pipe.input();
        with_stdin(input, || {
            let seen = place.run(|| {
                let reader = || {
                    let mut seen = Vec::new();
                    loop {
                        let mut line = String::new();
                        if stdin().read_line(&mut line).unwrap() == 0 {
                            return seen;
                        }
                        seen.push(line.trim_end().parse::<usize>().unwrap());
                    }
                };
                let readers: Vec<_> = (0..3).map(|_| spawn(reader)).collect();
                for number in 0..LINES {
                    // In two pieces: a reader has to wait within a line.
                    write!(writer, "{number}").unwrap();
                    yield_now();
                    writeln!(writer).unwrap();
                }
                drop(writer);
                let seen = readers.into_iter().map(|reader| reader.join().unwrap());
                let mut seen: Vec<_> = seen.flatten().collect();
                seen.sort_unstable();
                seen
            });
            assert!(seen.into_iter().eq(0..LINES));
        });
    });
}

fn another_file_may_take_its_place(place: Place) {
    alone(|| {
        place.run(|| {
            for kind in Kind::ALL.into_iter().chain(Kind::ALL) {
                let (input, mut writer) = kind.input();
                rustix::stdio::dup2_stdin(&input).unwrap();
                let read = || stdin().lines().next().unwrap().unwrap();
                let line = place.meanwhile(read, || writer.write_all(b"new\n").unwrap());
                assert_eq!(line, "new");
            }
        });
    });
}

fn text_that_is_none_is_an_error(place: Place) {
    alone(|| {
        let (input, mut writer) = Kind::Pipe.input();
        writer.write_all(b"\xff\n").unwrap();
        with_stdin(input, || {
            let error = place.run(|| stdin().read_line(&mut String::new()));
            assert_eq!(error.unwrap_err().kind(), std::io::ErrorKind::InvalidData);
        });
    });
}

fn descriptor_stays_blocking_for_other_processes(place: Place) {
    alone(|| {
        for kind in Kind::ALL {
            let (input, mut writer) = kind.input();
            let shared = input.try_clone().unwrap();
            with_stdin(input, || {
                place.run(|| {
                    let read = || stdin().read_line(&mut String::new()).unwrap();
                    place.meanwhile(read, || writer.write_all(b"x\n").unwrap());
                });
            });
            let flags = rustix::fs::fcntl_getfl(&shared).unwrap();
            assert!(!flags.contains(OFlags::NONBLOCK), "{kind:?}");
        }
    });
}

fn a_wait_ends_with_the_runtime(place: Place) {
    alone(|| {
        for kind in Kind::ALL {
            let (input, writer) = kind.input();
            with_stdin(input, || {
                let runtime = place.runtime_of(1);
                let read = || stdin().read_line(&mut String::new());
                let waiting = place.spawn_waiting(&runtime, read);
                drop(runtime);
                let result = waiting.join().unwrap();
                assert_eq!(errno(result), Errno::CANCELED, "{kind:?}");
            });
            drop(writer);
        }
    });
}

fn a_wait_ends_in_time(place: Place) {
    alone(|| {
        for kind in Kind::ALL {
            let (input, mut writer) = kind.input();
            with_stdin(input, || {
                place.run(|| {
                    let read = || {
                        let mut line = String::new();
                        stdin().read_line(&mut line).map(|_| line)
                    };
                    let result = timeout(Duration::from_millis(5), read);
                    assert_eq!(errno(result.unwrap()), Errno::TIMEDOUT, "{kind:?}");
                    // No byte is lost by that.
                    writer.write_all(b"late\n").unwrap();
                    assert_eq!(read().unwrap(), "late\n");
                });
            });
        }
    });
}
