//! Thread-local storage of its own where the C library or the kernel sets limits: the block of a
//! fiber is neither lost nor used with old values.

use std::ffi::{CString, c_int, c_void};
use std::hint::black_box;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;
use std::{fs, mem, thread};

use rustix::process::{Resource, getgid, getrlimit, getuid, setrlimit};
use rustix::thread::gettid;
use tempfile::tempdir;

use crate::harness::child::{alone, run_alone};
use crate::harness::place::Place;
use crate::harness::{behaviours, lacks};
use crate::own_tls::WITH_OWN_TLS;
use crate::support::users::{become_ordinary_user, end_after_hang, forbid_threads, set_group};
use crate::support::{HANG, HOUR, eventually};
use uthread::{scope, sleep, spawn, yield_now};

behaviours![(
    WITH_OWN_TLS,
    [
        a_runtime_ends_where_no_thread_can_start,
        a_shortage_of_threads_passes,
        variables_of_a_later_library_have_initial_values,
        a_fiber_changes_the_user_and_the_group_of_all_threads,
        threads_get_the_ids_of_earlier_ones,
    ]
)];

const FIBERS: usize = 200;

/// Starts fibers that wait, and returns when all do.
fn start_sleepers(runtime: &uthread::Runtime) {
    runtime.run(|| {
        for _ in 0..FIBERS {
            drop(spawn(|| sleep(HOUR)));
        }
        scope(|scope| drop(scope.spawn(|| ())));
    });
}

/// Ends a runtime while no thread can start, so that the C library cannot end those of the fibers.
/// It then still lists their blocks, which it accesses whenever a thread changes its user.
fn a_runtime_ends_where_no_thread_can_start(place: Place) {
    alone(|| {
        become_ordinary_user();
        let runtime = place.runtime();
        start_sleepers(&runtime);
        let limit = getrlimit(Resource::Nproc);
        forbid_threads();
        drop(runtime);
        setrlimit(Resource::Nproc, limit).unwrap();
        // Not on the same addresses.
        let next = place.builder().stack_size(1 << 20).build().unwrap();
        start_sleepers(&next);
        drop(next);
        become_ordinary_user();
    });
}

/// Catches a worker that keeps its stuck thread although threads can start again.
fn a_shortage_of_threads_passes(place: Place) {
    const BLOCKED_MAX: usize = 10;
    const PAUSE: Duration = Duration::from_millis(300);
    alone(|| {
        become_ordinary_user();
        let runtime = place.runtime_of(1);
        let (send, receive) = mpsc::channel();
        let receive = Arc::new(Mutex::new(receive));
        let (begin, begun) = mpsc::channel();
        let (start, starts) = uthread::sync::mpmc::channel();
        // All start before threads are forbidden, as their blocks may need one each.
        let block = |_| {
            let (begin, starts, receive) = (begin.clone(), starts.clone(), Arc::clone(&receive));
            place.spawn_waiting(&runtime, move || {
                starts.recv().unwrap();
                begin.send(()).unwrap();
                receive.lock().unwrap().recv_timeout(HANG).unwrap();
            })
        };
        let blocking: Vec<_> = (0..BLOCKED_MAX).map(block).collect();
        let (release, released) = uthread::sync::mpmc::channel();
        let releasing = place.spawn_waiting(&runtime, move || {
            released.recv().unwrap();
            (0..BLOCKED_MAX).for_each(|_| send.send(()).unwrap());
        });
        let limit = getrlimit(Resource::Nproc);
        forbid_threads();
        (0..BLOCKED_MAX).for_each(|_| start.send(()).unwrap());
        // Some threads are there, but not for all.
        let count = (0..BLOCKED_MAX).take_while(|_| begun.recv_timeout(PAUSE).is_ok());
        assert!(count.count() < BLOCKED_MAX);
        release.send(()).unwrap();
        setrlimit(Resource::Nproc, limit).unwrap();
        for fiber in blocking.into_iter().chain([releasing]) {
            fiber.join().unwrap();
        }
    });
}

/// A variable of the model *initial-exec*, which the C library places in each block when it loads
/// the library.
const LIBRARY: &str = r#"
    __attribute__((tls_model("initial-exec"))) __thread int value = 7;
    int increment(void) { return value++; }
"#;

fn variables_of_a_later_library_have_initial_values(place: Place) {
    run_alone(place, || {
        // Blocks from before the library.
        (0..FIBERS).for_each(|_| spawn(|| ()).join().unwrap());
        let increment = load_library();
        for _ in 0..FIBERS {
            let before = spawn(increment).join().unwrap();
            assert_eq!(before, 7);
        }
        scope(|scope| {
            let fibers: Vec<_> = (0..FIBERS).map(|_| scope.spawn(increment)).collect();
            fibers
                .into_iter()
                .for_each(|fiber| assert_eq!(fiber.join().unwrap(), 7));
        });
    });
}

/// Compiles and loads the library, and returns its function.
#[allow(unsafe_code, reason = "a function of a library")]
fn load_library() -> impl Fn() -> c_int + Copy + Send + 'static {
    let folder = tempdir().unwrap();
    let (source, library) = (folder.path().join("late.c"), folder.path().join("late.so"));
    fs::write(&source, LIBRARY).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source);
    assert!(compiler.status().unwrap().success());
    let path = CString::new(library.into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: the library has no initializers.
    let loaded = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!loaded.is_null());
    // SAFETY: the library stays loaded.
    let address = unsafe { libc::dlsym(loaded, c"increment".as_ptr()) };
    assert!(!address.is_null());
    // SAFETY: the function has this type.
    let increment = unsafe { mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(address) };
    move || increment()
}

/// Changes them as servers do that drop privileges: for all threads by the C library, which waits
/// until each has answered a signal. Fibers switch, compute and block their threads meanwhile.
fn a_fiber_changes_the_user_and_the_group_of_all_threads(place: Place) {
    const ROUNDS: usize = 50;
    needs_glibc();
    alone(|| {
        end_after_hang();
        place.runtime_of(2).run(|| {
            let (begun, ticks, ends) = (
                AtomicUsize::new(0),
                AtomicUsize::new(0),
                AtomicBool::new(false),
            );
            let ended = || ends.load(Ordering::Relaxed);
            let (release, blocked) = mpsc::channel::<()>();
            scope(|scope| {
                scope.spawn(|| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    while !ended() {
                        black_box(());
                    }
                });
                let begun = &begun;
                scope.spawn(move || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    blocked.recv().unwrap_err();
                });
                for pause in [
                    None,
                    None,
                    Some(Duration::from_micros(50)),
                    Some(Duration::from_millis(1)),
                ] {
                    let (ticks, ended) = (&ticks, &ended);
                    scope.spawn(move || {
                        while !ended() {
                            pause.map_or_else(yield_now, sleep);
                            ticks.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                // Workers were taken from this fiber and from two others.
                eventually("both have begun", || begun.load(Ordering::Relaxed) == 2);
                let before = ticks.load(Ordering::Relaxed);
                eventually("the others go on", || {
                    ticks.load(Ordering::Relaxed) > before
                });
                for _ in 0..ROUNDS {
                    set_group(true);
                    yield_now();
                    set_group(false);
                }
                become_ordinary_user();
                // A list that is read while another thread ends lacks those behind it.
                eventually("all threads are listed", || credentials_checked() > 2);
                ends.store(true, Ordering::Relaxed);
                drop(release);
            });
        });
    });
}

/// Starts threads with the ids that the kernel has given to those by which the library has learned
/// the format of a block. The C library still lists these.
fn threads_get_the_ids_of_earlier_ones(place: Place) {
    const LAST_ID: &str = "/proc/sys/kernel/ns_last_pid";
    const THREADS: usize = 50;
    needs_glibc();
    alone(|| {
        end_after_hang();
        let first = thread::spawn(gettid).join().unwrap();
        let runtime = place.runtime();
        if fs::write(LAST_ID, first.to_string()).is_err() {
            lacks("the right to choose the id of a thread");
        }
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let blocked = Arc::clone(&blocked);
                thread::spawn(move || blocked.lock().unwrap().recv().unwrap_err())
            })
            .collect();
        runtime.run(|| set_group(true));
        drop(release);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

fn needs_glibc() {
    if cfg!(not(target_env = "gnu")) {
        lacks("a C library that can signal the threads of fibers");
    }
}

/// Compares the user and the group of each thread with those of the calling one. Returns the number
/// of threads.
fn credentials_checked() -> usize {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let mut threads = 0;
    for entry in fs::read_dir("/proc/self/task").unwrap() {
        // A thread may end meanwhile.
        let Ok(status) = fs::read_to_string(entry.unwrap().path().join("status")) else {
            continue;
        };
        // Workers of the kernel's have the credentials of each request.
        if status.starts_with("Name:\tiou-") {
            continue;
        }
        for (field, id) in [("Uid:", user), ("Gid:", group)] {
            let line = status.lines().find(|line| line.starts_with(field)).unwrap();
            let ids = line.split_whitespace().skip(1);
            let ids: Vec<u32> = ids.map(|id| id.parse().unwrap()).collect();
            assert_eq!(ids, [id; 4], "{status}");
        }
        threads += 1;
    }
    threads
}
