//! Compiles programs that are written for pthreads, as they are and for fibers, and runs them.

mod compiled;
#[path = "../../c/tests/library/mod.rs"]
mod library;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, thread};

use compiled::{Server, assert_passed, check_echo};

/// A compiler and the program that it compiles. Only the first is needed.
const PROGRAMS: [(&str, &str); 4] = [
    ("cc", "tests/threads.c"),
    ("clang", "tests/threads.c"),
    ("c++", "tests/destructors.cpp"),
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

const SANITIZER: &str = "-fsanitize=address";

/// What the address sanitizer reports of each fault of `faults.c`.
const FAULTS: [&str; 5] = [
    "heap-use-after-free",
    "heap-buffer-overflow",
    "stack-buffer-overflow",
    "stack-use-after-return",
    "detected memory leaks",
];

/// Returns arguments that make a program in `folder` one for fibers.
fn for_fibers(folder: &Path) -> Vec<String> {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut arguments = vec![
        format!("-I{}", include.display()),
        "-include".into(),
        "uthread_pthread.h".into(),
    ];
    arguments.extend(library::arguments("uthread_pthread", folder));
    arguments
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
        .output();
    let Ok(output) = output else {
        assert_ne!(compiler, "cc", "there is no C compiler");
        eprintln!("not checked: there is no {compiler}");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{compiler}: {errors}");
    Some(program)
}

/// Returns `true` if a compiler has the runtime of the address sanitizer, which may be a package of
/// its own.
fn has_sanitizer(compiler: &str, folder: &Path) -> bool {
    let source = folder.join("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let output = Command::new(compiler)
        .args([SANITIZER, "-o"])
        .arg(folder.join("empty"))
        .arg(source)
        .output();
    let has = output.is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("not checked: {compiler} has no address sanitizer");
    }
    has
}

/// Returns a run under the address sanitizer, with all that it can find.
fn sanitized(program: &Path, (driver, workers): (&str, &str)) -> Command {
    let mut command = Command::new(program);
    command.env("ASAN_OPTIONS", "detect_stack_use_after_return=1");
    command.env("UTHREAD_DRIVER", driver);
    command.env("UTHREAD_WORKERS", workers);
    command
}

#[test]
fn programs_for_pthreads_pass_as_they_are_and_on_fibers() {
    let folder = tempfile::tempdir().unwrap();
    for (compiler, source) in PROGRAMS {
        let Some(native) = compile(compiler, source, &[], folder.path()) else {
            continue;
        };
        let output = Command::new(native).output().unwrap();
        assert_passed(&output, &format!("{source} by {compiler}, as it is"));
        let fibers = compile(compiler, source, &for_fibers(folder.path()), folder.path()).unwrap();
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

#[test]
fn the_address_sanitizer_finds_faults_in_fibers_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [for_fibers(folder.path()), vec![SANITIZER.into()]].concat();
    for (compiler, source) in PROGRAMS {
        if !has_sanitizer(compiler, folder.path()) {
            continue;
        }
        let program = compile(compiler, source, &arguments, folder.path()).unwrap();
        for place in [PLACES[1], PLACES[2], PLACES[5]] {
            let output = sanitized(&program, place).output().unwrap();
            assert_passed(&output, &format!("{source} by {compiler}, {place:?}"));
        }
        if source.ends_with(".cpp") {
            continue;
        }
        let faults = compile(compiler, "tests/faults.c", &arguments, folder.path()).unwrap();
        for (number, expected) in FAULTS.iter().enumerate() {
            let mut run = sanitized(&faults, PLACES[3]);
            let output = run.arg(number.to_string()).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            let is_found = !output.status.success() && errors.contains(expected);
            assert!(is_found, "{expected} by {compiler}: {errors}");
        }
    }
}

/// With fibers that are no threads to code in C, no thread is created.
#[test]
fn lean_fibers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let fibers = compile(
        "cc",
        "tests/threads.c",
        &for_fibers(folder.path()),
        folder.path(),
    )
    .unwrap();
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
    for more in [vec![], for_fibers(folder.path())] {
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
