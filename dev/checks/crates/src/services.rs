//! Servers of databases, started in a temporary directory as an unprivileged user, and ended with
//! their handle.
//!
//! A trial finds the server of its parent by an environment variable. Without that, it starts one
//! of its own.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The user and the group `nobody`, for servers that refuse to run as root.
const NOBODY: u32 = 65534;

/// How long a server may take to start.
const START: Duration = Duration::from_secs(60);

/// A server that a use needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Postgres,
    MariaDb,
    Redis,
}

/// A running server, or nothing if another process runs it.
pub(crate) struct Handle {
    /// The server before the directory that it uses.
    _server: Option<(Server, TempDir)>,
}

/// The process of a server, which ends with it.
struct Server {
    process: Child,
    /// The signal that ends it.
    signal: &'static str,
}

/// Starts a server unless a parent or an earlier use has, whose handle must still be there. The
/// message of an error says what is missing.
pub(crate) fn provide(service: Service) -> Result<Handle, String> {
    let directory = service.slot();
    if let Some(parent) = env::var_os(service.variable()) {
        directory.get_or_init(|| parent.into());
    }
    if directory.get().is_some() {
        return Ok(Handle { _server: None });
    }
    let failed = |error: io::Error| format!("{service:?} did not start: {error}");
    let (prepares, serves) = service.programs()?;
    let folder = tempfile::tempdir().map_err(failed)?;
    let server = start(service, &prepares, &serves, folder.path()).map_err(failed)?;
    directory.get_or_init(|| folder.path().to_owned());
    Ok(Handle {
        _server: Some((server, folder)),
    })
}

impl Service {
    /// Returns the directory with the socket of the server, which was provided.
    pub(crate) fn directory(self) -> &'static Path {
        self.slot().get().expect("the server was provided")
    }

    /// Returns the environment variable with that directory.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Service::Postgres => "UTHREAD_CRATES_POSTGRES",
            Service::MariaDb => "UTHREAD_CRATES_MARIADB",
            Service::Redis => "UTHREAD_CRATES_REDIS",
        }
    }

    fn slot(self) -> &'static OnceLock<PathBuf> {
        static POSTGRES: OnceLock<PathBuf> = OnceLock::new();
        static MARIADB: OnceLock<PathBuf> = OnceLock::new();
        static REDIS: OnceLock<PathBuf> = OnceLock::new();
        match self {
            Service::Postgres => &POSTGRES,
            Service::MariaDb => &MARIADB,
            Service::Redis => &REDIS,
        }
    }

    /// Returns the program that prepares a directory, and the server.
    fn programs(self) -> Result<(PathBuf, PathBuf), String> {
        let (prepares, serves, package) = match self {
            Service::Postgres => ("initdb", "postgres", "postgresql"),
            Service::MariaDb => ("mariadb-install-db", "mariadbd", "mariadb-server"),
            Service::Redis => ("true", "redis-server", "redis-server"),
        };
        match (find(prepares), find(serves)) {
            (Some(prepares), Some(serves)) => Ok((prepares, serves)),
            _ => Err(format!(
                "not run, as there is no program `{serves}` (Debian's package `{package}`)"
            )),
        }
    }

    fn prepare(self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
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

    fn serve(self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
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

/// Prepares the directory and starts the server in it. Returns when it accepts connections.
fn start(service: Service, prepares: &Path, serves: &Path, folder: &Path) -> io::Result<Server> {
    let is_root = fs::metadata("/proc/self")?.uid() == 0;
    if is_root {
        chown(folder, Some(NOBODY), Some(NOBODY))?;
    }
    let log = folder.join("log");
    let as_user = |mut command: Command| -> io::Result<Command> {
        let log = File::options().create(true).append(true).open(&log)?;
        command.current_dir(folder).env("HOME", folder);
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        Ok(command)
    };
    let failed = |what: &str| {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let last = text.lines().last().unwrap_or_default();
        io::Error::other(format!("{what}: {last}"))
    };
    if !as_user(service.prepare(prepares, folder))?
        .status()?
        .success()
    {
        return Err(failed("its directory could not be prepared"));
    }
    let mut server = Server {
        process: as_user(service.serve(serves, folder))?.spawn()?,
        signal: service.signal(),
    };
    let start = Instant::now();
    // Postgres creates its socket early, and refuses clients politely until it is ready: the use
    // tries again.
    while !service.socket(folder).exists() {
        if server.process.try_wait()?.is_some() || start.elapsed() > START {
            return Err(failed("it ended"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(server)
}

/// Returns a program of the search path, or of one of the directories where Debian keeps servers.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&path).collect();
    folders.push("/usr/sbin".into());
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    let files = folders.into_iter().map(|folder| folder.join(program));
    files.into_iter().find(|file| file.is_file())
}

impl Drop for Server {
    fn drop(&mut self) {
        let process = self.process.id().to_string();
        let signal = Command::new("kill").args([self.signal, &process]).status();
        if signal.is_ok_and(|status| status.success()) {
            let _ = self.process.wait();
        }
    }
}
