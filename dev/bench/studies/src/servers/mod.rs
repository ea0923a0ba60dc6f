//! Starts a server on a free port of 127.0.0.1 and stops it again.
//!
//! `taskset` sets the CPUs before the program starts, so that every thread inherits them. `setpriv`
//! lets the kernel end the server if this program is killed first. Both replace themselves by the
//! program, so the child is the server.

pub(crate) mod database;
pub(crate) mod haskell;
pub(crate) mod http;
pub(crate) mod tunnel;

use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use uthread_report::measure::proc;

use crate::peers::Program;

/// A server that has not begun to listen after this long has hung; a working one needs under
/// 100 ms.
const START_MAX: Duration = Duration::from_secs(10);
/// How long a server may take to end itself before it is killed.
const STOP_MAX: Duration = Duration::from_secs(3);
/// Interval between two looks at a server that starts or ends.
const POLL_EVERY: Duration = Duration::from_millis(5);
/// Number of attempts to start a server on a free port. Another process may take the port before
/// the server binds it, but three failures have another cause.
const PORT_ATTEMPTS_MAX: usize = 3;
/// Lines of a failed server that are shown; more would bury the message.
const STDERR_LINES_KEPT: usize = 20;

/// Runs a program at the lowest priority of `SCHED_FIFO`, which is above that of every ordinary
/// process.
const REAL_TIME: [&str; 3] = ["chrt", "--fifo", "1"];

/// A running server; dropping it ends it and all its processes.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    /// Its configuration and temporary files.
    _folder: Option<TempDir>,
}

impl Server {
    /// Starts a server of `dev/bench/peers/README.md` by its command.
    pub(crate) fn start_peer(
        program: &Program,
        cpus: &[usize],
        arguments: &[&str],
    ) -> Result<Server> {
        let mut command = pinned(cpus, &program.path);
        command
            .args(program.prefix)
            .args(arguments)
            // The server exits at the end of its standard input, so `Child` keeps the pipe open.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = command.spawn().context("run taskset")?;
        let lines = read_lines(child.stdout.take());
        let mut server = Server::new(child);
        let line = lines.recv_timeout(START_MAX);
        let line = line.context("it has not printed its address")?;
        server.address = line
            .parse()
            .with_context(|| format!("it listens on {line:?}"))?;
        Ok(server)
    }

    /// Wraps a server whose address is not known yet.
    fn new(child: Child) -> Server {
        Server {
            child,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            _folder: None,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn has_exited_within(&mut self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => thread::sleep(POLL_EVERY),
                Ok(status) => return status.is_some(),
                Err(_) => return false,
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process id of a child that has been waited for may belong to another process.
        if self.has_exited_within(Duration::ZERO) {
            return;
        }
        let processes = proc::tree(self.pid()).unwrap_or_default();
        let _ = Pid::from_raw(self.pid() as i32).map(|pid| kill_process(pid, Signal::TERM));
        if self.has_exited_within(STOP_MAX) {
            return;
        }
        let _ = self.child.kill();
        let descendants = processes.iter().map(|process| process.pid);
        let descendants = descendants.filter(|&pid| pid as u32 != self.pid());
        for pid in descendants.filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Starts a server that prints its address, on either stream.
pub(crate) fn start_listening(mut command: Command) -> Result<Server> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn().context("run taskset")?;
    // The command holds write ends of the pipe, whose end the reader sees once all are closed.
    drop(command);
    let lines = read_lines(Some(reader));
    let mut server = Server::new(child);
    let deadline = Instant::now() + START_MAX;
    let mut printed = Vec::new();
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if let Some(address) = address_in(&line) {
            let is_local = address.ip().is_loopback();
            ensure!(is_local, "the server listens on {address}, not on loopback");
            server.address = address;
            return Ok(server);
        }
        printed.push(line);
    }
    bail!("it has not printed its address:\n{}", printed.join("\n"))
}

/// Starts a server on a port that was free a moment ago. `command` returns its command, and the
/// folder that it needs while it runs.
fn start_on_free_port(
    mut command: impl FnMut(SocketAddr) -> Result<(Command, Option<TempDir>)>,
) -> Result<Server> {
    let mut said = String::new();
    for _ in 0..PORT_ATTEMPTS_MAX {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let (mut command, folder) = command(address)?;
        let mut child = command.spawn().context("run taskset")?;
        let lines = read_lines(child.stderr.take());
        let mut server = Server {
            child,
            address,
            _folder: folder,
        };
        let deadline = Instant::now() + START_MAX;
        while Instant::now() < deadline && !server.has_exited_within(POLL_EVERY) {
            if TcpStream::connect(address).is_ok() {
                return Ok(server);
            }
        }
        drop(server);
        said = lines
            .iter()
            .take(STDERR_LINES_KEPT)
            .collect::<Vec<_>>()
            .join("\n");
    }
    bail!("it does not listen:\n{said}")
}

/// Returns a command that runs `program` on these CPUs, ends it with this program, and captures
/// only its standard error.
pub(crate) fn pinned(cpus: &[usize], program: &Path) -> Command {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &cpus.join(",")]);
    command
        .args(["setpriv", "--pdeathsig", "TERM", "--"])
        .arg(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// Returns the command of [`pinned`] under `SCHED_FIFO`: its threads run before those of ordinary
/// processes on these CPUs. Fails to start where [`can_run_in_real_time`] is false.
pub(crate) fn pinned_in_real_time(cpus: &[usize], program: &Path) -> Command {
    let mut command = pinned(cpus, Path::new(REAL_TIME[0]));
    command.args(&REAL_TIME[1..]).arg(program);
    command
}

/// Returns whether this process may start others under `SCHED_FIFO`, which takes `CAP_SYS_NICE` or
/// a limit of `RLIMIT_RTPRIO`.
pub(crate) fn can_run_in_real_time() -> bool {
    let mut command = Command::new(REAL_TIME[0]);
    command.args(&REAL_TIME[1..]).arg("true");
    command.stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Reads to the end, so that a server never blocks on a full pipe; only the first lines are kept.
fn read_lines(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(STDERR_LINES_KEPT);
    thread::spawn(move || {
        for line in pipe
            .into_iter()
            .flat_map(|pipe| BufReader::new(pipe).lines())
            .map_while(Result::ok)
        {
            let _ = sender.try_send(line);
        }
    });
    receiver
}

/// Finds the address in a line such as `serving /srv on http://127.0.0.1:8080/ with 2 workers` or
/// `listening on 127.0.0.1:7000`.
fn address_in(line: &str) -> Option<SocketAddr> {
    let url = line.split_once("http://");
    let (_, rest) = url.or_else(|| line.split_once("listening on "))?;
    let end = rest
        .find(|c: char| c == '/' || c.is_whitespace())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_ends_is_noticed_and_one_that_stays_is_terminated() {
        let server = |program, argument| {
            let child = Command::new(program).arg(argument).spawn();
            Server::new(child.unwrap())
        };
        let mut ends = server("sleep", "0.05");
        assert!(ends.has_exited_within(START_MAX));
        let stays = server("sleep", "600");
        let begin = Instant::now();
        let stat = format!("/proc/{}/stat", stays.pid());
        drop(stays);
        assert!(
            begin.elapsed() < STOP_MAX,
            "the server does not end by SIGTERM"
        );
        assert!(!Path::new(&stat).exists());
    }

    #[test]
    fn a_program_runs_in_real_time_where_that_is_permitted() {
        let cpus = uthread_report::machine::allowed_cpus().unwrap();
        // `chrt` prints its own policy.
        let policy = |pin: fn(&[usize], &Path) -> Command| {
            let mut command = pin(&cpus, Path::new("chrt"));
            let output = command.args(["--pid", "0"]).stdout(Stdio::piped()).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert!(policy(pinned).contains("SCHED_OTHER"));
        let is_real_time = policy(pinned_in_real_time).contains("SCHED_FIFO");
        assert_eq!(is_real_time, can_run_in_real_time());
    }

    #[test]
    fn the_address_is_found_in_the_startup_line() {
        let check = |line: &str, expected: Option<&str>| {
            let expected = expected.map(|address| address.parse().unwrap());
            assert_eq!(address_in(line), expected, "{line:?}");
        };
        check(
            "serving /srv at http://127.0.0.1:8080/",
            Some("127.0.0.1:8080"),
        );
        check("at http://[::1]:99/ with 2 workers", Some("[::1]:99"));
        check("listening on 127.0.0.1:7000", Some("127.0.0.1:7000"));
        check("using io_uring", None);
        check("http://", None);
    }
}
