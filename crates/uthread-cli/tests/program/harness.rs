//! Runs the program on a free port, and communicates with it in raw bytes.
//!
//! No test relies on sleeping: each waits for a line, a byte, an end of input or an exit. The
//! deadline below only turns a hang into a failure.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketType, bind, getsockname};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use tempfile::TempDir;

/// Time limit of a step, which only a hang exceeds, also on a loaded machine.
pub(crate) const HANG: Duration = Duration::from_secs(20);

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uthread"));
    command.args(args);
    command
}

/// Copies the program, to be run from there. If this process wrote the file, the child of another
/// test could still have it open, and the kernel runs no file that is open for writing.
pub(crate) fn copy_program(to: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_uthread"));
    let copied = Command::new("cp").args([program, to]).status();
    assert!(copied.unwrap().success());
}

/// Checks that a page has the date, the version and a command that begins so.
#[track_caller]
pub(crate) fn check_facts(page: &str, command: &str) {
    let version = env!("CARGO_PKG_VERSION");
    for fact in [
        "<dt>date</dt> <dd>20".to_owned(),
        format!("<dt>uthread</dt> <dd>{version}"),
        format!("<dt>command</dt> <dd><code>{command}"),
    ] {
        assert!(page.contains(&fact), "the page has no {fact}");
    }
}

/// Creates a directory with these files; a path that ends in a slash is a directory.
pub(crate) fn site(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let full_path = dir.path().join(path);
        if path.ends_with('/') {
            fs::create_dir_all(full_path).unwrap();
        } else {
            fs::create_dir_all(full_path.parent().unwrap()).unwrap();
            fs::write(full_path, content).unwrap();
        }
    }
    dir
}

/// Creates a file of this size that uses no disk space.
pub(crate) fn sparse_file(path: &Path, bytes: u64) {
    fs::File::create(path).unwrap().set_len(bytes).unwrap();
}

/// A running `uthread serve`, `uthread echo` or `uthread tunnel`; killed when dropped.
pub(crate) struct Program {
    child: Child,
    /// Unset if it listens on a Unix socket.
    pub(crate) addr: SocketAddr,
    pub(crate) startup_line: String,
    /// The address of the counters, if they are served.
    pub(crate) counters: Option<SocketAddr>,
    pub(crate) stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<BufReader<ChildStderr>>,
    site: Option<TempDir>,
}

impl Program {
    /// Serves these files, without an access log unless the arguments ask for one.
    pub(crate) fn serve(files: &[(&str, &str)], args: &[&str]) -> Program {
        Program::serve_site(site(files), args)
    }

    pub(crate) fn serve_site(site: TempDir, args: &[&str]) -> Program {
        let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
        command.arg(site.path());
        if !args.contains(&"--log") {
            command.args(["--log", "off"]);
        }
        let mut program = Program::serving(command.args(args).stdin(Stdio::null()));
        program.site = Some(site);
        program
    }

    /// Starts `uthread serve` by this command.
    pub(crate) fn serving(command: &mut Command) -> Program {
        let mut program = Program::start(command);
        program.stderr = program.child.stderr.take().map(BufReader::new);
        program.find_counters(command);
        program.startup_line = program.stderr_line("serving ");
        let line = &program.startup_line;
        if !line.contains(" on unix:") {
            let url = line.split("http://").nth(1).unwrap();
            program.addr = url.split('/').next().unwrap().parse().unwrap();
        }
        program
    }

    /// Relays as the arguments say, without an access log unless they ask for one.
    pub(crate) fn tunnel(args: &[&str]) -> Program {
        let mut command = command(&["tunnel", "--listen", "127.0.0.1:0"]);
        if !args.contains(&"--log") {
            command.args(["--log", "off"]);
        }
        Program::tunnelling(command.args(args).stdin(Stdio::null()))
    }

    /// Starts `uthread tunnel` by this command.
    pub(crate) fn tunnelling(command: &mut Command) -> Program {
        let mut program = Program::start(command);
        program.stderr = program.child.stderr.take().map(BufReader::new);
        program.find_counters(command);
        program.startup_line = program.stderr_line("(workers");
        let line = &program.startup_line;
        if !line.contains(" on unix:") {
            let words = line.split(' ');
            program.addr = words.filter_map(|word| word.parse().ok()).next().unwrap();
        }
        program
    }

    /// Reads the address of the counters from the line about them, if the command asks for
    /// counters.
    fn find_counters(&mut self, command: &Command) {
        if command.get_args().any(|argument| argument == "--counters") {
            let line = self.stderr_line("counters on http://");
            let url = line.trim().strip_suffix("/metrics").unwrap();
            self.counters = Some(url.split("http://").nth(1).unwrap().parse().unwrap());
        }
    }

    /// Requests the counters.
    pub(crate) fn counted(&self) -> Response {
        let mut reader = Client::new(TcpStream::connect(self.counters.unwrap()).unwrap());
        reader.send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        reader.response()
    }

    pub(crate) fn echo(args: &[&str]) -> Program {
        let mut command = command(&["echo", "--listen", "127.0.0.1:0"]);
        Program::echoing(command.args(args).stdin(Stdio::null()))
    }

    /// Starts `uthread echo` by this command.
    pub(crate) fn echoing(command: &mut Command) -> Program {
        let mut program = Program::start(command);
        let stdout = program.stdout.as_mut().unwrap();
        program.startup_line = read_line(stdout);
        let addr = program.startup_line.trim().strip_prefix("listening on ");
        let addr = addr.unwrap().split(',').next().unwrap();
        if !addr.starts_with("unix:") {
            program.addr = addr.parse().unwrap();
        }
        program
    }

    fn start(command: &mut Command) -> Program {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Program {
            addr: SocketAddr::from(([0, 0, 0, 0], 0)),
            startup_line: String::new(),
            counters: None,
            stdout: child.stdout.take().map(BufReader::new),
            stderr: None,
            site: None,
            child,
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.site.as_ref().unwrap().path()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.addr).unwrap())
    }

    /// Sends one request on a new connection.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.get_with(path, "")
    }

    pub(crate) fn get_with(&self, path: &str, fields: &str) -> Response {
        let mut client = self.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
        client.response()
    }

    /// Returns the next line of stdout, such as one of the access log.
    pub(crate) fn stdout_line(&mut self) -> String {
        read_line(self.stdout.as_mut().unwrap())
    }

    /// Reads stderr up to a line that contains `text`.
    pub(crate) fn stderr_line(&mut self, text: &str) -> String {
        loop {
            let line = read_line(self.stderr.as_mut().unwrap());
            assert_ne!(line, "", "stderr ended without {text:?}");
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Reads stderr of a program without a server's log, after its end.
    pub(crate) fn stderr_rest(&mut self) -> String {
        io::read_to_string(self.child.stderr.take().unwrap()).unwrap()
    }

    /// Limits the number of open files of the program, standard streams included; returns the
    /// previous limit.
    pub(crate) fn limit_descriptors(&self, count: u64) -> u64 {
        let limit = Rlimit {
            current: Some(count),
            // The hard limit must stay, so that the soft one can be raised again; the program
            // inherited it from this process.
            maximum: getrlimit(Resource::Nofile).maximum,
        };
        let pid = Some(Pid::from_child(&self.child));
        prlimit(pid, Resource::Nofile, limit)
            .unwrap()
            .current
            .unwrap()
    }

    /// Returns the bytes of memory that the program has.
    pub(crate) fn resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        1024 * kib.parse::<usize>().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until the program accepts no more connections.
    pub(crate) fn await_refusal(&self) {
        wait_until(|| TcpStream::connect(self.addr).is_err());
    }

    pub(crate) fn exit_code(&mut self) -> i32 {
        let mut code = None;
        wait_until(|| {
            code = self.child.try_wait().unwrap();
            code.is_some()
        });
        code.unwrap().code().expect("ended by a signal")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program may have ended already, as many tests intend.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a socket that has an address and does not listen: connecting to it is refused, and no
/// other test can take its port. A server that reuses addresses may listen there.
pub(crate) fn refusing_socket() -> (OwnedFd, SocketAddr) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    set_socket_reuseaddr(&socket, true).unwrap();
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = getsockname(&socket).unwrap();
    (socket, address.try_into().unwrap())
}

pub(crate) fn wait_until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < HANG, "waited for too long");
        std::thread::yield_now();
    }
}

/// Returns the next line of a pipe, with its end; empty at the end of the pipe.
pub(crate) fn read_line<P: Read + AsFd>(pipe: &mut BufReader<P>) -> String {
    let hang = Timespec::try_from(HANG).unwrap();
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        if pipe.buffer().is_empty() {
            let ready = poll(
                &mut [PollFd::new(pipe.get_ref(), PollFlags::IN)],
                Some(&hang),
            );
            assert_eq!(ready, Ok(1), "waited for too long for a line");
        }
        let available = pipe.fill_buf().unwrap();
        let end = available.iter().position(|&byte| byte == b'\n');
        let count = end.map_or(available.len(), |end| end + 1);
        line.extend_from_slice(&available[..count]);
        pipe.consume(count);
        if count == 0 {
            break;
        }
    }
    String::from_utf8(line).unwrap()
}

/// One connection, as bytes.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn new(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.set_write_timeout(Some(HANG)).unwrap();
        Client {
            stream: BufReader::new(stream),
        }
    }

    /// Connects to a Unix socket.
    pub(crate) fn at(path: &Path) -> Client {
        // Reading, writing and timeouts are the same calls for both types.
        Client::new(OwnedFd::from(UnixStream::connect(path).unwrap()).into())
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.get_mut().write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn get_ref(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Sends a byte every few milliseconds until a response arrives.
    pub(crate) fn trickle_until_answered(&mut self) {
        let pause = Duration::from_millis(10);
        self.stream.get_ref().set_read_timeout(Some(pause)).unwrap();
        wait_until(|| {
            // The server may close between two bytes; then there is a response to read.
            let _ = self.stream.get_mut().write_all(b"x");
            self.stream.fill_buf().is_ok()
        });
        self.stream.get_ref().set_read_timeout(Some(HANG)).unwrap();
    }

    /// Reads one response to the end of its body.
    pub(crate) fn response(&mut self) -> Response {
        let mut response = self.response_head();
        let bytes = match response.status {
            304 => 0,
            _ => response.field("content-length").unwrap().parse().unwrap(),
        };
        response.body = vec![0; bytes];
        self.stream.read_exact(&mut response.body).unwrap();
        response
    }

    /// Reads a head and nothing after it.
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let count = self.stream.read_line(&mut head).unwrap();
            assert!(count > 0, "the connection ended in a head: {head:?}");
        }
        head
    }

    /// Reads the head of a response and nothing after it.
    pub(crate) fn response_head(&mut self) -> Response {
        let head = self.head();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(head.starts_with("HTTP/1.1 "), "{head}");
        Response {
            status,
            head,
            body: Vec::new(),
        }
    }

    /// Reads to the end of the connection, which must not be a reset.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).unwrap();
        rest
    }

    /// Counts the bytes to the end of the connection, whether or not it ends with a reset.
    pub(crate) fn count_rest(&mut self) -> u64 {
        let mut count = 0;
        let mut chunk = vec![0; 64 * 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return count,
                Ok(bytes) => count += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return count,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn read_exact(&mut self, bytes: usize) -> Vec<u8> {
        let mut found = vec![0; bytes];
        self.stream.read_exact(&mut found).unwrap();
        found
    }
}

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}
