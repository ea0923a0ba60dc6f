//! Servers of databases, started in a temporary directory as an unprivileged user, and ended with
//! their handle: for this study, for that of web services, and for the tests of the examples.

use std::env;
use std::fs::{self, File};
use std::io;
use std::iter;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The user and the group `nobody`, for servers that refuse to run as root.
const NOBODY: u32 = 65534;

/// How long a server may take to start.
const START: Duration = Duration::from_secs(60);

/// A server that can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Postgres,
    MariaDb,
    Redis,
}

/// A running server.
pub(crate) struct Server {
    service: Service,
    process: Child,
    directory: TempDir,
}

impl Service {
    /// Returns the program that prepares a directory, and the server.
    pub(crate) fn programs(self) -> Result<[PathBuf; 2], String> {
        let (prepares, serves, package) = match self {
            Service::Postgres => ("initdb", "postgres", "postgresql"),
            Service::MariaDb => ("mariadb-install-db", "mariadbd", "mariadb-server"),
            Service::Redis => ("true", "redis-server", "redis-server"),
        };
        match (find(prepares), find(serves)) {
            (Some(prepares), Some(serves)) => Ok([prepares, serves]),
            _ => Err(format!(
                "not run, as there is no program `{serves}` (Debian's package `{package}`)"
            )),
        }
    }

    /// Prepares a directory and starts the server in it, both by `wrapper`, a command that replaces
    /// itself by the one after it, or nothing. Returns when the server accepts connections.
    pub(crate) fn start(self, programs: &[PathBuf; 2], wrapper: &[&str]) -> io::Result<Server> {
        let directory = tempfile::tempdir()?;
        let folder = directory.path();
        let is_root = fs::metadata("/proc/self")?.uid() == 0;
        if is_root {
            chown(folder, Some(NOBODY), Some(NOBODY))?;
        }
        let command = |program: &Path| -> io::Result<Command> {
            let log = File::options()
                .create(true)
                .append(true)
                .open(folder.join("log"))?;
            let words = wrapper.iter().map(Path::new).chain(iter::once(program));
            let mut words = words.map(Path::as_os_str);
            let mut command = Command::new(words.next().expect("there is the program"));
            command.args(words).current_dir(folder).env("HOME", folder);
            command
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log);
            if is_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            Ok(command)
        };
        let [prepares, serves] = programs;
        let prepared = self.prepare(command(prepares)?, folder).status()?;
        if !prepared.success() {
            return Err(failed("its directory could not be prepared", folder));
        }
        let process = self.serve(command(serves)?, folder).spawn()?;
        let mut server = Server {
            service: self,
            process,
            directory,
        };
        let start = Instant::now();
        while !self.is_ready(server.folder()) {
            if server.process.try_wait()?.is_some() || start.elapsed() > START {
                return Err(failed("it does not start", server.folder()));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn prepare(self, mut command: Command, folder: &Path) -> Command {
        let data = folder.join("data");
        match self {
            Service::Postgres => {
                command.args([
                    "--username=postgres",
                    "--auth=trust",
                    "--no-sync",
                    "--no-locale",
                ]);
                command.arg("-D").arg(data);
            }
            Service::MariaDb => {
                command.args(["--no-defaults", "--skip-test-db"]);
                command.arg("--auth-root-authentication-method=normal");
                command.arg(format!("--datadir={}", data.display()));
            }
            // It needs nothing.
            Service::Redis => {}
        }
        command
    }

    fn serve(self, mut command: Command, folder: &Path) -> Command {
        let data = folder.join("data");
        match self {
            Service::Postgres => {
                command.arg("-D").arg(data).arg("-k").arg(folder);
                command.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
                command.args(["-c", "max_connections=200"]);
            }
            Service::MariaDb => {
                command.args([
                    "--no-defaults",
                    "--skip-networking",
                    "--max-connections=500",
                ]);
                command.arg(format!("--datadir={}", data.display()));
                command.arg(format!("--socket={}", self.socket(folder).display()));
                command.arg(format!("--pid-file={}", folder.join("pid").display()));
            }
            Service::Redis => {
                command.args(["--port", "0", "--save", "", "--unixsocket"]);
                command.arg(self.socket(folder));
            }
        }
        command
    }

    fn is_ready(self, folder: &Path) -> bool {
        match self {
            // It creates its socket early, and refuses clients until it is ready.
            Service::Postgres => log(folder).contains("ready to accept connections"),
            Service::MariaDb | Service::Redis => self.socket(folder).exists(),
        }
    }

    /// Returns the signal that ends the server with its processes and connections.
    fn signal(self) -> &'static str {
        match self {
            Service::Postgres => "-INT",
            Service::MariaDb | Service::Redis => "-TERM",
        }
    }

    pub(crate) fn socket(self, folder: &Path) -> PathBuf {
        folder.join(match self {
            Service::Postgres => ".s.PGSQL.5432",
            Service::MariaDb | Service::Redis => "socket",
        })
    }
}

impl Server {
    /// Returns the directory with the socket.
    pub(crate) fn folder(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let process = self.process.id().to_string();
        let ended = Command::new("kill")
            .args([self.service.signal(), &process])
            .status();
        if !ended.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

fn failed(what: &str, folder: &Path) -> io::Error {
    io::Error::other(format!("{what}:\n{}", log(folder)))
}

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// Returns a program of the search path, or of one of the directories where Debian keeps servers: of the
/// newest version of PostgreSQL.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.push("/usr/sbin".into());
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    folders.extend(
        versions
            .flatten()
            .map(|version| version.path().join("bin"))
            .max(),
    );
    let files = folders.into_iter().map(|folder| folder.join(program));
    files.into_iter().find(|file| file.is_file())
}
