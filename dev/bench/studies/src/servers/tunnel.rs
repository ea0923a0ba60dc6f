//! The programs that forward TCP connections, each to one target.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use uthread::Driver;

use super::{Server, pinned, start_listening, start_on_free_port};
use crate::cpu_split::CpuSplit;

/// Connections besides those of the load.
const CONNECTIONS_SPARE: u32 = 16;

/// A forwarder, by its program.
pub(crate) enum Forwarder {
    Uthread(PathBuf, Driver),
    Haproxy(PathBuf),
}

/// The task of a forwarder.
pub(crate) struct Forwarding<'a> {
    pub(crate) to: SocketAddr,
    pub(crate) split: &'a CpuSplit,
    pub(crate) connections: u32,
    /// Expect transfers rather than messages.
    pub(crate) is_bulk: bool,
}

impl Forwarder {
    /// Starts it with one worker.
    pub(crate) fn start(&self, forwarding: &Forwarding) -> Result<Server> {
        let cpus = &forwarding.split.server_cpus;
        let started = match self {
            Forwarder::Uthread(program, driver) => {
                let connections = forwarding.connections + CONNECTIONS_SPARE;
                let mut command = pinned(cpus, program);
                command.args(["tunnel", "--to", &forwarding.to.to_string()]);
                command.args(["--listen", "127.0.0.1:0", "--log", "off", "--workers", "1"]);
                command.args(["--idle-timeout", "1h", "--driver", &driver.to_string()]);
                command.args(["--max-connections", &connections.to_string()]);
                start_listening(command)
            }
            Forwarder::Haproxy(program) => start_on_free_port(|address| {
                let folder = tempfile::Builder::new()
                    .prefix("uthread-bench-haproxy-")
                    .tempdir()?;
                let config = folder.path().join("haproxy.cfg");
                fs::write(&config, haproxy_config(forwarding, address))?;
                let mut command = pinned(cpus, program);
                command.args([Path::new("-db"), Path::new("-f"), &config]);
                Ok((command, Some(folder)))
            }),
        };
        started.context("start the forwarder")
    }
}

/// Describes a plain forwarder. HAProxy splices where its documentation advises it, which is for
/// large transfers.
fn haproxy_config(forwarding: &Forwarding, address: SocketAddr) -> String {
    let connections = forwarding.connections + CONNECTIONS_SPARE;
    let (to, is_bulk) = (forwarding.to, forwarding.is_bulk);
    let splice = if is_bulk { "option splice-auto" } else { "" };
    format!(
        "global\n nbthread 1\n maxconn {connections}\n\
         defaults\n mode tcp\n {splice}\n timeout connect 10s\n timeout client 1h\n timeout server 1h\n\
         frontend front\n bind {address} backlog 4096\n default_backend back\n\
         backend back\n server target {to}\n"
    )
}
