//! All threads for a kind of call are busy: a queued call ends with the wait of its caller, and
//! never runs.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Errno;
use uthread::fs::{self, File};
use uthread::runtime::Metrics;
use uthread::thread::Cancelled;
use uthread::time::Elapsed;
use uthread::{JoinHandle, blocking, scope, shield, sleep, spawn, timeout, try_scope, yield_now};

use crate::harness::child::alone;
use crate::harness::place::Place;
use crate::harness::{ON_WORKERS, OUTSIDE, OWN_THREAD, THREADS, behaviours};
use crate::support::calls::Gate;
use crate::support::{HOUR, SHORT};

behaviours![
    (
        &[OUTSIDE, THREADS, OWN_THREAD],
        [
            a_deadline_ends_a_call_that_no_thread_has_begun,
            a_cancelled_call_drops_what_it_captured_and_never_runs,
            a_failed_scope_ends_a_call_that_no_thread_has_begun,
            the_end_of_a_runtime_ends_a_call_that_no_thread_has_begun,
            a_call_that_borrows_is_gone_when_it_was_withdrawn,
            a_shielded_call_waits_for_a_thread,
            thousands_of_calls_are_withdrawn,
        ]
    ),
    (
        ON_WORKERS,
        [
            an_operation_of_the_driver_ends_too,
            a_call_that_has_begun_is_awaited
        ]
    ),
];

/// The threads for blocking calls of a runtime.
const CALL_THREADS: usize = 4;
/// The threads for calls on files of the process.
const FILE_THREADS: usize = 64;

/// Twice the capacity of a pipe.
const COPY_BYTES: usize = 128 * 1024;

/// Keeps all threads of the calling runtime, and all those for files, busy until it is dropped.
struct Busy {
    gate: Arc<Gate>,
    calls: Vec<JoinHandle<()>>,
    /// Both ends of the pipes to which a file is copied.
    pipes: Vec<std::fs::File>,
    copies: Vec<JoinHandle<io::Result<u64>>>,
    _directory: tempfile::TempDir,
}

impl Busy {
    /// Returns when every thread has something to do.
    fn begin() -> Busy {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, [0; COPY_BYTES]).unwrap();
        let paths = (0..FILE_THREADS).map(|number| directory.path().join(number.to_string()));
        let paths: Vec<_> = paths.collect();
        let open_pipe = |path| {
            rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).open(path).unwrap()
        };
        let pipes: Vec<_> = paths.iter().map(open_pipe).collect();
        let copies = paths.into_iter().map(|pipe| {
            let file = file.clone();
            spawn(move || fs::copy(file, pipe))
        });
        let copies = copies.collect();

        let gate = Arc::<Gate>::default();
        let begun = Arc::new(AtomicUsize::new(0));
        let calls = (0..CALL_THREADS).map(|_| {
            let (gate, begun) = (Arc::clone(&gate), Arc::clone(&begun));
            spawn(move || {
                blocking(|| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    gate.pass();
                });
            })
        });
        let calls = calls.collect();
        while begun.load(Ordering::Relaxed) < CALL_THREADS {
            yield_now();
        }
        await_full(&pipes);
        Busy {
            gate,
            calls,
            pipes,
            copies,
            _directory: directory,
        }
    }

    /// Lets the calls end, and all that were queued behind them.
    fn end(mut self) {
        self.open();
        for call in self.calls.drain(..) {
            call.join().unwrap();
        }
        for copy in self.copies.drain(..) {
            assert_eq!(copy.join().unwrap().unwrap(), COPY_BYTES as u64);
        }
        for _ in 0..FILE_THREADS {
            blocking(|| ());
            fs::read_link("/proc/self/exe").unwrap();
        }
    }

    fn open(&mut self) {
        self.gate.open();
        let pipes = std::mem::take(&mut self.pipes);
        std::thread::spawn(move || {
            for pipe in pipes {
                io::copy(&mut pipe.take(COPY_BYTES as u64), &mut io::sink()).unwrap();
            }
        });
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.open();
    }
}

/// Returns the number of calls that no thread has begun.
fn queued() -> usize {
    let metrics = Metrics::current().unwrap();
    metrics.blocking.queued + metrics.files.queued
}

/// Waits until so many calls are queued.
fn await_queued(count: usize) {
    while queued() < count {
        yield_now();
    }
}

/// Waits until each pipe is full: the thread that fills it waits in its call until it is read.
fn await_full(pipes: &[std::fs::File]) {
    let is_full = |pipe| {
        let mut asked = [PollFd::new(pipe, PollFlags::OUT)];
        poll(&mut asked, Some(&Timespec::default())).unwrap() == 0
    };
    while !pipes.iter().all(is_full) {
        sleep(SHORT);
    }
}

/// Runs the body in a process of its own, in the place, with few threads for blocking calls.
fn run_starved(place: Place, body: impl FnOnce() + Send) {
    alone(|| {
        let builder = place.builder().blocking_threads(CALL_THREADS);
        builder.build().unwrap().run(body);
    });
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

const CANCELLED: Option<i32> = Some(Errno::CANCELED.raw_os_error());
const ELAPSED: Option<i32> = Some(Errno::TIMEDOUT.raw_os_error());

fn a_deadline_ends_a_call_that_no_thread_has_begun(place: Place) {
    run_starved(place, || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let busy = Busy::begin();
        let created = timeout(SHORT, || fs::create_dir(&path)).unwrap();
        assert_eq!(errno(created), ELAPSED);
        assert_eq!(timeout(SHORT, || blocking(|| ())), Err(Elapsed));
        busy.end();
        assert!(!path.exists(), "the call ran later");
    });
}

/// Tells when it is dropped, and lets others run meanwhile, as a destructor may.
struct Captured(Arc<AtomicBool>);

impl Drop for Captured {
    fn drop(&mut self) {
        yield_now();
        self.0.store(true, Ordering::Relaxed);
    }
}

fn a_cancelled_call_drops_what_it_captured_and_never_runs(place: Place) {
    run_starved(place, || {
        let busy = Busy::begin();
        let ran = Arc::new(AtomicBool::new(false));
        let dropped = Arc::new(AtomicBool::new(false));
        let queued_before = queued();
        let waiting = spawn({
            let (ran, dropped) = (Arc::clone(&ran), Arc::clone(&dropped));
            move || {
                let captured = Captured(dropped);
                blocking(move || {
                    ran.store(true, Ordering::Relaxed);
                    drop(captured);
                });
            }
        });
        let with_an_error = spawn(|| fs::create_dir("/missing/directory"));
        await_queued(queued_before + 2);
        waiting.cancel();
        with_an_error.cancel();
        assert!(waiting.join().unwrap_err().is::<Cancelled>());
        assert_eq!(errno(with_an_error.join().unwrap()), CANCELLED);
        assert!(dropped.load(Ordering::Relaxed));
        busy.end();
        assert!(!ran.load(Ordering::Relaxed));
    });
}

fn a_failed_scope_ends_a_call_that_no_thread_has_begun(place: Place) {
    run_starved(place, || {
        let busy = Busy::begin();
        let queued_before = queued();
        let failed = try_scope(|scope| {
            scope.spawn(|| fs::create_dir("/missing/directory"));
            scope.spawn(|| Ok(blocking(|| 42)));
            scope.spawn(|| {
                await_queued(queued_before + 3);
                Err::<(), _>(io::Error::other("on purpose"))
            });
            blocking(|| ());
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "on purpose");
        busy.end();
    });
}

fn the_end_of_a_runtime_ends_a_call_that_no_thread_has_begun(place: Place) {
    alone(|| {
        let runtime = place.builder().blocking_threads(CALL_THREADS);
        let runtime = runtime.build().unwrap();
        let mut busy = runtime.run(Busy::begin);
        let queued_before = runtime.run(queued);
        let error = runtime.spawn(|| errno(fs::create_dir("/missing/directory")));
        let unwound = runtime.spawn(|| blocking(|| ()));
        runtime.run(|| await_queued(queued_before + 2));
        // The end of the runtime waits for the calls that have begun.
        let joined = std::thread::spawn(move || {
            let results = (error.join(), unwound.join());
            busy.open();
            results
        });
        drop(runtime);
        let (error, unwound) = joined.join().unwrap();
        assert_eq!(error.unwrap(), CANCELLED);
        assert!(unwound.unwrap_err().is::<Cancelled>());
    });
}

fn a_call_that_borrows_is_gone_when_it_was_withdrawn(place: Place) {
    run_starved(place, || {
        let busy = Busy::begin();
        for _ in 0..10 {
            // If a thread called it later, it would write to freed memory.
            let mut borrowed = vec![0_u8; 4096];
            let withdrawn = timeout(SHORT, || blocking(|| borrowed.fill(1)));
            assert_eq!(withdrawn, Err(Elapsed));
            assert!(borrowed.iter().all(|byte| *byte == 0));
        }
        busy.end();
    });
}

/// Covers the creation of a file, which the driver of epoll leaves to the pool.
fn an_operation_of_the_driver_ends_too(place: Place) {
    run_starved(place, || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let busy = Busy::begin();
        // Where a thread of the kernel takes the requests, it may have to wait for a CPU.
        let time = if place.is_of_epoll() {
            SHORT
        } else {
            Duration::from_secs(20)
        };
        let late = timeout(time, || File::create(&path)).unwrap();
        let cancelled = {
            let path = path.clone();
            spawn(move || File::create(path))
        };
        yield_now();
        cancelled.cancel();
        let cancelled = cancelled.join();
        if place.is_of_epoll() {
            assert_eq!(errno(late), ELAPSED);
            // The fiber may have been cancelled before it began.
            let cancelled = cancelled.map_or(CANCELLED, errno);
            assert_eq!(cancelled, CANCELLED);
            busy.end();
            assert!(!path.exists(), "the call ran later");
        } else {
            late.unwrap();
        }
    });
}

fn a_shielded_call_waits_for_a_thread(place: Place) {
    run_starved(place, || {
        let busy = Busy::begin();
        let queued_before = queued();
        scope(|scope| {
            let shielded = scope.spawn(|| shield(|| blocking(|| 42)));
            await_queued(queued_before + 1);
            shielded.cancel();
            sleep(SHORT);
            assert!(!shielded.is_finished());
            busy.end();
            assert_eq!(shielded.join().unwrap(), 42);
        });
    });
}

fn a_call_that_has_begun_is_awaited(place: Place) {
    run_starved(place, || {
        let gate = Gate::default();
        let begun = AtomicBool::new(false);
        scope(|scope| {
            let waiting = scope.spawn(|| {
                blocking(|| {
                    begun.store(true, Ordering::Release);
                    gate.pass();
                    42
                })
            });
            while !begun.load(Ordering::Acquire) {
                yield_now();
            }
            waiting.cancel();
            sleep(SHORT);
            assert!(!waiting.is_finished(), "a thread still runs it");
            gate.open();
            assert_eq!(waiting.join().unwrap(), 42);
        });
    });
}

/// Checks that withdrawn calls leave nothing behind in the queue, and that later calls are served.
fn thousands_of_calls_are_withdrawn(place: Place) {
    run_starved(place, || {
        let busy = Busy::begin();
        let waiting: Vec<_> = (0..5_000).map(|_| spawn(|| blocking(|| ()))).collect();
        sleep(SHORT);
        waiting.iter().for_each(JoinHandle::cancel);
        for waiting in waiting {
            assert!(waiting.join().unwrap_err().is::<Cancelled>());
        }
        busy.end();
        timeout(HOUR, || blocking(|| ())).unwrap();
    });
}
