//! The end of a registered file: it is closed or returned, on whatever thread and in whatever way
//! its registration ends.

use std::io::{ErrorKind, Read, Seek, Write};
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::null_mut;
use std::time::Duration;

use rustix::io::Errno;
use uthread::io::pipe;
use uthread::net::{TcpListener, TcpStream};
use uthread::ring::io_uring::{opcode, types};
use uthread::ring::{FileSlot, RegisteredFile};

use crate::fixtures::registered::{FILES, has, require};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, NO_RING, behaviours};
use crate::support::requests::result_of;
use crate::support::{errno, file_of, pair_with_std};

behaviours![
    (
        EVERYWHERE,
        [
            a_borrowed_file_is_given_back,
            an_inner_file_goes_on_without_its_ring,
            a_dropped_stream_is_closed,
            a_stream_dropped_by_a_thread_is_closed,
        ]
    ),
    (
        IN_FIBERS,
        [
            a_stream_dropped_while_its_worker_sleeps_is_closed,
            a_registered_file_outlives_its_runtime,
            a_stream_left_to_the_end_of_the_runtime_is_closed,
            the_end_of_the_runtime_ends_a_wait_for_a_registered_stream,
            a_cancelled_fiber_waits_no_more_for_a_registered_stream,
            a_deadline_ends_a_wait_for_a_registered_stream,
        ]
    ),
    (
        &[NO_RING],
        [
            the_places_of_files_are_used_again,
            a_slot_dropped_while_its_worker_sleeps_is_closed,
        ]
    ),
];

fn a_borrowed_file_is_given_back(place: Place) {
    place.run(|| {
        let mut file = file_of(b"text");
        for _ in 0..3 {
            let mut registered = RegisteredFile::new(&mut file);
            registered.rewind().unwrap();
            let mut text = String::new();
            registered.read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
            drop(registered);
            // Before the ring has had occasion to forget it, and after.
            for _ in 0..2 {
                file.read_exact_at(&mut [0; 4], 0).unwrap();
                uthread::yield_now();
            }
        }
    });
}

fn an_inner_file_goes_on_without_its_ring(place: Place) {
    place.run(|| {
        let mut files = Vec::from_iter((0..10_u8).map(|byte| file_of(&[byte])));
        for _ in 0..3 {
            let registered = Vec::from_iter(files.drain(..).map(RegisteredFile::new));
            files.extend(registered.into_iter().map(RegisteredFile::into_inner));
            // Others get the places.
            let _others = Vec::from_iter((0..10).map(|_| RegisteredFile::new(file_of(b"x"))));
            for (byte, file) in (0..).zip(&files) {
                let mut read = [0];
                file.read_exact_at(&mut read, 0).unwrap();
                assert_eq!(read, [byte]);
            }
        }
    });
}

fn a_dropped_stream_is_closed(place: Place) {
    place.run(|| {
        for _ in 0..3 {
            let (ours, theirs) = pair_with_std();
            let mut theirs = TcpStream::from(theirs);
            drop(RegisteredFile::new(ours));
            assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
        }
    });
}

fn a_stream_dropped_by_a_thread_is_closed(place: Place) {
    place.run(|| {
        for _ in 0..3 {
            let (ours, theirs) = pair_with_std();
            let mut theirs = TcpStream::from(theirs);
            let ours = RegisteredFile::new(ours);
            let thread = std::thread::spawn(move || drop(ours));
            assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
            thread.join().unwrap();
        }
    });
}

/// Catches a drop that does not wake the worker: nothing else would end that sleep.
fn a_stream_dropped_while_its_worker_sleeps_is_closed(place: Place) {
    let runtime = place.runtime();
    let (ours, mut theirs) = pair_with_std();
    let registered = runtime.run(|| RegisteredFile::new(ours));
    let (mut silent, _writer) = pipe().unwrap();
    let sleeps = place.spawn_waiting(&runtime, move || silent.read(&mut [0]).map(drop));
    drop(registered);
    assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    sleeps.cancel();
    assert_eq!(errno(sleeps.join().unwrap()), Errno::CANCELED);
}

fn a_registered_file_outlives_its_runtime(place: Place) {
    let runtime = place.runtime();
    let file = runtime.run(|| RegisteredFile::new(file_of(b"text")));
    drop(runtime);
    assert_eq!(file.is_registered(), has(place, FILES));
    let read = || {
        let mut text = [0; 4];
        file.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"text");
    };
    read();
    // A fiber of another ring, which has a file of its own at that place, reads the same file.
    place.run(|| {
        let _other = RegisteredFile::new(file_of(b"else"));
        read();
    });
}

fn a_stream_left_to_the_end_of_the_runtime_is_closed(place: Place) {
    let runtime = place.runtime();
    let [(ours, mut theirs), (kept, mut other)] = [(); 2].map(|()| pair_with_std());
    let kept = runtime.run(|| {
        mem::forget(RegisteredFile::new(ours.try_clone().unwrap()));
        drop(RegisteredFile::new(ours));
        RegisteredFile::new(kept)
    });
    drop(runtime);
    drop(kept);
    // At once, not when the kernel has cleared the ring away.
    other.set_nonblocking(true).unwrap();
    assert_eq!(other.read(&mut [0]).unwrap(), 0);
    theirs.set_nonblocking(true).unwrap();
    // The leaked clone has a descriptor, too.
    assert_eq!(
        theirs.read(&mut [0]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

fn the_end_of_the_runtime_ends_a_wait_for_a_registered_stream(place: Place) {
    let runtime = place.runtime();
    let (ours, _theirs) = pair_with_std();
    let waits = place.spawn_waiting(&runtime, move || {
        let mut ours = RegisteredFile::new(ours);
        [ours.read(&mut [0]), ours.read(&mut [0])].map(errno)
    });
    drop(runtime);
    assert_eq!(waits.join().unwrap(), [Errno::CANCELED; 2]);
}

fn a_cancelled_fiber_waits_no_more_for_a_registered_stream(place: Place) {
    let runtime = place.runtime();
    let (ours, mut theirs) = pair_with_std();
    let waits = place.spawn_waiting(&runtime, move || {
        let mut ours = RegisteredFile::new(ours);
        errno(ours.read(&mut [0]))
    });
    waits.cancel();
    assert_eq!(waits.join().unwrap(), Errno::CANCELED);
    assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
}

fn a_deadline_ends_a_wait_for_a_registered_stream(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let mut ours = RegisteredFile::new(ours);
        let late = uthread::timeout(Duration::from_millis(2), || errno(ours.read(&mut [0])));
        assert_eq!(late.unwrap(), Errno::TIMEDOUT);
        theirs.write_all(b"x").unwrap();
        ours.read_exact(&mut [0]).unwrap();
    });
}

fn the_places_of_files_are_used_again(place: Place) {
    require(place, FILES);
    place.run(|| {
        let file = file_of(b"");
        let register = |_| RegisteredFile::new(file.try_clone().unwrap());
        // Without a call meanwhile that the ring would have to carry out.
        for _ in 0..10 {
            let files = Vec::from_iter((0..300).map(register));
            assert!(files.iter().all(RegisteredFile::is_registered));
            std::thread::spawn(move || drop(files)).join().unwrap();
        }
    });
}

/// Less than a worker sleeps without an event, and more than a kernel takes to close a file.
const SLEEP_MIN: Duration = Duration::from_secs(2);

/// As for a stream. The connection has no descriptor.
fn a_slot_dropped_while_its_worker_sleeps_is_closed(place: Place) {
    require(place, FILES);
    let runtime = place.runtime();
    let (slot, mut theirs) = runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let slot = FileSlot::reserve().unwrap();
        let target = types::DestinationSlot::try_from_slot_target(slot.index()).unwrap();
        let fd = types::Fd(listener.as_raw_fd());
        let accept = opcode::Accept::new(fd, null_mut(), null_mut()).file_index(Some(target));
        assert_eq!(result_of(accept.build()), 0);
        let send = opcode::Send::new(types::Fixed(slot.index()), b"x".as_ptr(), 1);
        assert_eq!(result_of(send.build()), 1);
        (slot, theirs)
    });
    theirs.read_exact(&mut [0]).unwrap();
    let (mut silent, _writer) = pipe().unwrap();
    let sleeps = place.spawn_waiting(&runtime, move || silent.read(&mut [0]).map(drop));
    theirs.set_read_timeout(Some(SLEEP_MIN)).unwrap();
    drop(slot);
    assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    sleeps.cancel();
    assert_eq!(errno(sleeps.join().unwrap()), Errno::CANCELED);
}
