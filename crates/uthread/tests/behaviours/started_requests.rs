//! Requests that are started now and waited for later: in any order, by callbacks, cancelled, dropped
//! and forgotten.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::mem;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use tempfile::tempfile;
use uthread::ring::io_uring::opcode;
use uthread::ring::io_uring::squeue::Flags;
use uthread::ring::io_uring::types::{Fd, Timespec};
use uthread::ring::{self, Request, Requests};
use uthread::{spawn, yield_now};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, Gap, IN_FIBERS, NO_RING, ON_WORKERS, behaviours};
use crate::support::errno;

behaviours![
    (
        EVERYWHERE,
        [
            requests_are_waited_for_in_any_order,
            callbacks_start_others,
            errors_are_the_calls,
            a_forgotten_request_ends_with_the_scope,
            a_cancelled_request_returns_its_buffer,
            a_dropped_request_takes_nothing,
            a_panic_ends_what_was_started,
            a_panic_of_a_callback_ends_the_others,
            nothing_started_is_nothing_to_wait_for,
        ]
    ),
    (
        ON_WORKERS,
        [
            callbacks_are_called_in_the_order_of_the_ends,
            more_are_in_flight_than_a_queue_holds,
            both_directions_of_a_socket_wait_at_once,
            a_deadline_ends_a_wait,
        ]
    ),
    (
        IN_FIBERS,
        [
            a_cancelled_fiber_gets_its_buffers_back,
            callbacks_of_a_cancelled_fiber_are_called,
            the_end_of_the_runtime_ends_what_was_started,
        ]
    ),
    (
        &[NO_RING],
        [
            a_chain_is_carried_out_in_its_order,
            raw_requests_are_cancelled,
            callbacks_get_the_results_of_raw_requests,
            forgotten_raw_requests_end_with_the_scope,
            refused_entries_start_nothing,
        ]
    ),
    (
        &[Gap(Place::is_of_uring, "there is a ring")],
        [raw_requests_need_a_ring]
    ),
];

const SHORT: Duration = Duration::from_millis(20);

fn requests_are_waited_for_in_any_order(place: Place) {
    place.run(|| {
        let file = tempfile().unwrap();
        let parts = ["one ", "two ", "three"];
        let mut read = [[0; 4]; 3];
        ring::requests(|requests| {
            let write = |(at, part): (usize, &&'static str)| {
                requests.write_at(&file, part.as_bytes(), 4 * at as u64)
            };
            let writes = Vec::from_iter(parts.iter().enumerate().map(write));
            for (write, part) in writes.into_iter().zip(parts).rev() {
                let (written, bytes) = write.wait();
                assert_eq!((written.unwrap(), bytes), (part.len(), part.as_bytes()));
            }
            assert_eq!(requests.sync(&file, false).wait().0.unwrap(), 0);
            let buffers = read.iter_mut().enumerate();
            let reads =
                buffers.map(|(at, buffer)| requests.read_at(&file, &mut buffer[..], 4 * at as u64));
            let (count, bytes) = reads.collect::<Vec<_>>().pop().unwrap().wait();
            assert_eq!((count.unwrap(), &bytes[..]), (4, &b"thre"[..]));
        });
        assert_eq!(&read[2], b"thre");
        ring::requests(|requests| {
            let (count, buffer) = requests.read_at(&file, vec![0; 9], 12).wait();
            assert_eq!((count.unwrap(), &buffer[..2]), (1, &b"e\0"[..]));
            assert_eq!(requests.read_at(&file, Vec::new(), 0).wait().0.unwrap(), 0);
        });
    });
}

/// Reads the next piece of a file once a piece has been read.
fn read_on<'scope>(
    requests: &'scope Requests<'scope, '_>,
    file: &'scope File,
    buffer: Vec<u8>,
    next: &'scope Cell<u64>,
    sum: &'scope Cell<u64>,
) {
    let offset = next.replace(next.get() + buffer.len() as u64);
    requests
        .read_at(file, buffer, offset)
        .then(move |count, buffer| {
            let count = count.unwrap();
            sum.set(
                sum.get()
                    + buffer[..count]
                        .iter()
                        .map(|byte| u64::from(*byte))
                        .sum::<u64>(),
            );
            if count > 0 {
                read_on(requests, file, buffer, next, sum);
            }
        });
}

fn callbacks_start_others(place: Place) {
    place.run(|| {
        let mut file = tempfile().unwrap();
        let bytes = Vec::from_iter((0..100_000_u32).map(|number| (number % 251) as u8));
        file.write_all(&bytes).unwrap();
        let (next, sum) = (Cell::new(0), Cell::new(0));
        ring::requests(|requests| {
            for _ in 0..4 {
                read_on(requests, &file, vec![0; 1000], &next, &sum);
            }
        });
        assert_eq!(sum.get(), bytes.iter().map(|byte| u64::from(*byte)).sum());
    });
}

fn errors_are_the_calls(place: Place) {
    place.run(|| {
        let directory = File::open("/").unwrap();
        let (socket, other) = UnixStream::pair().unwrap();
        drop(other);
        ring::requests(|requests| {
            let read = requests.read_at(&directory, vec![0; 1], 0);
            let write = requests.write_at(&directory, &b"x"[..], 0);
            let send = requests.send(&socket, &b"x"[..]);
            assert_eq!(errno(send.wait().0), Errno::PIPE);
            assert_eq!(errno(write.wait().0), Errno::BADF);
            assert_eq!(errno(read.wait().0), Errno::ISDIR);
            assert_eq!(requests.receive(&socket, vec![0; 1]).wait().0.unwrap(), 0);
        });
    });
}

fn a_forgotten_request_ends_with_the_scope(place: Place) {
    place.run(|| {
        let (mut sender, receiver) = UnixStream::pair().unwrap();
        let mut bytes = [0; 4];
        ring::requests(|requests| {
            mem::forget(requests.receive(&receiver, &mut bytes[..]));
            mem::forget(requests.receive(&receiver, vec![0; 4]));
        });
        sender.write_all(b"late").unwrap();
        assert_eq!(bytes, [0; 4]);
        (&receiver).read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"late");
    });
}

fn a_cancelled_request_returns_its_buffer(place: Place) {
    place.run(|| {
        let (_sender, receiver) = UnixStream::pair().unwrap();
        ring::requests(|requests| {
            let receive = requests.receive(&receiver, vec![7; 4]);
            receive.cancel();
            receive.cancel();
            let (result, bytes) = receive.wait();
            assert_eq!((errno(result), bytes), (Errno::CANCELED, vec![7; 4]));
        });
    });
}

fn a_dropped_request_takes_nothing(place: Place) {
    place.run(|| {
        let (mut sender, receiver) = UnixStream::pair().unwrap();
        ring::requests(|requests| {
            drop(requests.receive(&receiver, vec![0; 4]));
            sender.write_all(b"kept").unwrap();
            let (count, bytes) = requests.receive(&receiver, vec![0; 4]).wait();
            assert_eq!((count.unwrap(), &bytes[..]), (4, &b"kept"[..]));
        });
    });
}

fn a_panic_ends_what_was_started(place: Place) {
    place.run(|| {
        let (_sender, receiver) = UnixStream::pair().unwrap();
        let (called, mut bytes) = (Cell::new(false), [0; 4]);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            ring::requests(|requests| {
                requests
                    .receive(&receiver, &mut bytes[..])
                    .then(|_, _| called.set(true));
                mem::forget(requests.receive(&receiver, vec![0; 4]));
                let _receive = requests.receive(&receiver, vec![0; 4]);
                panic!("as asked");
            })
        }));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"as asked"));
        assert!(!called.get());
    });
}

fn a_panic_of_a_callback_ends_the_others(place: Place) {
    place.run(|| {
        let file = tempfile().unwrap();
        let (_sender, receiver) = UnixStream::pair().unwrap();
        let called = Cell::new(false);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            ring::requests(|requests| {
                requests.sync(&file, true).then(|_, ()| panic!("as asked"));
                requests
                    .receive(&receiver, vec![0; 4])
                    .then(|_, _| called.set(true));
            })
        }));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"as asked"));
        assert!(!called.get());
    });
}

fn nothing_started_is_nothing_to_wait_for(place: Place) {
    place.run(|| {
        let result = ring::requests(|requests| {
            requests.run();
            5
        });
        assert_eq!(result, 5);
    });
}

fn callbacks_are_called_in_the_order_of_the_ends(place: Place) {
    place.run(|| {
        let pairs = Vec::from_iter((0..50).map(|_| UnixStream::pair().unwrap()));
        let (order, ended) = (RefCell::new(Vec::new()), AtomicUsize::new(0));
        ring::requests(|requests| {
            for (number, (receiver, _)) in pairs.iter().enumerate() {
                let (order, ended) = (&order, &ended);
                requests
                    .receive(receiver, vec![0; 1])
                    .then(move |count, bytes| {
                        assert_eq!((count.unwrap(), usize::from(bytes[0])), (1, number));
                        order.borrow_mut().push(number);
                        ended.fetch_add(1, Ordering::Relaxed);
                    });
            }
            uthread::scope(|scope| {
                scope.spawn(|| {
                    for (number, (_, sender)) in pairs.iter().enumerate().rev() {
                        (&*sender).write_all(&[number as u8]).unwrap();
                        while ended.load(Ordering::Relaxed) < pairs.len() - number {
                            yield_now();
                        }
                    }
                });
                requests.run();
            });
        });
        assert_eq!(*order.borrow(), Vec::from_iter((0..50).rev()));
    });
}

fn more_are_in_flight_than_a_queue_holds(place: Place) {
    const REQUESTS: usize = 3000;
    place.run(|| {
        let (mut sender, receiver) = UnixStream::pair().unwrap();
        let received = Cell::new(0);
        ring::requests(|requests| {
            for _ in 0..REQUESTS {
                let received = &received;
                requests
                    .receive(&receiver, vec![0; 1])
                    .then(move |count, _| received.set(received.get() + count.unwrap()));
            }
            sender.write_all(&[1; REQUESTS]).unwrap();
        });
        assert_eq!(received.get(), REQUESTS);
    });
}

fn both_directions_of_a_socket_wait_at_once(place: Place) {
    place.run(|| {
        let (socket, other) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut filled = 0;
        while let Ok(count) = (&socket).write(&[1; 4096]) {
            filled += count;
        }
        socket.set_nonblocking(false).unwrap();
        ring::requests(|requests| {
            let receive = requests.receive(&socket, vec![0; 2]);
            let send = requests.send(&socket, vec![2; 4096]);
            uthread::sleep(SHORT);
            assert!(!receive.is_finished() && !send.is_finished());
            (&other).write_all(b"hi").unwrap();
            assert_eq!(receive.wait().0.unwrap(), 2);
            assert!(!send.is_finished());
            (&other).read_exact(&mut vec![0; filled]).unwrap();
            let sent = send.wait().0.unwrap();
            assert!(sent > 0 && sent <= 4096, "{sent}");
        });
    });
}

fn waiting<'scope>(
    requests: &'scope Requests<'scope, '_>,
    receiver: &'scope UnixStream,
) -> Request<'scope, Vec<u8>> {
    requests.receive(receiver, vec![0; 4])
}

fn a_deadline_ends_a_wait(place: Place) {
    place.run(|| {
        let (_sender, receiver) = UnixStream::pair().unwrap();
        let result = uthread::timeout(SHORT, || {
            ring::requests(|requests| waiting(requests, &receiver).wait().0)
        });
        assert_eq!(errno(result.unwrap()), Errno::TIMEDOUT);
    });
}

fn a_cancelled_fiber_gets_its_buffers_back(place: Place) {
    place.run(|| {
        let fiber = spawn(|| {
            let (_sender, receiver) = UnixStream::pair().unwrap();
            ring::requests(|requests| {
                let one = waiting(requests, &receiver);
                let other = waiting(requests, &receiver);
                let results = [one.wait(), other.wait()];
                let late = waiting(requests, &receiver).wait();
                let results = results.into_iter().chain([late]);
                Vec::from_iter(results.map(|(result, bytes)| (errno(result), bytes.len())))
            })
        });
        uthread::sleep(SHORT);
        fiber.cancel();
        assert_eq!(fiber.join().unwrap(), [(Errno::CANCELED, 4); 3]);
    });
}

fn callbacks_of_a_cancelled_fiber_are_called(place: Place) {
    place.run(|| {
        let fiber = spawn(|| {
            let (_sender, receiver) = UnixStream::pair().unwrap();
            let ends = RefCell::new(Vec::new());
            ring::requests(|requests| {
                for _ in 0..3 {
                    let end = |result, _| ends.borrow_mut().push(errno(result));
                    waiting(requests, &receiver).then(end);
                }
            });
            ends.into_inner()
        });
        uthread::sleep(SHORT);
        fiber.cancel();
        assert_eq!(fiber.join().unwrap(), [Errno::CANCELED; 3]);
    });
}

fn the_end_of_the_runtime_ends_what_was_started(place: Place) {
    place.run(|| {
        spawn(|| {
            let (_sender, receiver) = UnixStream::pair().unwrap();
            ring::requests(|requests| {
                mem::forget(waiting(requests, &receiver));
                let _ = waiting(requests, &receiver).wait();
            });
        });
        uthread::sleep(SHORT);
    });
}

#[allow(unsafe_code, reason = "the test keeps what entries point to")]
fn a_chain_is_carried_out_in_its_order(place: Place) {
    place.run(|| {
        let file = tempfile().unwrap();
        let (text, mut copy) = (*b"linked", [0; 6]);
        let fd = Fd(std::os::fd::AsRawFd::as_raw_fd(&file));
        ring::requests(|requests| {
            let write = opcode::Write::new(fd, text.as_ptr(), 6).build();
            let read = opcode::Read::new(fd, copy.as_mut_ptr(), 6).build();
            let chain = [write.flags(Flags::IO_LINK), read];
            // SAFETY: both arrays and the file live until the end of the scope.
            let chain = unsafe { requests.submit_all(chain) }.unwrap();
            let results = chain.wait().into_iter().map(|done| done.unwrap().result);
            assert_eq!(Vec::from_iter(results), [6, 6]);
        });
        assert_eq!(copy, text);
    });
}

#[allow(unsafe_code, reason = "the test keeps what entries point to")]
fn raw_requests_are_cancelled(place: Place) {
    place.run(|| {
        let hour = Timespec::new().sec(3600);
        ring::requests(|requests| {
            let sleep = || opcode::Timeout::new(&raw const hour).build();
            // SAFETY: the time lives until the end of the scope.
            let chain = unsafe { requests.submit_all([sleep().flags(Flags::IO_LINK), sleep()]) };
            let chain = chain.unwrap();
            yield_now();
            chain.cancel();
            let ends = chain.wait().into_iter().map(errno);
            assert_eq!(Vec::from_iter(ends), [Errno::CANCELED; 2]);
        });
    });
}

#[allow(unsafe_code, reason = "the test keeps what entries point to")]
fn callbacks_get_the_results_of_raw_requests(place: Place) {
    place.run(|| {
        let moment = Timespec::new().nsec(SHORT.subsec_nanos());
        let ended = RefCell::new(Vec::new());
        ring::requests(|requests| {
            let nop = || opcode::Nop::new().build();
            let sleep = || opcode::Timeout::new(&raw const moment).build();
            let entries = [
                vec![sleep().flags(Flags::IO_LINK), nop()],
                vec![nop()],
                vec![],
            ];
            for entries in entries {
                // SAFETY: the time lives until the end of the scope.
                let started = unsafe { requests.submit_all(entries) }.unwrap();
                started.then(|results| {
                    let errors = results.into_iter().map(|result| result.err());
                    let errnos = errors.map(|error| error.and_then(|error| error.raw_os_error()));
                    ended.borrow_mut().push(Vec::from_iter(errnos));
                });
            }
        });
        let broken = vec![Some(libc::ETIME), Some(libc::ECANCELED)];
        assert_eq!(ended.into_inner(), [vec![], vec![None], broken]);
    });
}

#[allow(unsafe_code, reason = "the test keeps what entries point to")]
fn forgotten_raw_requests_end_with_the_scope(place: Place) {
    place.run(|| {
        let hour = Timespec::new().sec(3600);
        ring::requests(|requests| {
            // SAFETY: the time lives until the end of the scope.
            let sleep =
                unsafe { requests.submit_all([opcode::Timeout::new(&raw const hour).build()]) };
            mem::forget(sleep.unwrap());
        });
    });
}

#[allow(unsafe_code, reason = "the entries point to nothing")]
fn refused_entries_start_nothing(place: Place) {
    place.run(|| {
        ring::requests(|requests| {
            let linked = opcode::Nop::new().build().flags(Flags::IO_LINK);
            // SAFETY: the entries refer to no memory.
            let refused = unsafe { requests.submit_all([linked]) };
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
            // SAFETY: there is none.
            let nothing = unsafe { requests.submit_all([]) };
            assert_eq!(nothing.unwrap().wait().len(), 0);
        });
    });
}

#[allow(unsafe_code, reason = "the entry points to nothing")]
fn raw_requests_need_a_ring(place: Place) {
    place.run(|| {
        ring::requests(|requests| {
            // SAFETY: the entry refers to no memory.
            let refused = unsafe { requests.submit_all([opcode::Nop::new().build()]) };
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
        });
    });
}
