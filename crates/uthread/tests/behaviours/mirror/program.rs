//! The program. What it knows as `thread` is its parent's choice.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{io, panic};

use super::thread::{
    self, AccessError, Builder, JoinHandle, LocalKey, Result, Scope, ScopedJoinHandle, Thread,
    ThreadId,
};

pub(crate) fn run() {
    threads_are_joined();
    builders_name_and_size();
    threads_of_a_scope_borrow();
    panics_are_results();
    parks_are_ended();
    others_run_meanwhile();
    types_have_the_traits_of_std();
}

fn threads_are_joined() {
    let handle: JoinHandle<u32> = thread::spawn(|| 6 * 7);
    let thread: Thread = handle.thread().clone();
    assert_eq!(thread.name(), None);
    let result: Result<u32> = handle.join();
    assert_eq!(result.unwrap(), 42);
    let own: ThreadId = thread::current().id();
    assert_ne!(own, thread.id());
    assert_eq!(own, thread::current().id());
    let other = thread::spawn(|| thread::current().id());
    assert_ne!(other.join().unwrap(), own);
}

#[allow(
    unsafe_code,
    reason = "the unsafe function is among those to be called"
)]
fn builders_name_and_size() {
    let builder = Builder::new().name("bee".to_owned()).stack_size(256 * 1024);
    let handle: io::Result<JoinHandle<Option<String>>> =
        builder.spawn(|| thread::current().name().map(str::to_owned));
    let handle = handle.unwrap();
    assert_eq!(handle.thread().name(), Some("bee"));
    assert_eq!(handle.join().unwrap().as_deref(), Some("bee"));
    let value = AtomicU32::new(1);
    // SAFETY: the fiber is joined before the value that it borrows ends.
    let handle = unsafe { Builder::new().spawn_unchecked(|| value.load(Ordering::Relaxed)) };
    assert_eq!(handle.unwrap().join().unwrap(), 1);
}

fn threads_of_a_scope_borrow() {
    fn spawn_two<'scope>(scope: &'scope Scope<'scope, '_>, sum: &'scope AtomicU32) -> ThreadId {
        let add = |number| move || sum.fetch_add(number, Ordering::Relaxed);
        let first: ScopedJoinHandle<'scope, u32> = scope.spawn(add(1));
        let second = Builder::new().name("second".into());
        let second: io::Result<ScopedJoinHandle<'_, u32>> = second.spawn_scoped(scope, add(2));
        let second = second.unwrap();
        assert_eq!(second.thread().name(), Some("second"));
        while !second.is_finished() {
            thread::yield_now();
        }
        second.join().unwrap();
        first.thread().id()
    }
    let sum = AtomicU32::new(0);
    let first = thread::scope(|scope| spawn_two(scope, &sum));
    assert_ne!(first, thread::current().id());
    assert_eq!(sum.into_inner(), 3);
}

fn panics_are_results() {
    struct Looks(Arc<AtomicBool>);
    impl Drop for Looks {
        fn drop(&mut self) {
            self.0.store(thread::panicking(), Ordering::Relaxed);
        }
    }
    let seen = Arc::new(AtomicBool::new(false));
    let looks = Looks(Arc::clone(&seen));
    let failing = thread::spawn(move || {
        let _looks = looks;
        resume_unwind(Box::new("on purpose"))
    });
    let result: Result<()> = failing.join();
    assert_eq!(result.unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert!(seen.load(Ordering::Relaxed));
    assert!(!thread::panicking());
    let unjoined = panic::catch_unwind(|| {
        thread::scope(|scope| {
            scope.spawn(|| resume_unwind(Box::new(())));
        });
    });
    assert!(unjoined.is_err());
}

fn parks_are_ended() {
    let go_on = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&go_on);
    let parked = thread::spawn(move || {
        while !theirs.load(Ordering::Relaxed) {
            thread::park();
        }
    });
    go_on.store(true, Ordering::Relaxed);
    parked.thread().unpark();
    parked.join().unwrap();
    // One that comes first is remembered.
    thread::current().unpark();
    thread::park();
    thread::park_timeout(Duration::from_millis(1));
}

fn others_run_meanwhile() {
    let parallel: io::Result<NonZeroUsize> = thread::available_parallelism();
    assert!(parallel.unwrap().get() >= 1);
    let begin = Instant::now();
    thread::sleep(Duration::from_millis(1));
    assert!(begin.elapsed() >= Duration::from_millis(1));
    let handle = thread::spawn(thread::yield_now);
    while !handle.is_finished() {
        thread::yield_now();
    }
    handle.join().unwrap();
}

fn types_have_the_traits_of_std() {
    fn shared<T: Send + Sync + Debug>() {}
    shared::<JoinHandle<u8>>();
    shared::<ScopedJoinHandle<'_, u8>>();
    shared::<Scope<'_, '_>>();
    shared::<Builder>();
    shared::<LocalKey<u8>>();
    fn cloned<T: Send + Sync + Debug + Clone + 'static>() {}
    cloned::<Thread>();
    fn plain<T: Send + Sync + Debug + Copy + Eq + Hash + 'static>() {}
    plain::<ThreadId>();
    fn error<T: Error + Display + Copy + Eq + Send + Sync + 'static>() {}
    error::<AccessError>();
    let ids = [(); 3].map(|()| thread::spawn(|| thread::current().id()).join().unwrap());
    assert_eq!(HashSet::from(ids).len(), 3);
    thread_local!(static NUMBER: u8 = const { 5 });
    let number: &'static LocalKey<u8> = &NUMBER;
    assert_eq!(number.try_with(|number| *number), Ok(5));
}
