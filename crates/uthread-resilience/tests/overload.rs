//! A server that gets four times what it can do.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use uthread::sync::Semaphore;
use uthread_resilience::{Limit, Refused};

const PLACES: usize = 4;
const WORK: Duration = Duration::from_millis(2);
const CLIENTS: usize = 200;
const CALLS: usize = 1000;

/// Lets all clients call the server at once, again and again, and returns the latencies of those that were
/// answered, the shortest first.
fn latencies(limit: Option<&Limit>) -> Vec<Duration> {
    let places = Semaphore::new(PLACES);
    let work = || -> Result<(), Refused> {
        let _place = places.acquire().expect("it is open");
        uthread::sleep(WORK);
        Ok(())
    };
    let answered = Mutex::new(Vec::new());
    uthread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                while answered.lock().unwrap().len() < CALLS {
                    let start = Instant::now();
                    let result = match limit {
                        Some(limit) => limit.call(work),
                        None => work(),
                    };
                    match result {
                        Ok(()) => answered.lock().unwrap().push(start.elapsed()),
                        Err(_) => uthread::sleep(10 * WORK),
                    }
                }
            });
        }
    });
    let mut answered = answered.into_inner().unwrap();
    answered.sort_unstable();
    answered
}

#[uthread::test(virtual_time)]
fn with_a_limit_an_overloaded_server_answers_in_time() {
    let without = latencies(None);
    let limit = Limit::new(2, 1000);
    let with = latencies(Some(&limit));
    let median = |latencies: &[Duration]| latencies[latencies.len() / 2];
    let (slow, fast) = (median(&without), median(&with));
    assert!(4 * fast < slow, "{fast:?} with a limit, {slow:?} without");
    let current = limit.current();
    assert!(current >= PLACES / 2, "{current} calls at once");
}
