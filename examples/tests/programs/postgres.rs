//! A PostgreSQL server for the examples that need one: in a temporary folder, on a Unix socket,
//! ended after the last test.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::HANG;

/// The user and the group `nobody`, as the server refuses to run as root.
const NOBODY: u32 = 65534;

/// The server that all tests share, from the first test that needs it on.
static SHARED: Mutex<Option<Server>> = Mutex::new(None);

/// A running server, which ends with this value.
struct Server {
    process: Child,
    folder: TempDir,
}

/// Returns the folder with the socket of the server; `None` if its programs are not installed.
pub(crate) fn folder() -> Option<PathBuf> {
    let (initdb, postgres) = (find("initdb")?, find("postgres")?);
    let mut shared = SHARED.lock().unwrap();
    let server = shared.get_or_insert_with(|| Server::start(&initdb, &postgres).unwrap());
    Some(server.folder.path().to_owned())
}

/// Ends the server, if a test has started it.
pub(crate) fn end() {
    drop(
        SHARED
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .take(),
    );
}

impl Server {
    fn start(initdb: &Path, postgres: &Path) -> io::Result<Server> {
        let folder = tempfile::tempdir()?;
        let is_root = fs::metadata("/proc/self")?.uid() == 0;
        if is_root {
            chown(&folder, Some(NOBODY), Some(NOBODY))?;
        }
        let log = folder.path().join("log");
        let as_user = |program: &Path| -> io::Result<Command> {
            let mut command = Command::new(program);
            command.arg("-D").arg(folder.path().join("data"));
            command.current_dir(&folder).stdin(Stdio::null());
            let log = File::options().create(true).append(true).open(&log)?;
            command.stdout(log.try_clone()?).stderr(log);
            if is_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            Ok(command)
        };
        let mut prepare = as_user(initdb)?;
        prepare.args([
            "--username=postgres",
            "--auth=trust",
            "--no-sync",
            "--no-locale",
        ]);
        let log = || fs::read_to_string(&log).unwrap_or_default();
        assert!(prepare.status()?.success(), "{}", log());

        let mut serve = as_user(postgres)?;
        serve.arg("-k").arg(folder.path());
        serve.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        let process = serve.spawn()?;
        let mut server = Server { process, folder };
        let start = Instant::now();
        while !log().contains("ready to accept connections") {
            let has_ended = server.process.try_wait()?.is_some();
            assert!(!has_ended && start.elapsed() < HANG, "{}", log());
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGINT also ends the processes of its connections, which SIGKILL would not.
        let process = self.process.id().to_string();
        let ended = Command::new("kill").args(["-INT", &process]).status();
        if !ended.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
        let _ = self.process.wait();
    }
}

/// Returns a program of the search path, or of the newest version that Debian has installed.
fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let versions = versions.flatten().map(|version| version.path().join("bin"));
    let folders = env::split_paths(&path).chain(versions.max());
    let mut files = folders.map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}
