//! Every read and write on every kind of descriptor has the outcome that it has in `std`, wherever
//! it ends at once there.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::ptr;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fs::{CWD, FileType, MemfdFlags, Mode, OFlags, inotify, memfd_create, mknodat};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use tempfile::tempdir;
use uthread::io::{PipeReader, PipeWriter};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use crate::support::file_of;
use crate::support::standard::terminal;

behaviours![(
    EVERYWHERE,
    [
        files_of_every_kind_are_read_and_written_as_in_std,
        pipe_ends_are_read_and_written_as_in_std,
    ]
)];

/// A new descriptor of some kind, and others that keep it as it is.
struct Subject {
    fd: OwnedFd,
    _others: Vec<OwnedFd>,
}

fn alone(fd: impl Into<OwnedFd>) -> Subject {
    beside(fd, [])
}

fn beside(fd: impl Into<OwnedFd>, others: impl Into<Vec<OwnedFd>>) -> Subject {
    Subject {
        fd: fd.into(),
        _others: others.into(),
    }
}

/// Makes a descriptor that is ready, or is not if there is such a state.
type Make = fn(is_ready: bool) -> Subject;

const KINDS: [(&str, Make); 19] = [
    ("file", |_| alone(file_of(b"contents"))),
    ("directory", |_| alone(fs::File::open("/").unwrap())),
    ("pipe reader", pipe_reader),
    ("pipe writer", pipe_writer),
    ("FIFO", fifo),
    ("stream socket", stream),
    ("datagram socket", datagram),
    ("eventfd", |is_ready| {
        alone(eventfd(u32::from(is_ready), EventfdFlags::empty()).unwrap())
    }),
    ("timerfd", timer),
    ("signalfd", signals),
    ("inotify", watch),
    ("pidfd", |_| {
        alone(pidfd_open(getpid(), PidfdFlags::empty()).unwrap())
    }),
    ("epoll", |_| {
        alone(epoll::create(epoll::CreateFlags::empty()).unwrap())
    }),
    ("terminal", |is_ready| {
        let (terminal, mut person) = terminal();
        if is_ready {
            person.write_all(b"line\n").unwrap();
        }
        beside(terminal, [OwnedFd::from(person)])
    }),
    ("person's end of a terminal", |is_ready| {
        let (terminal, person) = terminal();
        if is_ready {
            rustix::io::write(&terminal, b"line\n").unwrap();
        }
        beside(OwnedFd::from(person), [terminal])
    }),
    ("null", |_| device("/dev/null")),
    ("zero", |_| device("/dev/zero")),
    ("memfd", |_| {
        let fd = memfd_create("memory", MemfdFlags::empty()).unwrap();
        rustix::io::pwrite(&fd, b"contents", 0).unwrap();
        alone(fd)
    }),
    ("descriptor of a path", |_| {
        alone(rustix::fs::open("/dev/null", OFlags::PATH, Mode::empty()).unwrap())
    }),
];

fn device(path: &str) -> Subject {
    alone(rustix::fs::open(path, OFlags::RDWR, Mode::empty()).unwrap())
}

fn pipe_reader(is_ready: bool) -> Subject {
    let (reader, mut writer) = io::pipe().unwrap();
    if is_ready {
        writer.write_all(b"contents").unwrap();
    }
    beside(reader, [writer.into()])
}

fn pipe_writer(is_ready: bool) -> Subject {
    let (reader, writer) = io::pipe().unwrap();
    if !is_ready {
        let capacity = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
        rustix::io::write(&writer, &vec![0; capacity]).unwrap();
    }
    beside(writer, [reader.into()])
}

fn fifo(is_ready: bool) -> Subject {
    let directory = tempdir().unwrap();
    let path = directory.path().join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let fd = rustix::fs::open(&path, OFlags::RDWR, Mode::empty()).unwrap();
    if is_ready {
        rustix::io::write(&fd, b"contents").unwrap();
    }
    alone(fd)
}

fn stream(is_ready: bool) -> Subject {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    if is_ready {
        theirs.write_all(b"contents").unwrap();
    }
    beside(ours, [theirs.into()])
}

fn datagram(is_ready: bool) -> Subject {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    if is_ready {
        theirs.send(b"contents").unwrap();
    }
    beside(ours, [theirs.into()])
}

fn timer(is_ready: bool) -> Subject {
    let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::empty()).unwrap();
    if is_ready {
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: 0,
                tv_nsec: 1,
            },
        };
        timerfd_settime(&fd, TimerfdTimerFlags::empty(), &once).unwrap();
    }
    alone(fd)
}

/// Returns a descriptor that is never ready, as no signal is in its set.
#[allow(unsafe_code, reason = "`rustix` has no such call")]
fn signals(_: bool) -> Subject {
    // SAFETY: the set is an integer array in a structure, for which zeros are valid.
    let none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set outlives the call.
    let fd = unsafe { libc::signalfd(-1, ptr::from_ref(&none), 0) };
    assert!(fd >= 0);
    // SAFETY: the new descriptor has no other owner.
    alone(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn watch(is_ready: bool) -> Subject {
    let fd = inotify::init(inotify::CreateFlags::empty()).unwrap();
    if is_ready {
        let directory = tempdir().unwrap();
        inotify::add_watch(&fd, directory.path(), inotify::WatchFlags::CREATE).unwrap();
        fs::create_dir(directory.path().join("new")).unwrap();
    }
    alone(fd)
}

/// A call, the events that it may wait for, and whether it has no bytes.
type Call = (&'static str, PollFlags, bool);

const READS: [Call; 5] = [
    ("read", PollFlags::IN, false),
    ("read three bytes", PollFlags::IN, false),
    ("read nothing", PollFlags::IN, true),
    ("read into buffers", PollFlags::IN, false),
    ("read into empty buffers", PollFlags::IN, true),
];

const WRITES: [Call; 5] = [
    ("write", PollFlags::OUT, false),
    ("write three bytes", PollFlags::OUT, false),
    ("write nothing", PollFlags::OUT, true),
    ("write buffers", PollFlags::OUT, false),
    ("write empty buffers", PollFlags::OUT, true),
];

const POSITIONED: [Call; 4] = [
    ("read at an offset", PollFlags::IN, false),
    ("read nothing at an offset", PollFlags::IN, true),
    ("write at an offset", PollFlags::OUT, false),
    ("write nothing at an offset", PollFlags::OUT, true),
];

/// The bytes of a file or a signal, and a number of an eventfd.
const BYTES: usize = 512;
const NUMBER: [u8; 8] = 1_u64.to_ne_bytes();

type Outcome = Result<(usize, Vec<u8>), Option<i32>>;

type Perform<F> = fn(&mut F, &str) -> Outcome;

fn outcome(call: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> Outcome {
    let mut buffer = vec![0; BYTES];
    match call(&mut buffer) {
        Ok(count) => Ok((count, buffer)),
        Err(error) => Err(error.raw_os_error()),
    }
}

fn read(file: &mut impl Read, call: &str) -> Outcome {
    outcome(|buffer| match call {
        "read" => file.read(buffer),
        "read three bytes" => file.read(&mut buffer[..3]),
        "read nothing" => file.read(&mut []),
        "read into buffers" => {
            let (left, right) = buffer.split_at_mut(4);
            file.read_vectored(&mut [left, right].map(IoSliceMut::new))
        }
        _ => file.read_vectored(&mut [&mut [], &mut []].map(|part| IoSliceMut::new(part))),
    })
}

fn write(file: &mut impl Write, call: &str) -> Outcome {
    outcome(|_| match call {
        "write" => file.write(&NUMBER),
        "write three bytes" => file.write(&NUMBER[..3]),
        "write nothing" => file.write(&[]),
        "write buffers" => {
            let (left, right) = NUMBER.split_at(4);
            file.write_vectored(&[left, right].map(IoSlice::new))
        }
        _ => file.write_vectored(&[&[], &[]].map(|part| IoSlice::new(part))),
    })
}

fn read_or_write<F: Read + Write + FileExt>(file: &mut F, call: &str) -> Outcome {
    match call {
        "read at an offset" => outcome(|buffer| file.read_at(buffer, 0)),
        "read nothing at an offset" => outcome(|_| file.read_at(&mut [], 0)),
        "write at an offset" => outcome(|_| file.write_at(&NUMBER, 0)),
        "write nothing at an offset" => outcome(|_| file.write_at(&[], 0)),
        _ if call.starts_with("read") => read(file, call),
        _ => write(file, call),
    }
}

/// Returns `true` if the call waits on a blocking descriptor.
fn waits(kind: &str, fd: impl AsFd, (_, events, is_empty): Call) -> bool {
    if is_empty && kind != "inotify" || ["pidfd", "epoll"].contains(&kind) {
        return false;
    }
    let mut asked = [PollFd::new(&fd, events)];
    poll(&mut asked, Some(&Timespec::default())).unwrap() == 0
}

/// Makes the call on a new descriptor of this kind. Returns `None` if it would wait.
fn try_out<F: From<OwnedFd>>(
    (kind, make): (&str, Make),
    (is_ready, is_nonblocking): (bool, bool),
    call: Call,
    perform: Perform<F>,
) -> Option<Outcome> {
    let subject = make(is_ready);
    if is_ready && READY_LATER.contains(&kind) {
        poll(&mut [PollFd::new(&subject.fd, PollFlags::IN)], None).unwrap();
    }
    if is_nonblocking {
        let flags = rustix::fs::fcntl_getfl(&subject.fd).unwrap();
        // A descriptor of a path has no flags to set.
        let _ = rustix::fs::fcntl_setfl(&subject.fd, flags | OFlags::NONBLOCK);
    } else if waits(kind, &subject.fd, call) {
        return None;
    }
    Some(perform(&mut F::from(subject.fd), call.0))
}

/// The kinds that become ready after the call that makes them so.
const READY_LATER: [&str; 3] = ["timerfd", "terminal", "person's end of a terminal"];

/// Makes the calls on descriptors of these kinds, by a type of `std` and by ours.
fn compare<Theirs: From<OwnedFd>, Ours: From<OwnedFd>>(
    place: Place,
    kinds: &[(&'static str, Make)],
    calls: &[Call],
    perform: (Perform<Theirs>, Perform<Ours>),
) {
    let mut trials = Vec::new();
    for &kind in kinds {
        for &call in calls {
            for state in [(false, false), (false, true), (true, false), (true, true)] {
                let theirs = try_out(kind, state, call, perform.0);
                trials.extend(theirs.map(|theirs| (kind, call, state, theirs)));
            }
        }
    }
    place.run(|| {
        let differs = |(kind, call, state, theirs): (_, Call, _, _)| {
            let ours = try_out(kind, state, call, perform.1);
            let what = (kind.0, call.0, state);
            (ours.as_ref() != Some(&theirs)).then(|| format!("{what:?}: {ours:?}, not {theirs:?}"))
        };
        let differ: Vec<_> = trials.into_iter().filter_map(differs).collect();
        assert!(differ.is_empty(), "{differ:#?}");
    });
}

fn files_of_every_kind_are_read_and_written_as_in_std(place: Place) {
    let calls = [&READS[..], &WRITES, &POSITIONED].concat();
    let perform = (
        read_or_write::<fs::File> as fn(&mut _, &_) -> _,
        read_or_write::<uthread::fs::File> as fn(&mut _, &_) -> _,
    );
    compare(place, &KINDS, &calls, perform);
}

fn pipe_ends_are_read_and_written_as_in_std(place: Place) {
    let readers = (
        read as fn(&mut io::PipeReader, &_) -> _,
        read as fn(&mut PipeReader, &_) -> _,
    );
    compare(place, &KINDS, &READS, readers);
    let writers = (
        write as fn(&mut io::PipeWriter, &_) -> _,
        write as fn(&mut PipeWriter, &_) -> _,
    );
    compare(place, &KINDS, &WRITES, writers);
}
