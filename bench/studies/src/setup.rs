//! What every study needs before it can start: the programs, the CPUs, the open files, and who is compared.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::Value;

use crate::Common;
use crate::peers;
use crate::place::Place;
use crate::servers::{Launch, Peer, Server};

/// Descriptors a server or this program needs besides its connections: listeners, rings, pipes, `/proc` files.
pub(crate) const OPEN_FILES_SPARE: u64 = 128;

/// Both servers twice; the tables become too wide for more.
const PEERS_MAX: usize = 4;

/// The study cannot start here: exit code 2, for the user to remedy.
#[derive(Debug)]
pub(crate) struct Unavailable(pub(crate) String);

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// The resolved arguments that all studies share.
pub(crate) struct Setup {
    pub(crate) peers: Vec<Peer>,
    pub(crate) workers: usize,
    pub(crate) quiet_wait: Duration,
    pub(crate) place: Place,
    uthread: PathBuf,
}

impl Setup {
    /// Pins this process, and so the load it generates or starts, to the CPUs that the servers do not get.
    pub(crate) fn prepare(
        common: &Common,
        peers_by_default: &[Peer],
        open_files: u64,
    ) -> Result<Setup> {
        raise_open_files(open_files)?;
        let place = Place::apart(common.workers)?;
        place.pin_load()?;
        let uthread = uthread_path(common.server.as_deref())?;
        let peers = match common.peers.as_slice() {
            [] => peers_by_default.to_vec(),
            peers => peers.to_vec(),
        };
        if peers.len() > PEERS_MAX {
            return Err(
                Unavailable(format!("at most {PEERS_MAX} peers fit beside each other")).into(),
            );
        }
        let setup = Setup {
            peers,
            workers: common.workers,
            quiet_wait: Duration::from_secs(common.quiet_wait_seconds),
            place,
            uthread,
        };
        for &peer in &setup.peers {
            setup.program_of(peer)?;
        }
        Ok(setup)
    }

    pub(crate) fn start(&self, peer: Peer, root: &Path, connections_max: usize) -> Result<Server> {
        let program = self.program_of(peer)?;
        let launch = Launch {
            program: &program,
            root,
            workers: self.workers,
            cpus: &self.place.server_cpus,
            connections_max,
        };
        Server::start(peer, &launch).with_context(|| format!("start {peer}"))
    }

    /// Where a table's figures were taken.
    pub(crate) fn to_json(&self) -> Value {
        self.place.to_json(self.workers)
    }

    fn program_of(&self, peer: Peer) -> Result<PathBuf> {
        match peer {
            Peer::Nginx => find_program("nginx"),
            Peer::Uthread => find_uthread(Some(&self.uthread)),
        }
    }
}

/// The program `uthread`: the one given, or the one beside this program.
pub(crate) fn find_uthread(given: Option<&Path>) -> Result<PathBuf> {
    let path = uthread_path(given)?;
    if path.is_file() {
        return Ok(path);
    }
    let path = path.display();
    let remedy = format!("{path} is missing: cargo build --release, or pass --server PATH");
    Err(Unavailable(remedy).into())
}

fn uthread_path(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(path) => Ok(path.to_owned()),
        None => {
            let own = env::current_exe().context("find this program's own path")?;
            Ok(own.with_file_name("uthread"))
        }
    }
}

/// A program that Debian's packages bring and without which there is no study.
pub(crate) fn find_program(name: &'static str) -> Result<PathBuf> {
    peers::path_of(name).map_err(|missing| Unavailable(missing.to_string()).into())
}

pub(crate) fn raise_open_files(needed: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = limit.maximum.filter(|&maximum| maximum < needed) {
        let remedy = "lower --idle or --connections, or raise the hard limit (ulimit -Hn)";
        return Err(Unavailable(format!(
            "this needs {needed} open files, the limit is {maximum}: {remedy}"
        ))
        .into());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).context("raise the limit of open files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_the_remedy() {
        let error = find_program("no-such-program").unwrap_err();
        let remedy = "apt-get install no-such-program";
        assert!(error.to_string().ends_with(remedy), "{error}");
        assert!(error.is::<Unavailable>());
    }

    #[test]
    fn more_open_files_than_the_hard_limit_is_unavailable() {
        let Some(maximum) = getrlimit(Resource::Nofile).maximum else {
            return;
        };
        assert!(
            raise_open_files(maximum.saturating_add(1))
                .unwrap_err()
                .is::<Unavailable>()
        );
        raise_open_files(1).unwrap();
    }
}
