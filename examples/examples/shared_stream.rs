//! A stream that many fibers write to, by a coarse lock, by a fine lock, and by an owner with a
//! queue: how long the writers wait, and how many events pass in a second.

use std::time::{Duration, Instant};

use uthread::sync::{Mutex, mpsc};

const EVENTS: u32 = 100;
/// Time until a fiber has made its event.
const MADE: Duration = Duration::from_millis(1);
/// Events that wait for the owner; the writers of more wait themselves.
const QUEUE: usize = 32;

/// Writes to a stream that takes this time for it, however many events there are.
fn write(takes: Duration) {
    uthread::sleep(takes);
}

/// Lets writers come and go, and then `finish`. Prints the median and the longest time of a writer, and
/// the events in a second.
fn measure(name: &str, written: impl Fn() + Sync, finish: impl FnOnce()) {
    let start = Instant::now();
    let times = Mutex::new(Vec::new());
    uthread::scope(|scope| {
        for event in 0..EVENTS {
            // Ten at once, 400 in a second.
            let due = start + Duration::from_millis(25) * (event / 10);
            let (written, times) = (&written, &times);
            scope.spawn(move || {
                uthread::sleep(due.saturating_duration_since(Instant::now()));
                written();
                times.lock().unwrap().push(due.elapsed());
            });
        }
    });
    drop(written);
    finish();
    let mut times = times.into_inner().unwrap();
    times.sort_unstable();
    let (median, longest) = (times[times.len() / 2], times[times.len() - 1]);
    let rate = f64::from(EVENTS) / start.elapsed().as_secs_f64();
    eprintln!("| {name} | {median:.1?} | {longest:.1?} | {rate:.0} |");
}

/// Measures with an owner, which writes an event at a time, or all that wait.
fn measure_owner(name: &str, takes: Duration, most: usize) {
    let (sender, queue) = mpsc::sync_channel::<()>(QUEUE);
    let owner = uthread::spawn(move || {
        while queue.recv().is_ok() {
            queue.try_iter().take(most - 1).for_each(drop);
            write(takes);
        }
    });
    let send = move || {
        uthread::sleep(MADE);
        sender.send(()).unwrap();
    };
    measure(name, send, || owner.join().unwrap());
}

#[uthread::main]
fn main() {
    for takes in [2, 4].map(Duration::from_millis) {
        let stream = Mutex::new(takes);
        eprintln!("a write takes {takes:?}:");
        let coarse = || {
            let stream = stream.lock().unwrap();
            uthread::sleep(MADE);
            write(*stream);
        };
        measure("coarse lock", coarse, || ());
        let fine = || {
            uthread::sleep(MADE);
            write(*stream.lock().unwrap());
        };
        measure("fine lock", fine, || ());
        measure_owner("owner, an event at a time", takes, 1);
        measure_owner("owner, all that wait", takes, QUEUE);
    }
    println!("all events were written");
}
