//! Children created by a bare `fork`, in which a fiber or a plain thread continues as the only
//! thread.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use uthread::fs::File;
use uthread::net::{TcpListener, TcpStream, UdpSocket};
use uthread::process::Command;
use uthread::sync::{Condvar, Mutex, RwLock, mpsc};
use uthread::thread::Builder;
use uthread::{Runtime, blocking, local, select, sleep, spawn, timeout};

use crate::harness::child::run_alone;
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, IN_FIBERS, OUTSIDE, OWN_THREAD, behaviours};
use crate::support::{FREE, Flag, HOUR, drain, file_of, pair_with_std};

behaviours![
    (
        EVERYWHERE,
        [
            bytes_that_a_child_writes_to_a_pipe_arrive,
            a_failed_exec_is_reported_through_a_pipe,
            calls_in_a_child_are_carried_out,
            waits_in_a_child_end,
            locks_are_as_they_were,
            a_child_has_a_runtime_of_its_own,
            a_child_of_a_child_is_one_too,
            commands_run_beside_and_in_children,
            the_parent_goes_on,
        ]
    ),
    (
        IN_FIBERS,
        [
            a_fiber_that_returns_in_a_child_ends_it,
            the_parents_runtime_is_refused_in_a_child,
            a_deadline_of_the_parent_is_not_the_childs,
        ]
    ),
    (
        &[OUTSIDE, OWN_THREAD],
        [a_call_on_another_thread_that_returns_in_a_child_ends_it]
    ),
];

/// The status of a child that has panicked.
const FAILED: i32 = 101;

/// Forks this process, and returns the child, or `None` in the child itself.
#[allow(unsafe_code, reason = "what this is about")]
fn fork() -> Option<Pid> {
    // SAFETY: a copy of this process does what the tests say.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", io::Error::last_os_error());
    let pid = Pid::from_raw(pid);
    if pid.is_none() {
        // The alarm ends a child that hangs.
        // SAFETY: `alarm(2)` takes a number.
        unsafe { libc::alarm(20) };
    }
    pid
}

/// Ends a child without any more ado.
#[allow(unsafe_code, reason = "what such children do")]
fn exit(status: i32) -> ! {
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(status) }
}

/// Runs the body in a child that ends with it.
fn in_child(body: impl FnOnce()) -> Pid {
    fork().unwrap_or_else(|| {
        let called = catch_unwind(AssertUnwindSafe(body));
        exit(if called.is_ok() { 0 } else { FAILED })
    })
}

/// Waits for a child, and returns the status with which it has exited.
fn status_of(child: Pid) -> i32 {
    let waited = blocking(move || waitpid(Some(child), WaitOptions::empty()));
    let (_, status) = waited.unwrap().expect("the child has a status");
    status
        .exit_status()
        .unwrap_or_else(|| panic!("a signal: {status:?}"))
}

/// Runs the body in a child and expects that it succeeds.
#[track_caller]
fn check_in_child(body: impl FnOnce()) {
    assert_eq!(status_of(in_child(body)), 0);
}

fn bytes_that_a_child_writes_to_a_pipe_arrive(place: Place) {
    run_alone(place, || {
        let (mut reader, mut writer) = uthread::io::pipe().unwrap();
        let child = in_child(|| {
            for _ in 0..100 {
                writer.write_all(b"line\n").unwrap();
            }
        });
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "line\n".repeat(100));
        assert_eq!(status_of(child), 0);
    });
}

/// Covers the way in which libraries that start processes report a failed `exec`.
fn a_failed_exec_is_reported_through_a_pipe(place: Place) {
    run_alone(place, || {
        let (reader, writer) = io::pipe().unwrap();
        let [mut reader, mut writer] =
            [OwnedFd::from(reader), OwnedFd::from(writer)].map(File::from);
        let child = in_child(|| {
            let error = std::process::Command::new("/no/such/program").exec();
            let errno = error.raw_os_error().unwrap();
            writer.write_all(&errno.to_le_bytes()).unwrap();
        });
        drop(writer);
        let mut errno = [0; 4];
        reader.read_exact(&mut errno).unwrap();
        let errno = Errno::from_raw_os_error(i32::from_le_bytes(errno));
        assert_eq!(errno, Errno::NOENT);
        assert_eq!(status_of(child), 0);
    });
}

fn calls_in_a_child_are_carried_out(place: Place) {
    run_alone(place, || {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let (mut ours, mut theirs) = pair_with_std();
        let (_sender, silent) = mpsc::channel::<()>();
        let mut file = file_of(b"contents");
        check_in_child(|| {
            uthread::fs::write(&path, b"written").unwrap();
            assert_eq!(uthread::fs::read(&path).unwrap(), b"written");
            assert_eq!(uthread::fs::metadata(&path).unwrap().len(), 7);
            file.write_all(b", and more").unwrap();
            let listener = TcpListener::bind(FREE).unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(b"question").unwrap();
            server.read_exact(&mut [0; 8]).unwrap();
            let socket = UdpSocket::bind(FREE).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_millis(5)))
                .unwrap();
            assert!(socket.recv(&mut [0]).is_err());
            let ready = select! {
                readable(&ours) -> ready => ready.is_ok(),
                recv(&silent) => false,
                after(Duration::from_millis(5)) => true,
            };
            assert!(ready);
            writeln!(uthread::io::stderr(), "a line from the child").unwrap();
            assert_eq!(blocking(|| 6 * 7), 42);
            ours.write_all(b"from the child").unwrap();
        });
        theirs.read_exact(&mut [0; 14]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"written");
    });
}

fn waits_in_a_child_end(place: Place) {
    run_alone(place, || {
        let (mut reader, mut writer) = uthread::io::pipe().unwrap();
        let child = in_child(|| {
            sleep(Duration::from_millis(2));
            uthread::yield_now();
            let late = timeout(Duration::from_millis(2), || sleep(HOUR));
            assert!(late.is_err());
            // Comes from the parent, when it likes.
            let mut text = [0; 4];
            reader.read_exact(&mut text).unwrap();
            assert_eq!(&text, b"text");
        });
        sleep(Duration::from_millis(10));
        writer.write_all(b"text").unwrap();
        assert_eq!(status_of(child), 0);
    });
}

/// Catches waiters of the parent that wait in the child.
fn locks_are_as_they_were(place: Place) {
    run_alone(place, || {
        let (lock, table, changed) = (&Mutex::new(1), RwLock::new(2), Condvar::new());
        let held = lock.lock().unwrap();
        let wait = || *lock.lock().unwrap();
        let seen = place.meanwhile(wait, || {
            let mut held = held;
            check_in_child(|| {
                // The guard is the child's as well.
                *held += 1;
                let next = uthread::scope(|scope| {
                    let waits = Flag::default();
                    let raised = waits.clone();
                    let next = scope.spawn(move || {
                        raised.raise();
                        *lock.lock().unwrap()
                    });
                    waits.wait();
                    drop(held);
                    next.join().unwrap()
                });
                assert_eq!(next, 2);
                assert_eq!(*table.write().unwrap(), 2);
                let guard = lock.lock().unwrap();
                let waited = changed.wait_timeout(guard, Duration::from_millis(2));
                assert!(waited.unwrap().1.timed_out());
                let (sender, receiver) = mpsc::channel();
                sender.send(3).unwrap();
                assert_eq!(receiver.recv(), Ok(3));
            });
        });
        assert_eq!(seen, 1);
    });
}

fn a_child_has_a_runtime_of_its_own(place: Place) {
    // The default one of the parent, and its pool, are there already.
    let begun = || std::thread::spawn(|| spawn(|| blocking(|| 1)).join().unwrap());
    run_alone(place, || {
        assert_eq!(begun().join().unwrap(), 1);
        check_in_child(|| {
            let handles: Vec<_> = (0..10).map(|number| spawn(move || number * 2)).collect();
            let sum: u32 = handles
                .into_iter()
                .map(|handle| handle.join().unwrap())
                .sum();
            assert_eq!(sum, 90);
            let (sender, receiver) = mpsc::sync_channel(0);
            let sending = spawn(move || sender.send(fs::read("/dev/null").is_ok()));
            assert_eq!(receiver.recv(), Ok(true));
            sending.join().unwrap().unwrap();
            let runtime = Runtime::builder().workers(1).build().unwrap();
            assert_eq!(runtime.run(|| blocking(|| 6 * 7)), 42);
        });
    });
}

fn a_child_of_a_child_is_one_too(place: Place) {
    run_alone(place, || {
        check_in_child(|| {
            assert_eq!(spawn(|| 1).join().unwrap(), 1);
            check_in_child(|| {
                assert_eq!(spawn(|| 2).join().unwrap(), 2);
                check_in_child(|| assert_eq!(spawn(|| blocking(|| 3)).join().unwrap(), 3));
            });
            assert_eq!(spawn(|| 4).join().unwrap(), 4);
        });
    });
}

#[allow(unsafe_code, reason = "a closure for the child of the command")]
fn commands_run_beside_and_in_children(place: Place) {
    fn run() {
        assert!(Command::new("true").status().unwrap().success());
        let mut command = Command::new("cat");
        // SAFETY: the closure makes a system call only.
        unsafe {
            command.pre_exec(|| Ok(rustix::process::umask(rustix::fs::Mode::RWXU)).map(|_| ()))
        };
        let output = command.arg("/dev/null").output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty());
        assert!(Command::new("/no/such/program").spawn().is_err());
    }
    run_alone(place, || {
        run();
        check_in_child(run);
        run();
    });
}

fn the_parent_goes_on(place: Place) {
    run_alone(place, || {
        let (ours, mut theirs) = pair_with_std();
        let mut ours = Some(ours);
        for round in 0..10 {
            theirs.write_all(&[round]).unwrap();
            let mut byte = [0];
            ours.as_mut().unwrap().read_exact(&mut byte).unwrap();
            assert_eq!(byte, [round]);
            if round % 3 == 2 {
                // In the child it ends, with all that stands for it.
                check_in_child(|| drop(ours.take()));
            }
        }
        assert_eq!(spawn(|| blocking(|| 6 * 7)).join().unwrap(), 42);
        drop(ours);
        assert_eq!(drain(theirs), b"");
    });
}

/// Expects what a `std` thread does whose closure returns in a forked child: its local values are
/// dropped, and its joiners do not exist.
fn a_fiber_that_returns_in_a_child_ends_it(place: Place) {
    local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }
    struct AtEnd(uthread::io::PipeWriter);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            self.0.write_all(b"end").unwrap();
        }
    }
    run_alone(place, || {
        let builders = [Builder::new(), Builder::new().dedicated()];
        for (builder, panics) in builders
            .into_iter()
            .flat_map(|of| [(of.clone(), false), (of, true)])
        {
            let (mut reader, writer) = uthread::io::pipe().unwrap();
            let forking = builder.spawn(move || {
                AT_END.with(|at_end| *at_end.borrow_mut() = Some(AtEnd(writer)));
                let child = fork();
                assert!(child.is_some() || !panics, "in the child, on purpose");
                child
            });
            let child = forking.unwrap().join().unwrap();
            let child = child.expect("the parent alone joins the child");
            assert_eq!(status_of(child), if panics { FAILED } else { 0 });
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, "endend");
        }
    });
}

fn a_call_on_another_thread_that_returns_in_a_child_ends_it(place: Place) {
    run_alone(place, || {
        if place.is_of_threads() {
            // Such a fiber makes the call on its own thread.
            return;
        }
        let child = blocking(fork).expect("the child does not get here");
        assert_eq!(status_of(child), 0);
    });
}

/// Catches a child that waits for workers that are not there.
fn the_parents_runtime_is_refused_in_a_child(place: Place) {
    run_alone(place, || {
        let runtime = place.runtime();
        let child = in_child(|| {
            let spawned = catch_unwind(AssertUnwindSafe(|| runtime.run(|| ())));
            let message = spawned.unwrap_err();
            let message = message.downcast_ref::<&str>().unwrap();
            assert!(message.contains("child made by fork"), "{message}");
            // The child leaves the runtime as it is.
            drop(runtime);
        });
        assert_eq!(status_of(child), 0);
    });
}

fn a_deadline_of_the_parent_is_not_the_childs(place: Place) {
    run_alone(place, || {
        let mut child = None;
        let _ = timeout(Duration::from_millis(1), || {
            std::thread::sleep(Duration::from_millis(5));
            child = Some(in_child(|| sleep(Duration::from_millis(1))));
        });
        assert_eq!(status_of(child.unwrap()), 0);
    });
}
