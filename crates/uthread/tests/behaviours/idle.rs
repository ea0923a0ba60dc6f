//! A runtime whose fibers all wait is idle, whatever was cancelled before: its threads make no
//! system call and do not run.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uthread::fs::File;
use uthread::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use uthread::ring::io_uring::opcode;
use uthread::ring::io_uring::squeue::Flags;
use uthread::ring::io_uring::types::Fd;
use uthread::ring::{self, BufferRing, Events, RegisteredFile};
use uthread::sync::mpsc;
use uthread::{Runtime, scope, select, shield, sleep, timeout, try_scope};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{Gap, IN_FIBERS, NO_RING, OUTSIDE, behaviours};
use crate::support::requests::submit_all;
use crate::support::{FREE, FullListener, HANG, HOUR, narrow, pair_with_std};

behaviours![
    (
        IN_FIBERS,
        [
            after_a_cancelled_call,
            after_a_call_beyond_its_deadline,
            after_a_call_cancelled_at_its_deadline,
            after_the_timeout_of_a_socket,
            after_a_scope_has_failed,
            after_a_selection,
            after_a_dropped_request,
        ]
    ),
    (
        &[
            OUTSIDE,
            Gap(
                Place::is_of_threads,
                "the end of a runtime interrupts its threads again and again"
            )
        ],
        [while_a_shield_holds_off_the_end]
    ),
    (&[NO_RING], [after_cancelled_raw_requests]),
];

/// Time of a look: shorter than the time between two system calls of a runtime that is not idle.
const LOOK: Duration = Duration::from_millis(100);

/// Returns how often each thread of the process but the calling one has run so far, and its state.
/// The kernel's own are left out: one that polls for operations goes to sleep by itself.
fn runs() -> BTreeMap<String, String> {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let mut runs = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let path = task.unwrap().path();
        let number = path.file_name().unwrap().to_str().unwrap().to_owned();
        // The thread may have ended.
        let Ok(status) = fs::read_to_string(path.join("status")) else {
            continue;
        };
        if number == own || status.contains("Name:\tiou-") {
            continue;
        }
        // A thread that waits for a CPU has the state of one that runs.
        let of_interest = |line: &&str| line.starts_with("State:") || line.contains("_ctxt_");
        runs.insert(number, status.lines().filter(of_interest).collect());
    }
    runs
}

fn none_runs(runs: &BTreeMap<String, String>) -> bool {
    !runs.values().any(|thread| thread.contains("(running)"))
}

/// Waits until neither a thread runs nor a driver makes a call, which a runtime that goes on and on
/// never comes to.
fn await_idleness(runtime: &Runtime, after: &str) {
    let start = Instant::now();
    let look = || (runs(), runtime.metrics().total().enters);
    let mut before = look();
    loop {
        thread::sleep(LOOK);
        let now = look();
        if now == before && none_runs(&now.0) {
            return;
        }
        assert!(
            start.elapsed() < HANG,
            "not idle after: {after}: {before:?}, then {now:?}"
        );
        before = now;
    }
}

/// A call that waits forever, and what it waits for.
struct Call {
    name: &'static str,
    call: Box<dyn FnOnce() -> io::Result<()> + Send>,
    _peer: Box<dyn Any>,
}

fn call(
    name: &'static str,
    peer: impl Any,
    call: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Call {
    Call {
        name,
        call: Box::new(call),
        _peer: Box::new(peer),
    }
}

/// Returns a connection that has lasted for some messages on this runtime, and its peer.
fn lasting_pair(runtime: &Runtime) -> (TcpStream, net::TcpStream) {
    runtime.run(|| {
        let (mut ours, mut theirs) = pair_with_std();
        for _ in 0..8 {
            theirs.write_all(b"x").unwrap();
            ours.read_exact(&mut [0]).unwrap();
        }
        (ours, theirs)
    })
}

/// Returns a call of each kind.
fn calls(runtime: &Runtime) -> Vec<Call> {
    let read = |mut from: TcpStream| move || from.read(&mut [0; 8]).map(|_| ());
    let (lasting, peer) = lasting_pair(runtime);
    let mut calls = vec![call("a read of a lasting connection", peer, read(lasting))];
    let (fresh, peer) = pair_with_std();
    calls.push(call("a read of a connection", peer, read(fresh)));
    let (mut full, peer) = pair_with_std();
    narrow(&full, &peer);
    calls.push(call("a write", peer, move || {
        loop {
            full.write_all(&[0; 1 << 16])?;
        }
    }));
    let listener = TcpListener::bind(FREE).unwrap();
    calls.push(call("accept", (), move || listener.accept().map(|_| ())));
    let deaf = FullListener::new();
    let address = deaf.address;
    calls.push(call("connect", deaf, move || {
        TcpStream::connect(address).map(|_| ())
    }));
    let socket = UdpSocket::bind(FREE).unwrap();
    calls.push(call("a datagram", (), move || {
        socket.recv(&mut [0]).map(|_| ())
    }));
    let (mut unix, peer) = UnixStream::pair().unwrap();
    calls.push(call("a Unix stream", peer, move || {
        unix.read(&mut [0]).map(|_| ())
    }));
    let (reader, writer) = io::pipe().unwrap();
    let mut pipe = File::from(OwnedFd::from(reader));
    calls.push(call("a pipe", writer, move || {
        pipe.read(&mut [0]).map(|_| ())
    }));
    let (registered, peer) = lasting_pair(runtime);
    calls.push(call("a registered connection", peer, move || {
        RegisteredFile::new(registered).read(&mut [0]).map(|_| ())
    }));
    let (sender, receiver) = mpsc::channel::<()>();
    calls.push(call("a channel", sender, move || {
        receiver.recv().map_err(io::Error::other)
    }));
    calls.push(call("a sleep", (), || {
        sleep(HOUR);
        Ok(())
    }));
    calls
}

/// Ends a call of each kind, one after the other and beside the others that wait.
fn after_each_call(place: Place, end: impl Fn(&Runtime, Call)) {
    alone(|| {
        let runtime = place.runtime();
        let beside = calls(&runtime);
        let waiting = beside.into_iter().map(|Call { call, _peer, .. }| {
            let fiber = place.spawn_waiting(&runtime, || call().is_err());
            (fiber, _peer)
        });
        let waiting: Vec<_> = waiting.collect();
        for call in calls(&runtime) {
            let name = call.name;
            end(&runtime, call);
            await_idleness(&runtime, name);
        }
        drop(runtime);
        drop(waiting);
    });
}

fn after_a_cancelled_call(place: Place) {
    after_each_call(place, |runtime, Call { call, _peer, .. }| {
        let fiber = place.spawn_waiting(runtime, call);
        fiber.cancel();
        assert!(!fiber.join().is_ok_and(|result| result.is_ok()));
    });
}

fn after_a_call_beyond_its_deadline(place: Place) {
    after_each_call(place, |runtime, Call { call, _peer, .. }| {
        let late = runtime.run(|| timeout(Duration::from_millis(5), call));
        assert!(!late.is_ok_and(|result| result.is_ok()));
    });
}

/// Lets one round of the worker, where there is one, find both the cancellation and the deadline.
fn after_a_call_cancelled_at_its_deadline(place: Place) {
    const DEADLINE: Duration = Duration::from_millis(20);
    after_each_call(place, |runtime, Call { call, _peer, .. }| {
        let fiber = place.spawn_waiting(runtime, || timeout(DEADLINE, call));
        let fiber = runtime.run(move || {
            fiber.cancel();
            thread::sleep(2 * DEADLINE);
            fiber
        });
        assert!(!matches!(fiber.join(), Ok(Ok(Ok(())))));
    });
}

fn after_the_timeout_of_a_socket(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        for is_cancelled in [false, true] {
            let (ours, _theirs) = lasting_pair(&runtime);
            let ours = Arc::new(ours);
            ours.set_read_timeout(Some(Duration::from_millis(20)))
                .unwrap();
            let reading = Arc::clone(&ours);
            let fiber = place.spawn_waiting(&runtime, move || {
                timeout(Duration::from_millis(20), || (&*reading).read(&mut [0]))
            });
            let fiber = runtime.run(move || {
                if is_cancelled {
                    fiber.cancel();
                    thread::sleep(Duration::from_millis(40));
                }
                fiber
            });
            assert!(!matches!(fiber.join(), Ok(Ok(Ok(_)))));
            await_idleness(&runtime, "the timeout of a socket");
        }
    });
}

fn after_a_scope_has_failed(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        for deadline in [HOUR, Duration::from_millis(20)] {
            let calls = calls(&runtime);
            let (calls, _peers): (Vec<_>, Vec<_>) = calls
                .into_iter()
                .map(|Call { call, _peer, .. }| (call, _peer))
                .unzip();
            runtime.run(move || {
                let waiting = || {
                    try_scope(|scope| {
                        for call in calls {
                            scope.spawn(call);
                        }
                        scope.spawn(|| {
                            sleep(Duration::from_millis(5));
                            // Maybe past the deadline as well.
                            thread::sleep(Duration::from_millis(30));
                            Err::<(), _>(io::Error::other("on purpose"))
                        });
                        Ok(())
                    })
                };
                let ended = catch_unwind(AssertUnwindSafe(|| timeout(deadline, waiting)));
                assert!(!matches!(ended, Ok(Ok(Ok(())))));
            });
            await_idleness(&runtime, "a scope has failed");
        }
    });
}

fn after_a_selection(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        let (lasting, _peer) = lasting_pair(&runtime);
        let (other, _writer) = io::pipe().unwrap();
        let lasting = &lasting;
        for deadline in [HOUR, Duration::from_millis(5)] {
            let choose = || {
                let (_sender, silent) = mpsc::channel::<()>();
                select! {
                    readable(lasting) -> _ready => panic!("the socket is readable, but nothing was written"),
                    readable(&other) -> _ready => panic!("the socket is readable, but nothing was written"),
                    recv(&silent) => panic!("a message was received, but none was sent"),
                    after(Duration::from_millis(5)) => (),
                }
            };
            let _ = runtime.run(|| timeout(deadline, choose));
            await_idleness(&runtime, "a selection");
        }
    });
}

/// Drops requests that complete many times, or what stands for them where there is no ring.
fn after_a_dropped_request(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        runtime.run(|| {
            let listener = TcpListener::bind(FREE).unwrap();
            let mut connections = ring::accept(&listener);
            let _ = timeout(Duration::from_millis(5), || connections.next());
        });
        await_idleness(&runtime, "connections");
        let (lasting, _peer) = lasting_pair(&runtime);
        runtime.run(|| {
            let mut events = ring::poll(&lasting, Events::READABLE);
            let _ = timeout(Duration::from_millis(5), || events.next());
        });
        await_idleness(&runtime, "events");
        runtime.run(|| {
            let Ok(buffers) = BufferRing::new(4, 64) else {
                return;
            };
            let mut received = ring::receive(&lasting, &buffers);
            let _ = timeout(Duration::from_millis(5), || received.next().is_some());
        });
        await_idleness(&runtime, "received");
    });
}

fn while_a_shield_holds_off_the_end(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        let calls = calls(&runtime);
        let waiting: Vec<_> = calls
            .into_iter()
            .map(|Call { call, _peer, .. }| {
                drop(place.spawn_waiting(&runtime, call));
                _peer
            })
            .collect();
        let (mut ours, mut theirs) = lasting_pair(&runtime);
        let reading = move || shield(|| ours.read(&mut [0]).unwrap());
        let shielded = place.spawn_waiting(&runtime, reading);
        shielded.cancel();
        let ending = thread::spawn(move || drop(runtime));
        let (start, mut before) = (Instant::now(), runs());
        loop {
            thread::sleep(LOOK);
            let now = runs();
            if now == before && none_runs(&now) {
                break;
            }
            assert!(start.elapsed() < HANG, "{before:?}, then {now:?}");
            before = now;
        }
        assert!(!ending.is_finished());
        theirs.write_all(b"x").unwrap();
        assert_eq!(shielded.join().unwrap(), 1);
        ending.join().unwrap();
        drop(waiting);
    });
}

fn after_cancelled_raw_requests(place: Place) {
    alone(|| {
        let runtime = place.runtime();
        let read = |reader: &io::PipeReader, flags| {
            let fd = Fd(reader.as_raw_fd());
            opcode::PollAdd::new(fd, 1).build().flags(flags)
        };
        for at_deadline in [false, true] {
            let (reader, _writer) = io::pipe().unwrap();
            let deadline = if at_deadline {
                Duration::from_millis(20)
            } else {
                HOUR
            };
            let chain = [
                read(&reader, Flags::IO_HARDLINK),
                read(&reader, Flags::empty()),
            ];
            let fiber = place.spawn_waiting(&runtime, move || {
                timeout(deadline, || submit_all(chain).is_ok())
            });
            runtime.run(|| {
                scope(|scope| {
                    scope.spawn(|| fiber.cancel());
                });
                if at_deadline {
                    thread::sleep(2 * deadline);
                }
            });
            let _ = fiber.join();
            await_idleness(&runtime, "raw requests");
        }
    });
}
