//! Runs programs for pthreads on fibers, as they are.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::{env, fs, thread};

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

fn assert_passed(output: &Output, what: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{what}: {}: {errors}",
        output.status
    );
    assert_eq!(output.stdout, b"passed\n", "{what}: {errors}");
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
    check_in_all_places("gcc", "pthread/tests/threads.c");
}

#[test]
fn what_processes_share_and_the_size_of_a_stack_are_those_of_glibc() {
    check_in_all_places("gcc", "preload/tests/native.c");
}

#[test]
fn a_program_in_cpp_runs_on_fibers() {
    if Command::new("g++").arg("--version").output().is_err() {
        eprintln!("not checked: there is no g++");
        return;
    }
    check_in_all_places("g++", "pthread/tests/destructors.cpp");
}

/// A program that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn many_threads_are_few_threads_of_the_system() {
    const CONNECTIONS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let program = compile("cc", "pthread/examples/echo.c", folder.path());
    let mut server = on_fibers(program);
    let mut server = Running(server.stdout(Stdio::piped()).spawn().unwrap());
    let mut address = String::new();
    let output = server.0.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut address).unwrap();
    let connections: Vec<_> = (0..CONNECTIONS)
        .map(|_| TcpStream::connect(address.trim()).unwrap())
        .collect();
    for round in 0..3 {
        for (number, mut connection) in connections.iter().enumerate() {
            let sent = [number as u8, round, 3, 4];
            connection.write_all(&sent).unwrap();
            let mut received = [0; 4];
            connection.read_exact(&mut received).unwrap();
            assert_eq!(received, sent);
        }
    }
    let tasks = format!("/proc/{}/task", server.0.id());
    let threads = fs::read_dir(tasks).unwrap().count();
    let cpus = thread::available_parallelism().unwrap().get();
    assert!(threads <= 2 * cpus + 8, "{threads} threads");
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
