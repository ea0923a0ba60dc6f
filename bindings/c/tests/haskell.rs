//! Compiles the Haskell packages with plain `ghc`, and runs their tests and their web server. What
//! is not installed is skipped, with a word.

mod library;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use uthread::net::TcpSocket;

/// Packages beyond those that come with GHC.
const PACKAGES: [&str; 4] = ["network", "tasty", "tasty-hunit", "tasty-quickcheck"];

/// Time within which a program starts on a busy machine.
const START_MAX: Duration = Duration::from_secs(30);

/// Number of connections that are reset: the server may be killed before it notices the last.
const RESETS: usize = 20;

/// Returns `true` if the tests can be compiled, and otherwise says why not.
fn is_installed() -> bool {
    let has = |package: &&str| {
        let mut asks = Command::new("ghc-pkg");
        asks.args(["describe", package]).stdout(Stdio::null());
        asks.stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let missing = PACKAGES.iter().find(|package| !has(package));
    if let Some(package) = missing {
        eprintln!(
            "not checked: the Haskell packages, as ghc or its package {package} is not installed"
        );
    }
    missing.is_none()
}

/// Compiles a program, whose main module is in one of the folders of `sources`.
fn compile(folder: &Path, main: &str, sources: &[&str]) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let haskell = package.join("../haskell");
    let name = main.replace('/', "-");
    let program = folder.join(&name);
    let mut ghc = Command::new("ghc");
    ghc.args(["-v0", "-threaded", "-rtsopts", "-Wall", "-Werror", "-O1"]);
    for source in sources {
        ghc.arg(format!("-i{}", haskell.join(source).display()));
    }
    ghc.arg("-outputdir")
        .arg(folder.join(format!("{name}.build")));
    ghc.arg(format!(
        "-I{}",
        haskell.join("uthread-uring/cbits").display()
    ));
    ghc.arg(format!("-I{}", package.join("include").display()));
    ghc.arg(haskell.join(main));
    // Objects of C are put beside their source.
    let completion = folder.join(format!("{name}.c"));
    fs::copy(
        haskell.join("uthread-uring/cbits/completion.c"),
        &completion,
    )
    .unwrap();
    ghc.arg(completion);
    let [folder_of_libraries, library, path] = library::arguments("uthread_ring", folder);
    ghc.args([folder_of_libraries, library, format!("-optl{path}")]);
    ghc.arg("-o").arg(&program);
    assert!(ghc.status().unwrap().success(), "{main} does not compile");
    program
}

/// Runs a test program on one and on two capabilities.
fn run(program: &Path) {
    for capabilities in ["-N1", "-N2"] {
        let output = Command::new(program)
            .args(["+RTS", capabilities])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{capabilities}:\n{text}");
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_manager_passes_its_tests() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sources = ["uthread-uring/src"];
    run(&compile(
        folder.path(),
        "uthread-uring/tests/Main.hs",
        &sources,
    ));
}

#[test]
fn sockets_and_files_pass_their_tests() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sources = ["uthread-uring/src", "uthread-network/src"];
    run(&compile(
        folder.path(),
        "uthread-network/tests/Main.hs",
        &sources,
    ));
}

/// The programs of the README have no errors and no warnings.
#[test]
fn the_programs_of_the_readme_compile() {
    if !is_installed() {
        return;
    }
    let haskell = Path::new(env!("CARGO_MANIFEST_DIR")).join("../haskell");
    let readme = fs::read_to_string(haskell.join("README.md")).unwrap();
    let programs: Vec<_> = readme.split("```haskell\n").skip(1).collect();
    assert_eq!(programs.len(), 4);
    let folder = tempfile::tempdir().unwrap();
    for (number, program) in programs.into_iter().enumerate() {
        let (program, _) = program.split_once("```").unwrap();
        let path = folder.path().join(format!("program{number}.hs"));
        fs::write(&path, program).unwrap();
        let mut ghc = Command::new("ghc");
        ghc.args(["-v0", "-Wall", "-Werror", "-fno-code"]).arg(path);
        for sources in ["uthread-uring/src", "uthread-network/src"] {
            ghc.arg(format!("-i{}", haskell.join(sources).display()));
        }
        assert!(ghc.status().unwrap().success(), "program {number}");
    }
}

/// A program that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn connect(port: u16) -> TcpStream {
    let begin = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => return stream,
            Err(error) => assert!(begin.elapsed() < START_MAX, "{error}"),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Sends requests on one connection, and returns the responses once as many of them have this body
/// as are expected.
fn request(stream: &mut TcpStream, paths: &[&str], body: &str, expected: usize) -> String {
    let requests: String = paths
        .iter()
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n"))
        .collect();
    stream.write_all(requests.as_bytes()).unwrap();
    stream.set_read_timeout(Some(START_MAX)).unwrap();
    let mut text = String::new();
    let mut bytes = [0; 4096];
    while text.matches(body).count() < expected {
        let count = stream.read(&mut bytes).unwrap();
        assert!(count > 0, "the connection has ended: {text}");
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    text
}

/// Sends a request, and closes the connection with a part of the response unread, which resets it.
fn reset(mut stream: TcpStream) {
    stream.write_all(b"GET /page HTTP/1.1\r\n\r\n").unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

#[test]
fn the_web_server_answers_by_each_manager() {
    if !is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sources = ["uthread-uring/src", "uthread-network/src"];
    let program = compile(folder.path(), "server/Main.hs", &sources);
    let files = folder.path().join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("page"), "a page").unwrap();
    for manager in ["ghc", "epoll", "uring", "loop"] {
        if manager == "uring"
            && uthread::Runtime::builder()
                .driver(uthread::Driver::Uring)
                .build()
                .is_err()
        {
            eprintln!("not checked: the server on io_uring, which the kernel refuses");
            continue;
        }
        // The server cannot report where it listens, but it reuses addresses: this socket, which
        // does not listen, keeps the port for it.
        let reserved = TcpSocket::new_v4().unwrap();
        reserved.set_reuse_address(true).unwrap();
        reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = reserved.local_addr().unwrap().port();
        let server = Command::new(&program)
            .args([manager, &port.to_string()])
            .arg(&files)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Running(server);
        let mut stream = connect(port);
        let page = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na page";
        let text = request(&mut stream, &["/page", "/none", "/page"], page, 2);
        assert!(text.contains("HTTP/1.1 404"), "{manager}: {text}");
        let closing = [
            ("GET /page HTTP/1.0", "Connection: close"),
            (
                "GET /page HTTP/1.1\r\nconnection: Close",
                "Connection: close",
            ),
        ];
        for (request, field) in closing {
            let mut stream = connect(port);
            write!(stream, "{request}\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.contains(field), "{manager}: {text}");
        }
        for _ in 0..RESETS {
            reset(connect(port));
        }
        request(&mut stream, &["/page"], page, 1);
        server.0.kill().unwrap();
        let mut errors = String::new();
        let mut stderr = server.0.stderr.take().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        assert_eq!(errors, "", "{manager}: a reset connection is no error");
    }
}
