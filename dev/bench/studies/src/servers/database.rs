//! PostgreSQL with a table of rows, on the CPUs of the load.

#[expect(dead_code, reason = "the study needs one of the databases")]
#[path = "../../../../checks/crates/src/databases.rs"]
mod databases;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Error, Result, ensure};

use databases::{Server, Service};

/// The text of each row.
pub(crate) const TEXT: &str = "buy milk";

/// A running server, which ends with this value.
pub(crate) struct Database(Server);

impl Database {
    pub(crate) fn start(cpus: &[usize]) -> Result<Database> {
        let cpus = Vec::from_iter(cpus.iter().map(usize::to_string)).join(",");
        let pinned = ["taskset", "--cpu-list", &cpus];
        // Ends it with this program, also where that is killed.
        let bound = ["setpriv", "--pdeathsig", "TERM", "--"];
        let programs = Service::Postgres.programs().map_err(Error::msg)?;
        let server = Service::Postgres.start(&programs, &[&pinned[..], &bound].concat())?;
        create_table(server.folder())?;
        Ok(Database(server))
    }

    /// Returns the folder with the socket.
    pub(crate) fn folder(&self) -> &Path {
        self.0.folder()
    }
}

fn create_table(folder: &Path) -> Result<()> {
    let rows = format!("INSERT INTO row SELECT id, '{TEXT}' FROM generate_series(1, 1000) id");
    let mut psql = Command::new(databases::find("psql").context("there is no psql")?);
    psql.args(["--username=postgres", "--quiet", "--host"]);
    psql.arg(folder)
        .args(["--command", TABLE, "--command", &rows]);
    ensure!(psql.status()?.success(), "psql failed");
    Ok(())
}

const TABLE: &str = "CREATE TABLE row (id integer PRIMARY KEY, text text NOT NULL)";
