//! PostgreSQL with a table of rows, on the CPUs of the load.

use std::fs;
use std::io::Write;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::{POLL_EVERY, START_MAX, Server, pinned};
use crate::peers::Program;

/// The text of each row.
pub(crate) const TEXT: &str = "buy milk";

/// The user and the group `nobody`, as the server refuses to run as root.
const NOBODY: u32 = 65534;

/// A running server, which ends with this value.
pub(crate) struct Database {
    _server: Server,
    folder: TempDir,
}

impl Database {
    pub(crate) fn start(postgres: &Program, cpus: &[usize]) -> Result<Database> {
        let folder = tempfile::Builder::new()
            .prefix("uthread-bench-postgres-")
            .tempdir()?;
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(&folder, Some(NOBODY), Some(NOBODY))?;
        }
        let data = folder.path().join("data");
        let command = |program: &Path| {
            let mut command = pinned(cpus, Path::new("setpriv"));
            // A change of the user resets what ends it with this program.
            command.args(["--pdeathsig", "TERM"]);
            if is_root {
                let nobody = NOBODY.to_string();
                command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]);
            }
            command.arg("--").arg(program).env("PGDATA", &data);
            command.current_dir(&folder).stderr(Stdio::inherit());
            command
        };
        let mut prepare = command(&postgres.path.with_file_name("initdb"));
        prepare.args([
            "--username=postgres",
            "--auth=trust",
            "--no-sync",
            "--no-locale",
        ]);
        ensure!(prepare.status()?.success(), "initdb failed");
        let mut create = command(&postgres.path);
        create_table(create.arg("--single")).context("create the table")?;

        let log = fs::File::create(folder.path().join("log"))?;
        let mut serve = command(&postgres.path);
        serve.arg("-k").arg(folder.path());
        serve.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        let child = serve.stderr(log).spawn().context("run taskset")?;
        let database = Database {
            _server: Server::new(child),
            folder,
        };
        let deadline = Instant::now() + START_MAX;
        while !database.log().contains("ready to accept connections") {
            ensure!(Instant::now() < deadline, "{}", database.log());
            thread::sleep(POLL_EVERY);
        }
        Ok(database)
    }

    /// Returns the folder with the socket.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

/// Creates the table without a server, by a process that takes a statement in each line.
fn create_table(command: &mut Command) -> Result<()> {
    let mut child = command.arg("postgres").stdin(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().context("it has no input")?;
    writeln!(
        stdin,
        "CREATE TABLE row (id integer PRIMARY KEY, text text NOT NULL);"
    )?;
    writeln!(
        stdin,
        "INSERT INTO row SELECT id, '{TEXT}' FROM generate_series(1, 1000) id;"
    )?;
    drop(stdin);
    ensure!(child.wait()?.success(), "it failed");
    Ok(())
}
