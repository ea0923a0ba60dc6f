//! A thread of the pool against the caller of a call, whose wait may end before the call has begun.

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::check;
use crate::fiber::outcome::Outcome;
use crate::fiber::{WakeHandle, keep_wakes_in};
use crate::pool::queue::{Queue, Ticket};
use crate::sched::caller::{Ending, wait};

type Pool = Mutex<Queue<Call>>;

/// A call that borrows from its caller.
struct Call {
    borrowed: Arc<Borrowed>,
    outcome: Arc<Outcome<()>>,
}

/// Memory of the caller, and the number of accesses by others.
#[derive(Default)]
struct Borrowed {
    touched: AtomicUsize,
    has_returned: AtomicBool,
}

impl Borrowed {
    /// Runs the call, or drops it without running it.
    fn touch(&self) {
        self.touched.fetch_add(1, Ordering::Relaxed);
        let has_returned = self.has_returned.load(Ordering::Relaxed);
        assert!(!has_returned, "the caller has returned");
    }
}

/// Serves one call, like `Pool::serve`.
fn serve_one(pool: &Pool) {
    let call = pool.lock().unwrap().begin();
    if let Some(call) = call {
        call.borrowed.touch();
        call.outcome.complete(());
    }
}

/// Makes a call, like `offload::perform`.
fn call(pool: &Pool, ending: &Ending) {
    ending.apply_here();
    let borrowed = Arc::new(Borrowed::default());
    let outcome = Arc::new(Outcome::new());
    assert!(outcome.await_done(WakeHandle::current()));
    let ticket = pool.lock().unwrap().push(Call {
        borrowed: Arc::clone(&borrowed),
        outcome: Arc::clone(&outcome),
    });
    if let Some(call) = wait_or_withdraw(pool, ticket, &outcome) {
        call.borrowed.touch();
    }
    borrowed.has_returned.store(true, Ordering::Relaxed);
    let touched = borrowed.touched.load(Ordering::Relaxed);
    assert_eq!(touched, 1, "neither run nor dropped, or both");
}

fn wait_or_withdraw(pool: &Pool, ticket: Ticket, outcome: &Outcome<()>) -> Option<Call> {
    while !outcome.is_done() {
        if wait::park_unless_cancelled() {
            continue;
        }
        let call = pool.lock().unwrap().withdraw(ticket);
        if call.is_some() {
            return call;
        }
        while !outcome.is_done() {
            wait::park();
        }
    }
    None
}

/// Catches a thread of the pool that runs a call whose caller has returned, and a caller that waits
/// for a call that nobody runs.
#[test]
fn a_call_is_run_or_withdrawn() {
    check(3, || {
        let pool: Arc<Pool> = Arc::new(Mutex::new(Queue::new()));
        let ending = Ending::keeping_wakes();
        let caller = {
            let (pool, ending) = (Arc::clone(&pool), ending.clone());
            thread::spawn(move || call(&pool, &ending))
        };
        let server = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || serve_one(&pool))
        };
        ending.shut_down(caller.thread());
        caller.join().unwrap();
        server.join().unwrap();
        assert!(pool.lock().unwrap().is_empty(), "a withdrawn call is left");
    });
}

#[test]
fn a_call_behind_one_that_was_withdrawn_runs() {
    // One caller gives up, the other one does not: its call is the one that runs.
    check(2, || {
        let pool: Arc<Pool> = Arc::new(Mutex::new(Queue::new()));
        let outcome = Arc::new(Outcome::new());
        let mut queue = pool.lock().unwrap();
        let new_call = |outcome| Call {
            borrowed: Arc::default(),
            outcome,
        };
        let first = queue.push(new_call(Arc::new(Outcome::new())));
        queue.push(new_call(Arc::clone(&outcome)));
        assert_eq!(queue.len(), 2);
        drop(queue);
        let server = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                serve_one(&pool);
                serve_one(&pool);
            })
        };
        keep_wakes_in(Arc::default());
        assert!(outcome.await_done(WakeHandle::current()) || outcome.is_done());
        drop(pool.lock().unwrap().withdraw(first));
        while !outcome.is_done() {
            wait::park();
        }
        server.join().unwrap();
    });
}
