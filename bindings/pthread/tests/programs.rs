//! Compiles programs that are written for pthreads, as they are and for fibers, and runs them.

mod compiled;
#[path = "../../c/tests/library/mod.rs"]
mod library;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, thread};

use compiled::{Server, assert_passed, check_echo};

/// A compiler and the program that it compiles. Only the first is needed.
const PROGRAMS: [(&str, &str); 5] = [
    ("cc", "tests/threads.c"),
    ("cc", "tests/handlers.c"),
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

/// Sends one request, and returns the status and the contents of the answer.
fn get(mut connection: &TcpStream, name: &str, headers: &str) -> (String, Vec<u8>) {
    write!(connection, "GET {name} HTTP/1.1\r\n{headers}\r\n").unwrap();
    let mut lines = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(lines.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let length = head.split("Content-Length: ").nth(1).unwrap();
    let length = length.lines().next().unwrap().parse().unwrap();
    let mut contents = vec![0; length];
    lines.read_exact(&mut contents).unwrap();
    (head.lines().next().unwrap().to_owned(), contents)
}

#[test]
fn the_web_server_serves_files_as_it_is_and_on_fibers() {
    const CONNECTIONS: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let small = b"a small file".to_vec();
    let large: Vec<u8> = (0..100_000_u32).map(|byte| byte as u8).collect();
    for (name, contents) in [("small", &small), ("large", &large), ("empty", &vec![])] {
        fs::write(folder.path().join(name), contents).unwrap();
    }
    let mut for_fibers = for_fibers(folder.path());
    for_fibers.push("-D_GNU_SOURCE".into());
    for more in [vec!["-D_GNU_SOURCE".into()], for_fibers] {
        let program = compile("cc", "examples/web.c", &more, folder.path()).unwrap();
        let server = Server::start(Command::new(program).arg(folder.path()));
        thread::scope(|scope| {
            for _ in 0..CONNECTIONS {
                scope.spawn(|| {
                    let connection = server.connect();
                    let found = "HTTP/1.1 200 OK".to_owned();
                    for (name, contents) in [("/small", &small), ("/large", &large)] {
                        assert_eq!(
                            get(&connection, name, ""),
                            (found.clone(), contents.clone())
                        );
                    }
                    assert_eq!(get(&connection, "/empty", ""), (found, Vec::new()));
                    let (status, _) = get(&connection, "/none", "Connection: close\r\n");
                    assert_eq!(status, "HTTP/1.1 404 Not Found");
                    assert_eq!((&connection).read(&mut [0]).unwrap(), 0);
                });
            }
        });
        let (status, _) = get(&server.connect(), "/../small", "");
        assert_eq!(status, "HTTP/1.1 400 Bad Request");
    }
}
