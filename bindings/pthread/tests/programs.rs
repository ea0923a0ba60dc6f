//! Compiles programs that are written for pthreads, as they are and for fibers, and runs them.

mod compiled;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, thread};

use compiled::{Server, assert_passed, check_echo};

/// A compiler and the program that it compiles.
const PROGRAMS: [(&str, &str); 4] = [
    ("gcc", "tests/threads.c"),
    ("clang", "tests/threads.c"),
    ("g++", "tests/destructors.cpp"),
    ("clang++", "tests/destructors.cpp"),
];

/// The environment of a run for fibers: the driver, and the number of workers.
const PLACES: [(&str, &str); 6] = [
    ("uring", "1"),
    ("uring", "2"),
    ("epoll", "1"),
    ("epoll", "2"),
    ("epoll", "4"),
    ("threads", "2"),
];

/// Arguments that make a program one for fibers.
fn for_fibers() -> Vec<String> {
    let libraries = env::current_exe().unwrap();
    let libraries = libraries.parent().unwrap().display();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    vec![
        "-I".into(),
        include.display().to_string(),
        "-include".into(),
        "uthread_pthread.h".into(),
        format!("-L{libraries}"),
        "-luthread_pthread".into(),
        // Before the paths of cargo, where an older build of the library may be.
        format!("-Wl,--disable-new-dtags,-rpath,{libraries}"),
    ]
}

/// Compiles a program, or returns `None` if there is no such compiler.
fn compile(compiler: &str, source: &str, more: &[String], folder: &Path) -> Option<PathBuf> {
    let program = folder.join(format!("{compiler}-{}", more.len()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let output = Command::new(compiler)
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args(more)
        .output()
        .ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {errors}");
    Some(program)
}

#[test]
fn programs_for_pthreads_pass_as_they_are_and_on_fibers() {
    let folder = tempfile::tempdir().unwrap();
    for (compiler, source) in PROGRAMS {
        let Some(native) = compile(compiler, source, &[], folder.path()) else {
            eprintln!("not checked: there is no {compiler}");
            continue;
        };
        let output = Command::new(native).output().unwrap();
        assert_passed(&output, &format!("{source} by {compiler}, as it is"));
        let fibers = compile(compiler, source, &for_fibers(), folder.path()).unwrap();
        for (driver, workers) in PLACES {
            let output = Command::new(&fibers)
                .env("UTHREAD_DRIVER", driver)
                .env("UTHREAD_WORKERS", workers)
                .output()
                .unwrap();
            let what = format!("{source} by {compiler}, on {driver} with {workers} workers");
            assert_passed(&output, &what);
        }
    }
}

/// With fibers that are no threads to code in C, no thread is created.
#[test]
fn lean_fibers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let fibers = compile("cc", "tests/threads.c", &for_fibers(), folder.path()).unwrap();
    let output = Command::new(fibers)
        .env("UTHREAD_LEAN", "1")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("pthread_create"), "{errors}");
}

#[test]
fn the_example_echoes_as_it_is_and_on_fibers() {
    const CONNECTIONS: usize = 100;
    let folder = tempfile::tempdir().unwrap();
    for more in [vec![], for_fibers()] {
        let program = compile("cc", "examples/echo.c", &more, folder.path()).unwrap();
        let server = Server::start(&mut Command::new(program));
        thread::scope(|scope| {
            for number in 0..CONNECTIONS {
                let connection = server.connect();
                scope.spawn(move || {
                    for round in 0..10 {
                        check_echo(&connection, [number as u8, round, 3, 4]);
                    }
                });
            }
        });
    }
}
