//! Loops of non-blocking checks: they let the fibers run that could make progress, as a loop on a
//! thread does.

use std::time::{Duration, Instant};

use crate::harness::place::Place;
use crate::harness::turns::lets_others_run;
use crate::harness::{EVERYWHERE, ON_WORKERS, behaviours};
use uthread::fs::File;
use uthread::process::{Command, Stdio};
use uthread::sync::{
    LazyLock, Mutex, Once, OnceLock, RwLock, Semaphore, broadcast, mpmc, mpsc, oneshot, promise,
    watch,
};

behaviours![
    (ON_WORKERS, [a_loop_of_looks_lets_the_others_run]),
    (EVERYWHERE, [readers_of_a_cell_wait_for_its_writers])
];

/// Time after which a loop gives up that waits for another fiber, which takes no longer on any
/// machine.
const TIME_MAX: Duration = Duration::from_secs(60);

fn a_loop_of_looks_lets_the_others_run(place: Place) {
    place.runtime_of(1).run(|| {
        looks_at_what_is_set_once(place);
        looks_at_what_is_locked(place);
        looks_at_what_is_sent(place);
        looks_at_what_ends(place);
    });
}

fn looks_at_what_is_set_once(place: Place) {
    let once = Once::new();
    lets_others_run(place, || assert!(!once.is_completed()));
    let cell = OnceLock::<i32>::new();
    lets_others_run(place, || assert!(cell.get().is_none()));
    let lazy = LazyLock::new(|| 1);
    lets_others_run(place, || assert!(LazyLock::get(&lazy).is_none()));
}

fn looks_at_what_is_locked(place: Place) {
    let mutex = Mutex::new(());
    let guard = mutex.lock().unwrap();
    lets_others_run(place, || assert!(mutex.try_lock().is_err()));
    drop(guard);
    let lock = RwLock::new(());
    let writer = lock.write().unwrap();
    lets_others_run(place, || assert!(lock.try_read().is_err()));
    lets_others_run(place, || assert!(lock.try_write().is_err()));
    drop(writer);
    let semaphore = Semaphore::new(0);
    lets_others_run(place, || assert!(semaphore.try_acquire().is_err()));
    lets_others_run(place, || assert_eq!(semaphore.available_permits(), 0));
    let directory = tempfile::tempdir().unwrap();
    let file = File::create(directory.path().join("locked")).unwrap();
    file.lock().unwrap();
    let other = File::open(directory.path().join("locked")).unwrap();
    lets_others_run(place, || assert!(other.try_lock().is_err()));
}

fn looks_at_what_is_sent(place: Place) {
    let (_sender, receiver) = mpsc::channel::<()>();
    lets_others_run(place, || assert!(receiver.try_recv().is_err()));
    lets_others_run(place, || assert_eq!(receiver.try_iter().count(), 0));
    let (_sender, receiver) = mpmc::channel::<()>();
    lets_others_run(place, || assert!(receiver.try_recv().is_err()));
    let (sender, _receiver) = mpsc::sync_channel(0);
    lets_others_run(place, || assert!(sender.try_send(()).is_err()));
    let (_sender, receiver) = oneshot::channel::<()>();
    let mut receiver = Some(receiver);
    lets_others_run(place, || {
        let Err(oneshot::TryRecvError::Empty(empty)) = receiver.take().unwrap().try_recv() else {
            panic!("the channel has a value, but none was sent");
        };
        receiver = Some(empty);
    });
    let (_sender, mut receiver) = broadcast::channel::<()>(1);
    lets_others_run(place, || assert!(receiver.try_recv().is_err()));
    let (_sender, receiver) = watch::channel(false);
    lets_others_run(place, || assert!(!*receiver.borrow()));
    lets_others_run(place, || assert_eq!(receiver.has_changed(), Ok(false)));
    let (_promise, waiter) = promise::channel::<()>();
    lets_others_run(place, || assert!(waiter.try_get().is_err()));
}

fn looks_at_what_ends(place: Place) {
    let (_sender, receiver) = mpsc::channel::<()>();
    let waiting = uthread::spawn(move || receiver.recv().is_err());
    lets_others_run(place, || assert!(!waiting.is_finished()));
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    lets_others_run(place, || assert!(child.try_wait().unwrap().is_none()));
    child.wait().unwrap();
}

/// Repeats one of `std`'s own tests, which begins with more readers than there are workers.
fn readers_of_a_cell_wait_for_its_writers(place: Place) {
    const READERS: usize = 10;
    const WRITERS: usize = 3;
    place.run(|| {
        let cell: &'static OnceLock<String> = Box::leak(Box::default());
        let (sender, receiver) = mpsc::channel();
        for _ in 0..READERS {
            let sender = sender.clone();
            uthread::spawn(move || {
                let start = Instant::now();
                while cell.get().is_none() && start.elapsed() < TIME_MAX {}
                sender.send(cell.get()).unwrap();
            });
        }
        for _ in 0..WRITERS {
            uthread::spawn(|| cell.set("Hello, World".to_owned()));
        }
        for _ in 0..READERS {
            let value = receiver.recv().unwrap();
            assert_eq!(value.map(String::as_str), Some("Hello, World"));
        }
    });
}
