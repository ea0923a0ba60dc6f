//! Raw requests: each common operation, its errors, and the requests that are rejected.

use std::ffi::CString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use tempfile::tempdir;
use uthread::ring;
use uthread::ring::io_uring::squeue::{Entry, Flags};
use uthread::ring::io_uring::types::{Fd, Timespec};
use uthread::ring::io_uring::{cqueue, opcode};
use uthread::spawn;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, Gap, NO_RING, behaviours, lacks};
use crate::support::FREE;
use crate::support::requests::{outcomes, result_of, submit, submit_all};

behaviours![
    (
        &[NO_RING],
        [
            each_common_operation_of_files_is_carried_out,
            each_common_operation_of_names_is_carried_out,
            each_common_operation_of_sockets_is_carried_out,
            each_common_operation_of_pipes_is_carried_out,
            the_kernel_is_asked_what_it_can_do,
            an_error_is_the_kernels,
            endless_requests_are_refused,
            entries_come_from_any_iterator_with_any_user_data,
            more_requests_than_the_queue_holds_are_carried_out,
            a_zero_copy_send_returns_after_its_notification,
            a_request_waits_without_its_worker,
        ]
    ),
    (
        &[Gap(Place::is_of_uring, "there is a ring")],
        [without_a_ring_the_error_has_a_remedy]
    ),
    (EVERYWHERE, [no_entries_are_no_request]),
];

fn path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Performs a request, and checks its result.
fn check(entry: Entry, expected: u32) {
    let text = format!("{entry:?}");
    assert_eq!(result_of(entry), expected, "{text}");
}

fn each_common_operation_of_files_is_carried_out(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let (here, file) = (Fd(libc::AT_FDCWD), path(&directory.path().join("file")));
        let flags = libc::O_CREAT | libc::O_RDWR | libc::O_CLOEXEC;
        let open = opcode::OpenAt::new(here, file.as_ptr())
            .flags(flags)
            .mode(0o600);
        let fd = Fd(result_of(open.build()).cast_signed());
        let (mut buffer, text) = ([0_u8; 4], b"text");
        check(opcode::Write::new(fd, text.as_ptr(), 4).build(), 4);
        check(
            opcode::Read::new(fd, buffer.as_mut_ptr(), 4)
                .offset(0)
                .build(),
            4,
        );
        assert_eq!(&buffer, text);
        let slice = io::IoSlice::new(b"and more");
        let vector = (&raw const slice).cast();
        check(opcode::Writev::new(fd, vector, 1).offset(4).build(), 8);
        let slice = io::IoSliceMut::new(&mut buffer);
        let vector = (&raw const slice).cast();
        check(opcode::Readv::new(fd, vector, 1).offset(8).build(), 4);
        assert_eq!(&buffer, b"more");
        check(opcode::Fsync::new(fd).build(), 0);
        check(opcode::Fallocate::new(fd, 4096).build(), 0);
        check(
            opcode::Fadvise::new(fd, 4096, libc::POSIX_FADV_SEQUENTIAL).build(),
            0,
        );
        let mut status = std::mem::MaybeUninit::<libc::statx>::zeroed();
        let statx = opcode::Statx::new(here, file.as_ptr(), status.as_mut_ptr().cast());
        check(statx.mask(libc::STATX_SIZE).build(), 0);
        #[allow(unsafe_code, reason = "plain integers, which the kernel has written")]
        // SAFETY: zeroes are valid for each of them.
        let status = unsafe { status.assume_init() };
        assert_eq!(status.stx_size, 4096);
        check(opcode::Close::new(fd).build(), 0);
    });
}

fn each_common_operation_of_names_is_carried_out(place: Place) {
    place.run(|| {
        if !ring::supported(opcode::MkDirAt::CODE) {
            lacks("requests that make names");
        }
        let directory = tempdir().unwrap();
        let here = Fd(libc::AT_FDCWD);
        let names =
            ["folder", "file", "link", "moved"].map(|name| path(&directory.path().join(name)));
        let [folder, file, link, moved] = &names;
        std::fs::write(directory.path().join("file"), b"").unwrap();
        check(
            opcode::MkDirAt::new(here, folder.as_ptr())
                .mode(0o700)
                .build(),
            0,
        );
        check(
            opcode::LinkAt::new(here, file.as_ptr(), here, link.as_ptr()).build(),
            0,
        );
        check(
            opcode::RenameAt::new(here, link.as_ptr(), here, moved.as_ptr()).build(),
            0,
        );
        check(
            opcode::SymlinkAt::new(here, file.as_ptr(), link.as_ptr()).build(),
            0,
        );
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 4);
        for name in [file, link, moved] {
            check(opcode::UnlinkAt::new(here, name.as_ptr()).build(), 0);
        }
        let remove = opcode::UnlinkAt::new(here, folder.as_ptr()).flags(libc::AT_REMOVEDIR);
        check(remove.build(), 0);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    });
}

fn each_common_operation_of_sockets_is_carried_out(place: Place) {
    place.run(|| {
        let listener = TcpListener::bind(FREE).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let nowhere = std::ptr::null_mut();
        let accept = opcode::Accept::new(Fd(listener.as_raw_fd()), nowhere, nowhere.cast());
        let server = Fd(result_of(accept.build()).cast_signed());
        let client = Fd(client.as_raw_fd());
        let mut buffer = [0_u8; 4];
        let events = rustix::event::PollFlags::OUT.bits();
        let ready = result_of(opcode::PollAdd::new(server, events.into()).build());
        assert_eq!(ready, events.into());
        check(opcode::Send::new(server, b"text".as_ptr(), 4).build(), 4);
        check(opcode::Recv::new(client, buffer.as_mut_ptr(), 4).build(), 4);
        assert_eq!(&buffer, b"text");
        let slice = io::IoSlice::new(b"again");
        let mut message = std::mem::MaybeUninit::<libc::msghdr>::zeroed();
        #[allow(unsafe_code, reason = "zeroes are an empty message")]
        // SAFETY: integers and pointers, for which zero is valid.
        let message = unsafe { message.assume_init_mut() };
        message.msg_iov = (&raw const slice).cast_mut().cast();
        message.msg_iovlen = 1;
        let send = opcode::SendMsg::new(client, &raw const *message);
        check(send.build(), 5);
        let mut five = [0_u8; 5];
        let mut slice = io::IoSliceMut::new(&mut five);
        message.msg_iov = (&raw mut slice).cast();
        check(opcode::RecvMsg::new(server, &raw mut *message).build(), 5);
        assert_eq!(&five, b"again");
        check(opcode::Shutdown::new(server, libc::SHUT_WR).build(), 0);
        check(opcode::Recv::new(client, buffer.as_mut_ptr(), 4).build(), 0);
        check(opcode::Close::new(server).build(), 0);
        if ring::supported(opcode::Socket::CODE) {
            let socket = opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0);
            let socket = Fd(result_of(socket.build()).cast_signed());
            let address = listener.local_addr().unwrap();
            let address = rustix::net::SocketAddrAny::from(address);
            let (pointer, length) = (address.as_ptr().cast(), address.addr_len());
            check(opcode::Connect::new(socket, pointer, length).build(), 0);
            check(opcode::Close::new(socket).build(), 0);
        }
    });
}

fn each_common_operation_of_pipes_is_carried_out(place: Place) {
    place.run(|| {
        let (first_reader, mut first) = io::pipe().unwrap();
        let (mut second_reader, second) = io::pipe().unwrap();
        first.write_all(b"text").unwrap();
        let (from, to) = (Fd(first_reader.as_raw_fd()), Fd(second.as_raw_fd()));
        check(opcode::Tee::new(from, to, 2).build(), 2);
        check(opcode::Splice::new(from, -1, to, -1, 4).build(), 4);
        let mut text = [0; 6];
        second_reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"tetext");
        check(opcode::Nop::new().build(), 0);
        let moment = Timespec::new().nsec(1);
        let error = submit(opcode::Timeout::new(&raw const moment).build()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::TIME.raw_os_error()));
    });
}

fn the_kernel_is_asked_what_it_can_do(place: Place) {
    place.run(|| {
        assert!(ring::supported(opcode::Nop::CODE));
        assert!(ring::supported(opcode::Read::CODE));
        assert!(!ring::supported(u8::MAX));
    });
}

fn an_error_is_the_kernels(place: Place) {
    place.run(|| {
        let error = submit(opcode::Close::new(Fd(i32::MAX)).build()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
        let mut byte = 0_u8;
        let (reader, _writer) = io::pipe().unwrap();
        let entry = opcode::Write::new(Fd(reader.as_raw_fd()), &raw mut byte, 1).build();
        let error = submit(entry).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
    });
}

fn endless_requests_are_refused(place: Place) {
    place.run(|| {
        let nop = || opcode::Nop::new().build();
        let refused = |entries: Vec<Entry>| submit_all(entries).unwrap_err();
        let cases = [
            vec![nop().flags(Flags::SKIP_SUCCESS)],
            vec![nop().flags(Flags::IO_DRAIN)],
            vec![nop(), nop().flags(Flags::IO_LINK)],
            vec![nop().flags(Flags::IO_HARDLINK)],
            vec![opcode::PollAdd::new(Fd(0), 1).multi(true).build()],
            vec![nop(); 33],
        ];
        for entries in cases {
            let text = format!("{entries:?}");
            assert_eq!(refused(entries).kind(), ErrorKind::InvalidInput, "{text}");
        }
        let error = submit(nop().flags(Flags::IO_LINK)).unwrap_err();
        assert!(error.to_string().contains("link"), "{error}");
    });
}

/// Checks that the driver finds a request by its `user_data`, also beside entries that had those of
/// the driver's own requests.
fn entries_come_from_any_iterator_with_any_user_data(place: Place) {
    place.run(|| {
        let nop = |user_data| opcode::Nop::new().build().user_data(user_data);
        // All bits, the lowest and the highest ones: some are the driver's tags.
        let values = (0..64).flat_map(|bit| [1 << bit, !(1 << bit), u64::MAX << bit]);
        let values: Vec<u64> = values.chain([0, u64::MAX]).collect();
        for values in values.chunks(32) {
            // The iterator suspends the fiber and makes requests itself.
            let entries = values.iter().map(|&value| {
                uthread::yield_now();
                assert_eq!(result_of(nop(value)), 0);
                nop(value)
            });
            assert_eq!(outcomes(entries), vec![Ok(0); values.len()]);
        }
        let endless = std::iter::repeat_with(|| nop(1));
        assert_eq!(
            submit_all(endless).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    });
}

fn more_requests_than_the_queue_holds_are_carried_out(place: Place) {
    place.run(|| {
        let fibers: Vec<_> = (0..40)
            .map(|_| spawn(|| outcomes((0..30).map(|_| opcode::Nop::new().build()))))
            .collect();
        for fiber in fibers {
            assert_eq!(fiber.join().unwrap(), [Ok(0); 30]);
        }
    });
}

fn a_zero_copy_send_returns_after_its_notification(place: Place) {
    place.run(|| {
        if !ring::supported(opcode::SendZc::CODE) {
            crate::harness::lacks("no zero-copy send");
        }
        let listener = TcpListener::bind(FREE).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let text = vec![b'x'; 100_000];
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            server.read_to_end(&mut received).map(|_| received)
        });
        let mut sent = 0;
        while sent < text.len() {
            let rest = &text[sent..];
            let send =
                opcode::SendZc::new(Fd(client.as_raw_fd()), rest.as_ptr(), rest.len() as u32);
            let completion = submit(send.build()).unwrap();
            assert!(completion.notification.is_some(), "{completion:?}");
            assert!(cqueue::more(completion.flags));
            sent += completion.result as usize;
        }
        drop(client);
        assert!(reader.join().unwrap().unwrap() == text);
        let error =
            submit(opcode::SendZc::new(Fd(i32::MAX), text.as_ptr(), 1).build()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
    });
}

fn a_request_waits_without_its_worker(place: Place) {
    let (reader, mut writer) = io::pipe().unwrap();
    place.run(move || {
        let call = move || {
            let mut byte = 0_u8;
            let read = opcode::Read::new(Fd(reader.as_raw_fd()), &raw mut byte, 1);
            let count = result_of(read.build());
            (count, byte)
        };
        let result = place.meanwhile(call, || writer.write_all(b"x").unwrap());
        assert_eq!(result, (1, b'x'));
    });
}

fn without_a_ring_the_error_has_a_remedy(place: Place) {
    place.run(|| {
        assert!(!ring::supported(opcode::Nop::CODE));
        let nop = opcode::Nop::new().build();
        let error = submit(nop.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("Driver::Uring"), "{error}");
        assert_eq!(
            submit_all([nop]).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    });
}

fn no_entries_are_no_request(place: Place) {
    place.run(|| match submit_all([]) {
        Ok(results) => assert!(results.is_empty() && place.is_of_uring()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
    });
}
