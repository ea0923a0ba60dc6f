//! Calls that never wait: in a loop, each lets the other fibers of its worker run, and ends with a
//! cancellation.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc as native};
use std::time::Duration;

use crate::harness::place::Place;
use crate::harness::turns::lets_others_run;
use crate::harness::{IN_FIBERS, ON_WORKERS, behaviours};
use crate::support::{FREE, eventually, pair};
use uthread::net::{TcpListener, UdpSocket, UnixDatagram, UnixStream};
use uthread::sync::{Barrier, Condvar, Mutex, RwLock, Semaphore, mpsc, promise};
use uthread::thread::{Cancelled, park, park_timeout, scope};
use uthread::{spawn, timeout, try_scope};

behaviours![
    (
        ON_WORKERS,
        [
            waits_without_time_let_others_run,
            locks_let_others_run,
            wake_ups_let_others_run,
            scopes_and_timeouts_let_others_run,
            calls_on_nonblocking_sockets_let_others_run,
            calls_without_buffers_let_others_run,
            unstarted_fibers_are_limited
        ]
    ),
    (
        IN_FIBERS,
        [
            loops_on_nonblocking_sockets_end_when_cancelled,
            loops_on_nonblocking_sockets_end_with_their_runtime,
            loops_on_nonblocking_sockets_end_at_a_deadline
        ]
    )
];

/// Runs `behaviour` in a fiber of a runtime with one worker.
fn on_one_worker(place: Place, behaviour: impl FnOnce() + Send) {
    place.runtime_of(1).run(behaviour);
}

fn waits_without_time_let_others_run(place: Place) {
    on_one_worker(place, || {
        let (mutex, condvar) = (Mutex::new(()), Condvar::new());
        lets_others_run(place, || {
            let guard = mutex.lock().unwrap();
            drop(condvar.wait_timeout(guard, Duration::ZERO).unwrap());
        });
        let mut guard = Some(mutex.lock().unwrap());
        lets_others_run(place, || {
            let waited = condvar.wait_timeout(guard.take().unwrap(), Duration::ZERO);
            guard = Some(waited.unwrap().0);
        });
        let semaphore = Semaphore::new(0);
        lets_others_run(place, || {
            assert!(semaphore.acquire_timeout(Duration::ZERO).is_err())
        });
        let (_sender, receiver) = mpsc::channel::<()>();
        lets_others_run(place, || {
            assert!(receiver.recv_timeout(Duration::ZERO).is_err())
        });
        let (_promise, waiter) = promise::channel::<()>();
        lets_others_run(place, || {
            assert!(waiter.wait_timeout(Duration::ZERO).is_err())
        });
        lets_others_run(place, || park_timeout(Duration::ZERO));
        lets_others_run(place, || uthread::sleep(Duration::ZERO));
    });
}

fn locks_let_others_run(place: Place) {
    on_one_worker(place, || {
        let mutex = Mutex::new(false);
        lets_others_run(place, || assert!(!*mutex.lock().unwrap()));
        let lock = RwLock::new(false);
        lets_others_run(place, || assert!(!*lock.read().unwrap()));
        lets_others_run(place, || assert!(!*lock.write().unwrap()));
        let semaphore = Arc::new(Semaphore::new(1));
        lets_others_run(place, || drop(semaphore.acquire().unwrap()));
        lets_others_run(place, || drop(semaphore.try_acquire().unwrap()));
        lets_others_run(place, || {
            drop(Arc::clone(&semaphore).acquire_owned().unwrap())
        });
        lets_others_run(place, || {
            drop(semaphore.acquire_timeout(Duration::ZERO).unwrap())
        });
    });
}

fn wake_ups_let_others_run(place: Place) {
    on_one_worker(place, || {
        let condvar = Condvar::new();
        lets_others_run(place, || condvar.notify_one());
        lets_others_run(place, || condvar.notify_all());
        let own = uthread::current();
        lets_others_run(place, || own.unpark());
        lets_others_run(place, || {
            own.unpark();
            park();
        });
        lets_others_run(place, || promise::channel().0.set(1));
        let semaphore = Semaphore::new(0);
        lets_others_run(place, || semaphore.add_permits(1));
        let barrier = Barrier::new(1);
        lets_others_run(place, || assert!(barrier.wait().is_leader()));
    });
}

fn scopes_and_timeouts_let_others_run(place: Place) {
    on_one_worker(place, || {
        lets_others_run(place, || scope(|_| ()));
        lets_others_run(place, || try_scope(|_| Ok::<_, ()>(())).unwrap());
        lets_others_run(place, || timeout(Duration::ZERO, || ()).unwrap());
    });
}

fn calls_on_nonblocking_sockets_let_others_run(place: Place) {
    on_one_worker(place, || {
        let (mut tcp, _peer) = pair();
        tcp.set_nonblocking(true).unwrap();
        lets_others_run(place, || assert!(tcp.read(&mut [0]).is_err()));
        lets_others_run(place, || assert!(tcp.peek(&mut [0]).is_err()));
        lets_others_run(place, || drop(tcp.write(&[0; 16])));
        let listener = TcpListener::bind(FREE).unwrap();
        listener.set_nonblocking(true).unwrap();
        lets_others_run(place, || assert!(listener.accept().is_err()));
        let udp = UdpSocket::bind(FREE).unwrap();
        udp.set_nonblocking(true).unwrap();
        lets_others_run(place, || assert!(udp.recv_from(&mut [0]).is_err()));
        lets_others_run(place, || assert!(udp.peek_from(&mut [0]).is_err()));
        let (unix, _peer) = UnixDatagram::pair().unwrap();
        unix.set_nonblocking(true).unwrap();
        lets_others_run(place, || assert!(unix.recv(&mut [0]).is_err()));
        lets_others_run(place, || drop(unix.send(&[0])));
    });
}

fn calls_without_buffers_let_others_run(place: Place) {
    on_one_worker(place, || {
        let (mut stream, _peer) = UnixStream::pair().unwrap();
        lets_others_run(place, || {
            assert_eq!(stream.read_vectored(&mut []).unwrap(), 0)
        });
        lets_others_run(place, || assert_eq!(stream.write_vectored(&[]).unwrap(), 0));
    });
}

/// Checks that a fiber that only spawns lets others start before they take much memory.
fn unstarted_fibers_are_limited(place: Place) {
    const FIBERS: usize = 100_000;
    const WAITING_MAX: usize = 10_000;
    on_one_worker(place, || {
        let started = Arc::new(AtomicUsize::new(0));
        for spawned in 0..FIBERS {
            let counted = Arc::clone(&started);
            let _detached = spawn(move || counted.fetch_add(1, Ordering::Relaxed));
            let waiting = spawned - started.load(Ordering::Relaxed).min(spawned);
            assert!(waiting <= WAITING_MAX, "{waiting} have not started");
        }
    });
}

/// Receives until a call fails with another error than that nothing has arrived. Calls `begin`
/// before.
fn receive_until_refused(begin: impl FnOnce()) -> io::Error {
    let (mut stream, _peer) = pair();
    stream.set_nonblocking(true).unwrap();
    begin();
    loop {
        match stream.read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result.expect_err("nothing was sent"),
        }
    }
}

fn loops_on_nonblocking_sockets_end_when_cancelled(place: Place) {
    let runtime = place.runtime();
    let (sender, begun) = native::channel();
    let receiving = runtime.spawn(move || receive_until_refused(|| sender.send(()).unwrap()));
    let ignoring = runtime.spawn(|| {
        let socket = UdpSocket::bind(FREE).unwrap();
        socket.set_nonblocking(true).unwrap();
        while socket.recv(&mut [0]).is_err() {}
    });
    begun.recv().unwrap();
    receiving.cancel();
    ignoring.cancel();
    eventually("both end", || {
        receiving.is_finished() && ignoring.is_finished()
    });
    assert_eq!(
        receiving.join().unwrap().raw_os_error(),
        Some(libc::ECANCELED)
    );
    assert!(ignoring.join().unwrap_err().is::<Cancelled>());
}

fn loops_on_nonblocking_sockets_end_with_their_runtime(place: Place) {
    let runtime = place.runtime();
    let (sender, begun) = native::channel();
    let receiving = runtime.spawn(move || receive_until_refused(|| sender.send(()).unwrap()));
    begun.recv().unwrap();
    drop(runtime);
    let error = receiving.join().unwrap();
    assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
}

fn loops_on_nonblocking_sockets_end_at_a_deadline(place: Place) {
    place.run(|| {
        let error = timeout(Duration::from_millis(100), || receive_until_refused(|| ())).unwrap();
        assert_eq!(error.raw_os_error(), Some(libc::ETIMEDOUT));
    });
}
