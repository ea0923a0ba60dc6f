//! The list of a runtime's fibers.

use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc as native;
use std::time::{Duration, Instant};

use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, ON_ONE_LEAN_WORKER, ON_WORKERS, behaviours};
use crate::own_tls::WITH_OWN_TLS;
use crate::support::{FREE, HANG, eventually};
use uthread::io::{Read as _, Write as _, pipe};
use uthread::net::{TcpListener, UdpSocket};
use uthread::runtime::{FiberInfo, FiberState, WaitsFor, fibers};
use uthread::sync::{Mutex, RwLock, mpsc};
use uthread::thread::{Builder, JoinHandle, scope, yield_now};
use uthread::{Runtime, sleep};

behaviours![
    (
        ON_WORKERS,
        [
            each_fiber_is_listed_with_what_it_does,
            a_fiber_tells_for_how_long_it_is_suspended,
            a_fiber_tells_for_which_descriptor_it_waits,
            a_fiber_tells_in_whose_scope_it_is,
            a_fiber_tells_for_which_fiber_it_waits,
            a_lock_that_is_handed_over_has_a_new_holder,
            a_dedicated_fiber_is_listed,
            no_fiber_is_missing_beside_others_that_come_and_go
        ]
    ),
    (WITH_OWN_TLS, [a_fiber_that_keeps_a_thread_is_listed]),
    (
        ON_ONE_LEAN_WORKER,
        [a_worker_that_does_not_answer_is_an_error]
    ),
    (IN_FIBERS, [a_fiber_lists_the_fibers_of_its_runtime]),
];

fn spawn_named<T: Send + 'static>(
    name: &str,
    call: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    Builder::new().name(name.into()).spawn(call).unwrap()
}

fn state_of(list: &[FiberInfo], name: &str) -> Option<FiberState> {
    let mut named = list
        .iter()
        .filter(|fiber| fiber.name.as_deref() == Some(name));
    let fiber = named.next();
    assert!(named.next().is_none(), "{list:?}");
    fiber.map(|fiber| fiber.state)
}

fn is_listed(runtime: &Runtime, name: &str, state: FiberState) -> bool {
    state_of(&runtime.fibers().unwrap(), name) == Some(state)
}

fn each_fiber_is_listed_with_what_it_does(place: Place) {
    let runtime = place.runtime();
    assert_eq!(runtime.fibers().unwrap(), []);
    let listener = TcpListener::bind(FREE).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, messages) = mpsc::channel::<()>();
    let is_over = Arc::new(AtomicBool::new(false));
    let is_theirs_over = Arc::clone(&is_over);
    let line = line!() + 1;
    let main = runtime.spawn(move || {
        let receiver = spawn_named("receiver", move || messages.recv().is_ok());
        let acceptor = spawn_named("acceptor", move || listener.accept().is_ok());
        let yielder = spawn_named("yielder", move || {
            while !is_theirs_over.load(Ordering::Relaxed) {
                yield_now();
            }
        });
        yielder.join().unwrap();
        (receiver.join().unwrap(), acceptor.join().unwrap())
    });
    let is_listed = |name, state| move |runtime: &Runtime| is_listed(runtime, name, state);
    for (name, state) in [
        ("receiver", FiberState::Parked),
        ("acceptor", FiberState::Operation),
        ("yielder", FiberState::Ready),
    ] {
        let is_listed = is_listed(name, state);
        eventually(name, || is_listed(&runtime));
    }
    let list = runtime.fibers().unwrap();
    assert_eq!(list.len(), 4, "{list:?}");
    assert!(list.is_sorted_by_key(|fiber| fiber.id), "{list:?}");
    assert_eq!(list[0].spawn_site.line(), line, "{list:?}");
    assert!(list[0].spawn_site.file().ends_with("listed_fibers.rs"));
    assert!(
        list.iter().all(|fiber| fiber.worker < place.workers()),
        "{list:?}"
    );
    let begin = format!("fiber {}, parked ", list[0].id);
    assert!(list[0].to_string().starts_with(&begin), "{}", list[0]);
    is_over.store(true, Ordering::Relaxed);
    sender.send(()).unwrap();
    drop(std::net::TcpStream::connect(address).unwrap());
    assert_eq!(main.join().unwrap(), (true, true));
    eventually("no fiber is left", || runtime.fibers().unwrap().is_empty());
}

fn no_fiber_is_missing_beside_others_that_come_and_go(place: Place) {
    const WAITING: usize = 200;
    let runtime = place.runtime();
    let senders: Vec<_> = (0..WAITING)
        .map(|_| {
            let (sender, messages) = mpsc::channel::<()>();
            let wait = move || messages.recv().is_ok();
            (
                sender,
                runtime.spawn(|| spawn_named("waits", wait).join().unwrap()),
            )
        })
        .collect();
    let count = |list: &[FiberInfo]| {
        let waiting = list.iter().filter(|fiber| fiber.name.is_some());
        waiting.count()
    };
    eventually("all wait", || count(&runtime.fibers().unwrap()) == WAITING);
    for _ in 0..20 {
        let short: Vec<_> = (0..10).map(|_| runtime.spawn(yield_now)).collect();
        assert_eq!(count(&runtime.fibers().unwrap()), WAITING);
        for short in short {
            short.join().unwrap();
        }
    }
    for (sender, waiting) in senders {
        drop(sender);
        waiting.join().unwrap();
    }
}

fn a_fiber_tells_for_how_long_it_is_suspended(place: Place) {
    const LONG: Duration = Duration::from_millis(60);
    let runtime = place.runtime();
    let (sender, messages) = mpsc::channel::<()>();
    let receive_all = move || messages.into_iter().count();
    let receiver = runtime.spawn(move || spawn_named("receiver", receive_all).join().unwrap());
    let suspended_for = || {
        let list = runtime.fibers().unwrap();
        let receiver = list
            .iter()
            .find(|fiber| fiber.name.as_deref() == Some("receiver"));
        receiver.map_or(Duration::ZERO, |fiber| fiber.suspended_for)
    };
    for _ in 0..2 {
        let sent = Instant::now();
        sender.send(()).unwrap();
        // It was suspended for long before.
        eventually("it has received", || suspended_for() <= sent.elapsed());
        eventually("it waits for long", || {
            let known = suspended_for();
            assert!(known <= sent.elapsed(), "{known:?}");
            known >= LONG
        });
        // Others do not count.
        runtime.run(yield_now);
        assert!(suspended_for() >= LONG);
    }
    drop(sender);
    assert_eq!(receiver.join().unwrap(), 2);
}

/// Of a pipe and a socket; and of none after its operation.
fn a_fiber_tells_for_which_descriptor_it_waits(place: Place) {
    let runtime = place.runtime();
    let (mut reader, mut writer) = pipe().unwrap();
    let socket = UdpSocket::bind(FREE).unwrap();
    let (reader_fd, socket_fd) = (reader.as_raw_fd(), socket.as_raw_fd());
    let address = socket.local_addr().unwrap();
    let (sender, messages) = mpsc::channel::<()>();
    let main = runtime.spawn(move || {
        let read = move || reader.read(&mut [0]).unwrap();
        let receive = move || {
            let count = socket.recv_from(&mut [0]).unwrap().0;
            messages.recv().unwrap();
            count
        };
        let all = [
            spawn_named("reader", read),
            spawn_named("receiver", receive),
        ];
        all.map(|fiber| fiber.join().unwrap())
    });
    let known = |name: &str| {
        let list = runtime.fibers().unwrap();
        let fiber = list.iter().find(|one| one.name.as_deref() == Some(name))?;
        let is_shown = fiber.to_string().contains(" on fd ");
        assert_eq!(is_shown, fiber.descriptor.is_some(), "{fiber}");
        Some((fiber.state, fiber.descriptor))
    };
    let reads = (FiberState::Operation, Some(reader_fd));
    let receives = (FiberState::Operation, Some(socket_fd));
    eventually("it reads", || known("reader") == Some(reads));
    eventually("it receives", || known("receiver") == Some(receives));
    let sent = std::net::UdpSocket::bind(FREE).and_then(|own| own.send_to(b"x", address));
    assert_eq!(sent.unwrap(), 1);
    let parked = (FiberState::Parked, None);
    eventually("it is parked", || known("receiver") == Some(parked));
    assert_eq!(known("reader"), Some(reads));
    sender.send(()).unwrap();
    writer.write_all(b"x").unwrap();
    assert_eq!(main.join().unwrap(), [1, 1]);
}

/// Also in one that another fiber of the scope has spawned.
fn a_fiber_tells_in_whose_scope_it_is(place: Place) {
    let runtime = place.runtime();
    let (sender, messages) = mpsc::channel::<()>();
    let main = runtime.spawn(move || {
        scope(|scope| {
            let receive = move || messages.recv().is_ok();
            scope.spawn(|| scope.spawn(receive).join().unwrap());
        });
    });
    let scopes = || {
        let list = runtime.fibers().unwrap();
        let scopes = list.iter().map(|fiber| (fiber.id, fiber.scope_of));
        (scopes.collect::<Vec<_>>(), format!("{list:?}"))
    };
    eventually("all run", || scopes().0.len() == 3);
    let (list, shown) = scopes();
    let parent = list[0].0;
    let expected = [None, Some(parent), Some(parent)];
    assert!(list.iter().map(|one| one.1).eq(expected), "{shown}");
    let child = &runtime.fibers().unwrap()[1];
    let end = format!(" in the scope of fiber {parent}");
    assert!(child.to_string().contains(&end), "{child}");
    drop(sender);
    main.join().unwrap();
}

/// Returns what a fiber waits for that is listed with this name, and the id of that fiber.
fn awaited_by(runtime: &Runtime, name: &str) -> (Option<WaitsFor>, u64) {
    let list = runtime.fibers().unwrap();
    let named = |fiber: &&FiberInfo| fiber.name.as_deref() == Some(name);
    let found = list.iter().find(named);
    found.map_or((None, 0), |fiber| (fiber.waits_for, fiber.id))
}

fn a_fiber_tells_for_which_fiber_it_waits(place: Place) {
    let runtime = place.runtime();
    let (release, released) = mpsc::channel::<()>();
    let locks = Arc::new((Mutex::new(0), RwLock::new(0)));
    let main = runtime.spawn(move || {
        let (theirs, ours) = (Arc::clone(&locks), Arc::clone(&locks));
        let holder = spawn_named("holder", move || {
            let _guards = (theirs.0.lock().unwrap(), theirs.1.write().unwrap());
            released.recv().is_ok()
        });
        while locks.0.try_lock().is_ok() || locks.1.try_read().is_ok() {
            yield_now();
        }
        let locker = spawn_named("locker", move || *ours.0.lock().unwrap());
        let reader = spawn_named("reader", move || *locks.1.read().unwrap());
        let joiner = spawn_named("joiner", move || holder.join().unwrap());
        (
            locker.join().unwrap(),
            reader.join().unwrap(),
            joiner.join().unwrap(),
        )
    });
    eventually("the joiner waits", || {
        awaited_by(&runtime, "joiner").0.is_some()
    });
    let (nothing, holder) = awaited_by(&runtime, "holder");
    assert_eq!(nothing, None);
    assert_eq!(
        awaited_by(&runtime, "joiner").0,
        Some(WaitsFor::End(holder))
    );
    for name in ["locker", "reader"] {
        let lock = WaitsFor::Lock(holder);
        eventually(name, || awaited_by(&runtime, name).0 == Some(lock));
    }
    let list = runtime.fibers().unwrap();
    let end = format!(", waits for a lock of fiber {holder}");
    let with_end = list
        .iter()
        .filter(|fiber| fiber.to_string().ends_with(&end));
    assert_eq!(with_end.count(), 2, "{list:?}");
    drop(release);
    assert_eq!(main.join().unwrap(), (0, 0, false));
}

/// A fiber that was overtaken for long is handed the lock, and does not take it by itself.
fn a_lock_that_is_handed_over_has_a_new_holder(place: Place) {
    let runtime = place.runtime();
    let mutex = Arc::new(Mutex::new(()));
    let (release, released) = mpsc::channel::<()>();
    let main = runtime.spawn(move || {
        let (theirs, ours) = (Arc::clone(&mutex), Arc::clone(&mutex));
        let guard = mutex.lock().unwrap();
        let overtaken = spawn_named("overtaken", move || {
            let _guard = theirs.lock().unwrap();
            released.recv().is_ok()
        });
        sleep(Duration::from_millis(1));
        drop(guard);
        // On another worker, that one may be faster.
        if let Ok(_guard) = mutex.try_lock() {
            sleep(Duration::from_millis(1));
        }
        let next = spawn_named("next", move || drop(ours.lock()));
        next.join().unwrap();
        overtaken.join().unwrap()
    });
    eventually("the next one waits for the lock of that one", || {
        let (_, overtaken) = awaited_by(&runtime, "overtaken");
        awaited_by(&runtime, "next").0 == Some(WaitsFor::Lock(overtaken))
    });
    drop(release);
    assert!(!main.join().unwrap());
}

fn a_dedicated_fiber_is_listed(place: Place) {
    let runtime = place.runtime();
    let (release, released) = mpsc::channel::<()>();
    let main = runtime.spawn(move || {
        let dedicated = Builder::new().name("dedicated".into()).dedicated();
        dedicated
            .spawn(move || released.recv().is_ok())
            .unwrap()
            .join()
            .unwrap()
    });
    eventually("it is listed", || {
        is_listed(&runtime, "dedicated", FiberState::Dedicated)
    });
    drop(release);
    assert!(!main.join().unwrap());
}

fn a_fiber_that_keeps_a_thread_is_listed(place: Place) {
    let runtime = place.runtime();
    let (release, released) = native::channel::<()>();
    let main = runtime.spawn(move || {
        let blocked = spawn_named("blocked", move || released.recv_timeout(HANG).is_ok());
        // The worker is taken for the sake of another fiber.
        while !blocked.is_finished() {
            yield_now();
        }
    });
    eventually("it keeps a thread", || {
        is_listed(&runtime, "blocked", FiberState::Running)
    });
    drop(release);
    main.join().unwrap();
}

fn a_worker_that_does_not_answer_is_an_error(place: Place) {
    let runtime = place.runtime();
    let (release, released) = native::channel::<()>();
    let (begin, begun) = native::channel();
    let blocked = runtime.spawn(move || {
        begin.send(()).unwrap();
        released.recv_timeout(HANG).is_err()
    });
    begun.recv().unwrap();
    let error = runtime.fibers().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    drop(release);
    assert!(blocked.join().unwrap());
    eventually("it answers", || {
        runtime.fibers().is_ok_and(|list| list.is_empty())
    });
}

fn a_fiber_lists_the_fibers_of_its_runtime(place: Place) {
    if place.is_of_threads() {
        let refused = place.run(|| fibers().unwrap_err().kind());
        assert_eq!(refused, ErrorKind::Unsupported);
        return;
    }
    place.run(|| {
        let (sender, messages) = mpsc::channel::<()>();
        let receiver = spawn_named("receiver", move || messages.recv().is_ok());
        let is_listed = || state_of(&fibers().unwrap(), "receiver") == Some(FiberState::Parked);
        while !is_listed() {
            yield_now();
        }
        // It waits for the list.
        let list = spawn_named("own", || fibers().unwrap()).join().unwrap();
        assert_eq!(list.len(), 3, "{list:?}");
        assert_eq!(state_of(&list, "own"), Some(FiberState::Parked), "{list:?}");
        drop(sender);
        assert!(!receiver.join().unwrap());
    });
}
