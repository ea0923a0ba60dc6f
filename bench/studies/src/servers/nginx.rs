//! nginx on a folder, tuned as its documentation advises for static files.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Result, ensure};

use super::{Launch, Server, pinned, start_on_free_port};

/// What it answers by itself, without a file: the path and the body.
pub(crate) const FIXED: (&str, &str) = ("fixed", "hello, world\n");

pub(super) fn start(launch: &Launch) -> Result<Server> {
    start_on_free_port(|address| {
        let prefix = tempfile::Builder::new()
            .prefix("uthread-bench-nginx-")
            .tempdir()?;
        write_config(launch, prefix.path(), address)?;
        let mut command = pinned(launch.cpus, launch.program);
        command
            .arg("-p")
            .arg(prefix.path())
            .args(["-c", "nginx.conf", "-e", "stderr"]);
        Ok((command, Some(prefix)))
    })
}

fn write_config(launch: &Launch, prefix: &Path, address: SocketAddr) -> Result<()> {
    let root = launch.root.display().to_string();
    ensure!(
        !root.contains(['"', '\\', '$']),
        "nginx cannot be given the folder {root}"
    );
    // Started by root, nginx would become `nobody`, who may not read our private temporary folder.
    let user = if rustix::process::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    // nginx closes idle connections once fewer than a sixteenth are free: leave it an eighth, and some for itself.
    let connections = launch.connections_max + launch.connections_max / 8 + 64;
    // Per connection its socket and the file it sends.
    let open_files = 2 * connections;
    let workers = launch.workers;
    let (path, body) = FIXED;
    let body = body.trim_end();
    let mut config = fs::File::create(prefix.join("nginx.conf"))?;
    // A slow or idle client must be dropped by neither side's clock while it is being measured.
    write!(
        config,
        "{user} daemon off; master_process on; worker_processes {workers}; worker_rlimit_nofile {open_files};
         pid nginx.pid; error_log stderr crit;
         events {{ worker_connections {connections}; }}
         http {{
             sendfile on; tcp_nopush on; access_log off;
             keepalive_requests 1000000000; keepalive_timeout 3600s;
             client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp;
             uwsgi_temp_path temp; scgi_temp_path temp;
             server {{
                 listen {address}; root \"{root}\";
                 location = /{path} {{ return 200 \"{body}\\n\"; }}
             }}
         }}\n"
    )?;
    Ok(())
}
