//! Registered files: the same results as of any others, in every place.

use std::io::{Read, Seek, SeekFrom, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;
use uthread::fs::File;
use uthread::io::pipe;
use uthread::net::{TcpListener, UdpSocket, UnixDatagram, UnixStream};
use uthread::ring::{self, RegisteredBuffer, RegisteredFile};

use crate::fixtures::registered::{FILES, has, require};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, NO_RING, ON_SEVERAL_WORKERS, behaviours};
use crate::support::{FREE, assert_same, errno, file_of, pair_with_std, pattern};

behaviours![
    (
        EVERYWHERE,
        [
            a_registered_file_is_read_and_written,
            a_file_and_its_registration_share_the_position,
            a_registered_stream_is_read_and_written,
            a_registered_listener_accepts,
            each_kind_of_socket_and_pipe_can_be_registered,
            a_registered_file_goes_with_registered_memory,
            timeouts_of_a_registered_stream_hold,
            a_non_blocking_stream_stays_so,
            errors_of_a_registered_file_are_those_of_the_file,
        ]
    ),
    (
        IN_FIBERS,
        [
            a_waiter_for_a_registered_stream_is_woken,
            more_files_than_the_ring_takes_are_as_good,
        ]
    ),
    (
        ON_SEVERAL_WORKERS,
        [a_registered_file_goes_to_fibers_of_other_workers]
    ),
    (
        &[NO_RING],
        [
            a_file_is_registered_on_a_ring,
            calls_on_a_registered_file_do_not_go_by_its_descriptor,
        ]
    ),
];

fn a_registered_file_is_read_and_written(place: Place) {
    place.run(|| {
        let bytes = pattern(100_000, 1);
        let mut file = RegisteredFile::new(file_of(b""));
        file.write_all(&bytes).unwrap();
        let slices = [b"one".as_slice(), b"two"].map(std::io::IoSlice::new);
        assert_eq!(file.write_vectored(&slices).unwrap(), 6);
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().len(), 100_006);
        let mut end = [0; 8];
        file.read_exact_at(&mut end, 99_998).unwrap();
        assert_eq!(&end[2..], b"onetwo");
        file.write_all_at(b"ONE", 100_000).unwrap();
        file.rewind().unwrap();
        let mut all = Vec::new();
        assert_eq!(file.read_to_end(&mut all).unwrap(), 100_006);
        assert_same(&all[..100_000], &bytes);
        assert_eq!(&all[100_000..], b"ONEtwo");
        file.seek(SeekFrom::Start(100_000)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "ONEtwo");
    });
}

/// Expects each byte once from fibers or threads that read at the same time.
fn a_file_and_its_registration_share_the_position(place: Place) {
    place.run(|| {
        let file = file_of(&pattern(4000, 2));
        (&file).rewind().unwrap();
        let file = RegisteredFile::new(file);
        let clone = file.try_clone().unwrap();
        let take = |mut file: &File| {
            let (mut sum, mut byte) = (0, [0]);
            while file.read(&mut byte).unwrap() == 1 {
                sum += u64::from(byte[0]);
            }
            sum
        };
        let sum = uthread::thread::scope(|scope| {
            let readers = [&file, &clone, &*file].map(|file| scope.spawn(move || take(file)));
            readers
                .map(|reader| reader.join().unwrap())
                .iter()
                .sum::<u64>()
        });
        let expected: u64 = pattern(4000, 2).into_iter().map(u64::from).sum();
        assert_eq!(sum, expected);
    });
}

fn a_registered_stream_is_read_and_written(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let mut ours = RegisteredFile::new(ours);
        for round in 0..20_u8 {
            theirs.write_all(&[round; 100]).unwrap();
            let mut received = [0; 100];
            assert_eq!(ours.peek(&mut received[..3]).unwrap(), 3);
            ours.read_exact(&mut received).unwrap();
            assert_eq!(received, [round; 100]);
            ours.write_all(&received).unwrap();
            theirs.read_exact(&mut received).unwrap();
        }
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    });
}

fn a_registered_listener_accepts(place: Place) {
    place.run(|| {
        let listener = RegisteredFile::new(TcpListener::bind(FREE).unwrap());
        let address = listener.local_addr().unwrap();
        for _ in 0..3 {
            let client = std::net::TcpStream::connect(address).unwrap();
            let (_, peer) = listener.accept().unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
            let _other = std::net::TcpStream::connect(address).unwrap();
            ring::accept(&*listener).next().unwrap().unwrap();
        }
    });
}

fn each_kind_of_socket_and_pipe_can_be_registered(place: Place) {
    place.run(|| {
        let mut buffer = [0; 10];
        let udp = [0, 0].map(|_| RegisteredFile::new(UdpSocket::bind(FREE).unwrap()));
        udp[0]
            .send_to(b"udp", udp[1].local_addr().unwrap())
            .unwrap();
        let (count, from) = udp[1].recv_from(&mut buffer).unwrap();
        assert_eq!(
            (&buffer[..count], from),
            (&b"udp"[..], udp[0].local_addr().unwrap())
        );
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut ours, mut theirs) = (RegisteredFile::new(ours), RegisteredFile::new(theirs));
        ours.write_all(b"unix").unwrap();
        theirs.read_exact(&mut buffer[..4]).unwrap();
        assert_eq!(&buffer[..4], b"unix");
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        let (ours, theirs) = (RegisteredFile::new(ours), RegisteredFile::new(theirs));
        ours.send(b"datagram").unwrap();
        assert_eq!(theirs.recv(&mut buffer).unwrap(), 8);
        let (reader, writer) = pipe().unwrap();
        let (mut reader, mut writer) = (RegisteredFile::new(reader), RegisteredFile::new(writer));
        writer.write_all(b"pipe").unwrap();
        reader.read_exact(&mut buffer[..4]).unwrap();
        assert_eq!(&buffer[..4], b"pipe");
        drop(writer);
        assert_eq!(reader.read(&mut buffer).unwrap(), 0);
    });
}

fn a_registered_file_goes_with_registered_memory(place: Place) {
    place.run(|| {
        let bytes = pattern(10_000, 3);
        let file = RegisteredFile::new(file_of(&bytes));
        let mut buffer = RegisteredBuffer::new(10_000).unwrap();
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert_same(&buffer, &bytes);
        file.write_all_at(&buffer[5..10], 0).unwrap();
        file.read_exact_at(&mut buffer[..5], 0).unwrap();
        assert_same(&buffer[..5], &bytes[5..10]);
    });
}

fn timeouts_of_a_registered_stream_hold(place: Place) {
    place.run(|| {
        let (ours, _theirs) = pair_with_std();
        let mut ours = RegisteredFile::new(ours);
        ours.set_read_timeout(Some(Duration::from_millis(2)))
            .unwrap();
        assert_eq!(errno(ours.read(&mut [0])), Errno::AGAIN);
    });
}

fn a_non_blocking_stream_stays_so(place: Place) {
    place.run(|| {
        let (ours, mut theirs) = pair_with_std();
        let mut ours = RegisteredFile::new(ours);
        ours.set_nonblocking(true).unwrap();
        assert_eq!(errno(ours.read(&mut [0])), Errno::AGAIN);
        theirs.write_all(b"x").unwrap();
        wait_for_input(&*ours);
        assert_eq!(ours.read(&mut [0]).unwrap(), 1);
    });
}

fn wait_for_input(fd: &impl AsFd) {
    let mut awaited = [rustix::event::PollFd::new(fd, PollFlags::IN)];
    rustix::event::poll(&mut awaited, None).unwrap();
}

fn errors_of_a_registered_file_are_those_of_the_file(place: Place) {
    place.run(|| {
        let mut file = RegisteredFile::new(File::open("Cargo.toml").unwrap());
        assert_eq!(errno(file.write(b"x")), Errno::BADF);
        let mut directory = RegisteredFile::new(File::open(".").unwrap());
        assert_eq!(errno(directory.read(&mut [0])), Errno::ISDIR);
        let (ours, theirs) = pair_with_std();
        let mut ours = RegisteredFile::new(ours);
        crate::support::reset(theirs);
        assert_eq!(errno(ours.read(&mut [0])), Errno::CONNRESET);
    });
}

fn a_waiter_for_a_registered_stream_is_woken(place: Place) {
    let (ours, mut theirs) = pair_with_std();
    place.run(move || {
        let call = || {
            let mut byte = [0];
            RegisteredFile::new(ours).read_exact(&mut byte).unwrap();
            byte
        };
        let byte = place.meanwhile(call, || theirs.write_all(b"x").unwrap());
        assert_eq!(&byte, b"x");
    });
}

fn more_files_than_the_ring_takes_are_as_good(place: Place) {
    let expected = if has(place, FILES) { 1024 } else { 0 };
    place.run(|| {
        let file = file_of(b"text");
        let files =
            Vec::from_iter((0..1030).map(|_| RegisteredFile::new(file.try_clone().unwrap())));
        let registered = files.iter().filter(|file| file.is_registered()).count();
        assert_eq!(registered, expected);
        for file in &files {
            let mut text = [0; 4];
            file.read_exact_at(&mut text, 0).unwrap();
            assert_eq!(&text, b"text");
        }
    });
}

fn a_registered_file_goes_to_fibers_of_other_workers(place: Place) {
    place.run(|| {
        for byte in 0..=255 {
            let file = RegisteredFile::new(file_of(&[byte]));
            uthread::scope(|scope| {
                let check = |file: &File| {
                    let mut read = [0];
                    file.read_exact_at(&mut read, 0).unwrap();
                    assert_eq!(read, [byte]);
                };
                let shared = &file;
                scope.spawn(move || check(shared));
                scope.spawn(move || check(shared));
                uthread::yield_now();
                check(&file);
            });
            uthread::spawn(move || drop(file));
        }
    });
}

fn a_file_is_registered_on_a_ring(place: Place) {
    require(place, FILES);
    place.run(|| assert!(RegisteredFile::new(file_of(b"")).is_registered()));
}

/// Gives the number of the descriptor to another file.
fn calls_on_a_registered_file_do_not_go_by_its_descriptor(place: Place) {
    require(place, FILES);
    place.run(|| {
        let registered = RegisteredFile::new(file_of(b"right"));
        let other = file_of(b"wrong");
        let number = registered.as_raw_fd();
        #[allow(unsafe_code, reason = "a number that is to mean another file")]
        // SAFETY: the owner of the number keeps it open, and it is not closed here.
        let number = unsafe { OwnedFd::from_raw_fd(number) };
        let mut number = ManuallyDrop::new(number);
        rustix::io::dup2(&other, &mut number).unwrap();
        let mut text = [0; 5];
        registered.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"right");
        let inner = registered.into_inner();
        inner.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"wrong");
    });
}
