//! The operations. Each repeats itself in the calling fiber, and starts what else it needs.

use std::hint::black_box;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use uthread::net::{TcpListener, TcpStream};
use uthread::sync::Mutex;
use uthread::sync::mpsc::sync_channel;
use uthread::{scope, spawn, thread, yield_now};

use crate::floor;

/// Number of fibers that are spawned before the first of them is joined.
const SPAWN_BATCH: usize = 1000;

/// Number of fibers that yield by turns: what they touch is not in a small cache any more.
const CROWD: usize = 1000;

/// An operation, by its name.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Performs it so many times.
    pub(crate) repeat: fn(usize),
}

pub(crate) const ALL: &[Operation] = &[
    Operation {
        name: "switch",
        repeat: floor::switches,
    },
    Operation {
        name: "allocation",
        repeat: floor::allocations,
    },
    Operation {
        name: "yield",
        repeat: yields,
    },
    Operation {
        name: "crowd",
        repeat: crowded_yields,
    },
    Operation {
        name: "spawn",
        repeat: spawns,
    },
    Operation {
        name: "park",
        repeat: parks,
    },
    Operation {
        name: "channel",
        repeat: messages,
    },
    Operation {
        name: "mutex",
        repeat: locks,
    },
    Operation {
        name: "timer",
        repeat: timers,
    },
    Operation {
        name: "echo",
        repeat: echoes,
    },
];

/// The operations that thread-local storage of its own for each fiber makes dearer.
pub(crate) const OF_FIBERS: &[&str] = &["yield", "crowd", "spawn", "park", "channel", "echo"];

impl Operation {
    pub(crate) fn by_name(name: &str) -> Option<&'static Operation> {
        ALL.iter().find(|operation| operation.name == name)
    }
}

/// Yields `count` times in total, in two fibers by turns.
pub(crate) fn yields(count: usize) {
    let each = count / 2;
    let other = spawn(move || repeat(each, yield_now));
    repeat(each, yield_now);
    other.join().expect("the fiber yields and ends");
}

/// Yields `count` times in total, in [`CROWD`] fibers by turns.
fn crowded_yields(count: usize) {
    let started = AtomicUsize::new(0);
    scope(|scope| {
        for _ in 0..CROWD {
            scope.spawn(|| {
                started.fetch_add(1, Ordering::Relaxed);
                while started.load(Ordering::Relaxed) < CROWD {
                    yield_now();
                }
                repeat(count / CROWD, yield_now);
            });
        }
    });
}

/// Spawns and joins `count` fibers, in batches.
pub(crate) fn spawns(count: usize) {
    let mut handles = Vec::with_capacity(SPAWN_BATCH);
    for _ in 0..count / SPAWN_BATCH {
        handles.extend((0..SPAWN_BATCH).map(|_| spawn(|| ())));
        for handle in handles.drain(..) {
            handle.join().expect("the fiber ends at once");
        }
    }
}

/// Wakes up another fiber and waits for its answer, `count` times: two parks and two wake-ups each.
pub(crate) fn parks(count: usize) {
    let caller = thread::current();
    let other = spawn(move || {
        repeat(count, || {
            thread::park();
            caller.unpark();
        });
    });
    repeat(count, || {
        other.thread().unpark();
        thread::park();
    });
    other.join().expect("the fiber answers and ends");
}

/// Sends `count` messages and receives their answers, through channels with one place.
pub(crate) fn messages(count: usize) {
    let (ping, pings) = sync_channel(1);
    let (pong, pongs) = sync_channel(1);
    let other = spawn(move || {
        for message in pings {
            pong.send(message).expect("the other end waits for it");
        }
    });
    for message in 0..count {
        ping.send(message).expect("the other end receives");
        assert_eq!(pongs.recv(), Ok(message));
    }
    drop(ping);
    other.join().expect("the fiber answers and ends");
}

/// Locks and unlocks a mutex that nobody holds.
pub(crate) fn locks(count: usize) {
    let mutex = Mutex::new(0_usize);
    repeat(count, || {
        *black_box(&mutex).lock().expect("not poisoned") += 1
    });
    assert_eq!(mutex.into_inner().ok(), Some(count));
}

/// Starts a timer, waits, and is woken before it expires.
pub(crate) fn timers(count: usize) {
    const LONG: Duration = Duration::from_secs(3600);
    let caller = thread::current();
    let other = spawn(move || {
        repeat(count, || {
            caller.unpark();
            yield_now();
        });
    });
    repeat(count, || thread::park_timeout(LONG));
    other.join().expect("the fiber wakes the caller and ends");
}

/// Sends sixteen bytes to a fiber and back through a TCP connection, `count` times.
pub(crate) fn echoes(count: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("the listener is bound");
    let server = spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client connects");
        let mut buffer = [0; 16];
        while stream.read(&mut buffer).expect("the client sends") == buffer.len() {
            stream.write_all(&buffer).expect("the client receives");
        }
    });
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream
        .set_nodelay(true)
        .expect("the stream is a TCP connection");
    let mut buffer = [7; 16];
    repeat(count, || {
        stream.write_all(&buffer).expect("the server receives");
        stream.read_exact(&mut buffer).expect("the server sends");
    });
    drop(stream);
    server.join().expect("the server echoes and ends");
}

fn repeat(count: usize, mut action: impl FnMut()) {
    for _ in 0..count {
        action();
    }
}
