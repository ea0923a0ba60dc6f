//! Runs programs for pthreads on fibers, as they are.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

#[path = "../../pthread/tests/compiled/mod.rs"]
mod compiled;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

use compiled::{Server, assert_passed, check_echo};

/// The driver, and the number of workers.
const PLACES: [(&str, &str); 5] = [
    ("uring", "1"),
    ("uring", "2"),
    ("epoll", "1"),
    ("epoll", "4"),
    ("threads", "2"),
];

/// Returns a command that preloads the library which cargo has built with this test.
fn on_fibers(program: impl AsRef<Path>) -> Command {
    let tests = env::current_exe().unwrap();
    let library = tests.with_file_name("libuthread_preload.so");
    let mut command = Command::new(program.as_ref());
    command.env("LD_PRELOAD", library);
    command
}

/// Compiles a program of `bindings` as it is.
fn compile(compiler: &str, source: &str, folder: &Path) -> PathBuf {
    let program = folder.join(compiler);
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(source);
    let status = Command::new(compiler)
        .args(["-O1", "-g", "-pthread", "-o"])
        .arg(&program)
        .arg(source)
        .status()
        .unwrap();
    assert!(status.success());
    program
}

fn check_in_all_places(compiler: &str, source: &str) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(compiler, source, folder.path());
    for (driver, workers) in PLACES {
        let output = on_fibers(&program)
            .env("UTHREAD_DRIVER", driver)
            .env("UTHREAD_WORKERS", workers)
            .output()
            .unwrap();
        assert_passed(&output, &format!("{driver}, {workers} workers"));
    }
}

#[test]
fn a_program_in_c_runs_on_fibers() {
    check_in_all_places("cc", "pthread/tests/threads.c");
}

#[test]
fn handlers_of_signals_interrupt_fibers_anywhere() {
    check_in_all_places("cc", "pthread/tests/handlers.c");
}

#[test]
fn what_processes_share_and_the_size_of_a_stack_are_those_of_glibc() {
    check_in_all_places("cc", "preload/tests/native.c");
}

/// A block is made for some of many threads only, and their stacks do not stay in memory.
#[test]
fn threads_that_live_shortly_are_as_new_and_use_blocks_again() {
    check_in_all_places("cc", "preload/tests/short.c");
}

/// In each kind of call that waits, there are more threads of the program than of the system.
#[test]
fn calls_that_wait_keep_no_thread_of_the_system() {
    check_in_all_places("gcc", "preload/tests/waits.c");
}

#[test]
fn a_program_in_cpp_runs_on_fibers() {
    if Command::new("c++").arg("--version").output().is_err() {
        eprintln!("not checked: there is no c++");
        return;
    }
    check_in_all_places("c++", "pthread/tests/destructors.cpp");
}

#[test]
fn many_threads_are_few_threads_of_the_system() {
    const CONNECTIONS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cc", "pthread/examples/echo.c", folder.path());
    let server = Server::start(&mut on_fibers(program));
    let connections: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for round in 0..3 {
        for (number, connection) in connections.iter().enumerate() {
            check_echo(connection, [number as u8, round, 3, 4]);
        }
    }
    let tasks = format!("/proc/{}/task", server.process.id());
    let threads = fs::read_dir(tasks).unwrap().count();
    let cpus = thread::available_parallelism().unwrap().get();
    assert!(threads <= 2 * cpus + 8, "{threads} threads");
}

/// It has the section by which a debugger finds the workers of a program that uses uthread.
#[test]
fn a_program_that_uses_uthread_keeps_its_threads() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("own.c");
    let section = r#"__attribute__((section("uthread_root"))) int root = 1;"#;
    let echo = concat!(env!("CARGO_MANIFEST_DIR"), "/../pthread/examples/echo.c");
    let echo = fs::read_to_string(echo).unwrap();
    fs::write(&source, format!("{section}\n{echo}")).unwrap();
    let program = compile("cc", source.to_str().unwrap(), folder.path());
    let server = Server::start(&mut on_fibers(program));
    let connections: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for connection in &connections {
        check_echo(connection, [1, 2, 3, 4]);
    }
    let tasks = format!("/proc/{}/task", server.process.id());
    assert_eq!(fs::read_dir(tasks).unwrap().count(), 1 + connections.len());
}

const TABLE: &str = "
  threads of the program  10, at most 10 at once
  workers                 1
";
const COUNTS: &str = "
  calls that suspend      10: read 10
  calls that may block    20: pthread_mutex_lock 10, epoll_pwait 10
  objects of glibc        1: robust mutex 1
";
const FALL_BACKS: &str = "\
uthread run: pthread_mutex_init: robust mutex: stays with the C library
uthread run: pthread_mutex_lock: object of the C library: may block a thread
uthread run: epoll_pwait: mask of signals: may block a thread
";

#[test]
fn a_program_is_counted_once_however_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cc", "preload/tests/report.c", folder.path());
    let run = |way: &str, variable: Option<&str>| {
        let mut command = on_fibers(&program);
        command.arg(way).env("UTHREAD_WORKERS", "1");
        if let Some(variable) = variable {
            command.env(variable, "1");
        }
        let output = command.output().unwrap();
        assert_passed(&output, way);
        String::from_utf8(output.stderr).unwrap()
    };
    for way in ["return", "exit", "closed", "other file"] {
        let errors = run(way, Some("UTHREAD_STATS"));
        assert!(errors.starts_with("uthread run: cc (process "), "{errors}");
        assert!(errors.contains(TABLE), "{way}: {errors}");
        assert!(errors.ends_with(COUNTS), "{way}: {errors}");
        assert_eq!(errors.matches("uthread run").count(), 1, "{errors}");
    }
    let errors = run("exit of a thread", Some("UTHREAD_STATS"));
    assert!(errors.contains("program  11, at most 10"), "{errors}");
    assert!(errors.ends_with(COUNTS), "{errors}");
    assert_eq!(run("_exit", Some("UTHREAD_STATS")), "");
    assert_eq!(run("return", Some("UTHREAD_VERBOSE")), FALL_BACKS);
    assert_eq!(run("return", None), "");
}

/// Without threads, only the program that was asked for is reported.
#[test]
fn a_program_without_threads_is_counted_if_it_was_asked_for() {
    let run = |script: &str| {
        let output = on_fibers("sh").args(["-c", script]).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let asked_for = run("UTHREAD_STATS=$$ exec true");
    assert_eq!(
        asked_for.matches("program  0, at most 0").count(),
        1,
        "{asked_for}"
    );
    assert_eq!(run("UTHREAD_STATS=$$ true; :"), "");
}

/// Threads of `std` wait in futexes that it calls by their number.
#[test]
fn threads_of_rust_run_on_fibers() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/std.rs");
    let compiler = option_env!("RUSTC").unwrap_or("rustc");
    let mut command = Command::new(compiler);
    command.args(["--edition=2024", "--crate-type=bin", "-o"]);
    let status = command.arg(&program).arg(source).status().unwrap();
    assert!(status.success());
    let output = on_fibers(&program)
        .env("UTHREAD_WORKERS", "1")
        .output()
        .unwrap();
    assert_passed(&output, "Rust");
}

/// Threads of Python take turns by a mutex and a condition variable, and wait in queues.
#[test]
fn threads_of_python_run_on_fibers() {
    const SCRIPT: &str = "
import os, queue, threading, time
jobs, done = queue.Queue(), []
def work():
    for job in iter(jobs.get, None):
        time.sleep(0.001)
        done.append(job * job)
threads = [threading.Thread(target=work) for _ in range(50)]
for thread in threads: thread.start()
count = len(os.listdir('/proc/self/task'))
for job in range(500): jobs.put(job)
for _ in threads: jobs.put(None)
for thread in threads: thread.join()
assert sorted(done) == [job * job for job in range(500)]
assert count < 30, count
print('passed')
";
    if Command::new("python3").arg("-V").output().is_err() {
        eprintln!("not checked: there is no python3");
        return;
    }
    let output = on_fibers("python3").args(["-c", SCRIPT]).output().unwrap();
    assert_passed(&output, "Python");
}
