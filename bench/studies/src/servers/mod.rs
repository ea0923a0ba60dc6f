//! Starts a server on a free port of 127.0.0.1, and ends it again: `uthread serve` or nginx on a folder, or the echo server
//! of a peer.
//!
//! `taskset` sets the CPUs before the program starts, so every thread inherits them; `setpriv` has the kernel end the
//! server should we be killed before we can. Both replace themselves by the program, so the child is the server.

pub(crate) mod nginx;
pub(crate) mod static_web_server;

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;
use uthread::Driver;

use crate::measure::proc;
use crate::peers::Program;

/// A server that has not begun to listen after this long has hung; both need under 100 ms.
const START_MAX: Duration = Duration::from_secs(10);
/// How long a server may take to end itself before it is killed.
const STOP_MAX: Duration = Duration::from_secs(3);
/// How often it is looked whether a port is open while waiting for it.
const POLL_EVERY: Duration = Duration::from_millis(5);
/// Another process may take the port between our finding it free and the server binding it; three times is something else.
const PORT_ATTEMPTS_MAX: usize = 3;
/// Idle connections must outlive every wait for a quiet machine.
const IDLE_TIMEOUT: &str = "1h";
/// Beside the connections of a load: one checks what is served.
pub(crate) const CONNECTIONS_SPARE: u32 = 16;
/// What a server printed is worth showing when it fails; more would bury the message.
const STDERR_LINES_KEPT: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Peer {
    Uthread,
    Nginx,
}

impl Peer {
    pub(crate) const BOTH: [Peer; 2] = [Peer::Uthread, Peer::Nginx];
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Peer::Uthread => "uthread",
            Peer::Nginx => "nginx",
        })
    }
}

pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Path,
    pub(crate) root: &'a Path,
    pub(crate) workers: usize,
    pub(crate) cpus: &'a [usize],
    /// nginx reserves memory per connection ahead, so it is told as many as the study opens, and no more.
    pub(crate) connections_max: usize,
}

/// A running server; dropping it ends it and all its processes.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    /// Its configuration and temporary files.
    _folder: Option<TempDir>,
}

impl Server {
    pub(crate) fn start(peer: Peer, launch: &Launch) -> Result<Server> {
        match peer {
            Peer::Uthread => start_uthread(launch),
            Peer::Nginx => nginx::start(launch),
        }
    }

    /// A server of `bench/peers/README.md`, by its command.
    pub(crate) fn start_peer(
        program: &Program,
        cpus: &[usize],
        arguments: &[&str],
    ) -> Result<Server> {
        let mut command = pinned(cpus, &program.path);
        command
            .args(program.prefix)
            .args(arguments)
            // It would end with its standard input, so that lives as long as the child.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = command.spawn().context("run taskset")?;
        let lines = read_lines(child.stdout.take());
        let mut server = Server::new(child);
        let line = lines.recv_timeout(START_MAX);
        let line = line.context("it has not said where it listens")?;
        server.address = line
            .parse()
            .with_context(|| format!("it listens on {line:?}"))?;
        Ok(server)
    }

    /// Before it is known where it listens.
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
                Ok(None) if Instant::now() < deadline => {}
                Ok(status) => return status.is_some(),
                Err(_) => return false,
            }
            // Not waited for yet, so its id is still its own. The descriptor is readable from its end on.
            let process = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty());
            let left = deadline.saturating_duration_since(Instant::now());
            let (Ok(process), Ok(left)) = (process, Timespec::try_from(left)) else {
                return false;
            };
            // A signal may end it early, or nothing has: the loop looks again.
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Until it has been waited for, its id is ours to signal; afterwards it may be anyone's.
        if self.has_exited_within(Duration::ZERO) {
            return;
        }
        let processes = proc::tree(self.pid()).unwrap_or_default();
        let _ = Pid::from_raw(self.pid() as i32).map(|pid| kill_process(pid, Signal::TERM));
        if self.has_exited_within(STOP_MAX) {
            return;
        }
        let _ = self.child.kill();
        let descendants = processes.iter().filter(|&&pid| pid != self.pid());
        for pid in descendants.filter_map(|&pid| Pid::from_raw(pid as i32)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn start_uthread(launch: &Launch) -> Result<Server> {
    let mut command = pinned(launch.cpus, launch.program);
    command
        .arg("serve")
        .arg(launch.root)
        .args(["--listen", "127.0.0.1:0", "--log", "off"]);
    command.args(["--workers", &launch.workers.to_string()]);
    Ok(start_heard(command)?.server)
}

/// `uthread serve` that keeps connections as long as a study needs them, and takes no more than it opens.
pub(crate) fn serve_command(launch: &Launch, driver: Driver) -> Command {
    let mut command = pinned(launch.cpus, launch.program);
    command
        .arg("serve")
        .arg(launch.root)
        .args(["--listen", "127.0.0.1:0", "--log", "off"])
        .args(["--idle-timeout", IDLE_TIMEOUT])
        .args(["--max-connections", &launch.connections_max.to_string()])
        .args(["--driver", &driver.to_string()])
        .args(["--workers", &launch.workers.to_string()]);
    command
}

/// A server, and what it says on either stream.
pub(crate) struct Heard {
    pub(crate) server: Server,
    /// Until it listened.
    pub(crate) first: Vec<String>,
    /// Afterwards: the first lines of it.
    pub(crate) later: Receiver<String>,
}

/// Starts a server that says where it listens.
pub(crate) fn start_heard(mut command: Command) -> Result<Heard> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn().context("run taskset")?;
    // It holds our ends of the pipe, which has an end only without them.
    drop(command);
    let lines = read_lines(Some(reader));
    let mut server = Server::new(child);
    let deadline = Instant::now() + START_MAX;
    let mut first = Vec::new();
    while let Ok(line) = lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        let address = address_in(&line);
        first.push(line);
        if let Some(address) = address {
            ensure!(
                address.ip().is_loopback(),
                "the server listens on {address}, which is not this machine alone"
            );
            server.address = address;
            return Ok(Heard {
                server,
                first,
                later: lines,
            });
        }
        ensure!(
            first.len() < STDERR_LINES_KEPT,
            "no address in its first lines:\n{}",
            first.join("\n")
        );
    }
    bail!("it has not said where it listens:\n{}", first.join("\n"))
}

/// Starts a server that has to be told its port, which is found free: `command` makes what runs it, and the folder that it
/// needs as long as it lives.
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

/// Runs `program` on these CPUs, ended with us, heard only on its standard error.
pub(crate) fn pinned(cpus: &[usize], program: &Path) -> Command {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    let mut command = Command::new("taskset");
    command
        .args([
            "--cpu-list",
            &cpus.join(","),
            "setpriv",
            "--pdeathsig",
            "TERM",
            "--",
        ])
        .arg(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
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

/// The address in a line such as `serving /srv on http://127.0.0.1:8080/ with 2 workers` or `listening on 127.0.0.1:7000`.
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
    fn who_ends_is_seen_to_end_and_who_stays_is_ended() {
        let server = |program, argument| {
            let child = Command::new(program).arg(argument).spawn();
            Server::new(child.unwrap())
        };
        let mut ends = server("sleep", "0.05");
        assert!(ends.has_exited_within(START_MAX));
        assert!(ends.has_exited_within(Duration::ZERO));

        let mut stays = server("sleep", "600");
        let begin = Instant::now();
        assert!(!stays.has_exited_within(Duration::from_millis(30)));
        assert!(begin.elapsed() >= Duration::from_millis(30));
        let stat = format!("/proc/{}/stat", stays.pid());
        drop(stays);
        assert!(begin.elapsed() < STOP_MAX, "it did as it was told");
        assert!(!Path::new(&stat).exists());
    }

    #[test]
    fn the_address_is_found_in_the_startup_line() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(
                address_in(line),
                expected.map(|address| address.parse().unwrap()),
                "{line:?}"
            );
        };
        check(
            "serving /srv at http://127.0.0.1:8080/",
            Some("127.0.0.1:8080"),
        );
        check("http://127.0.0.1:8080", Some("127.0.0.1:8080"));
        check("at http://[::1]:99/ with 2 workers", Some("[::1]:99"));
        check(
            "at http://127.0.0.1:8080 with 2 workers",
            Some("127.0.0.1:8080"),
        );
        check("listening on 127.0.0.1:7000", Some("127.0.0.1:7000"));
        check("using io_uring", None);
        check("http://localhost:1/", None);
        check("http://", None);
    }
}
