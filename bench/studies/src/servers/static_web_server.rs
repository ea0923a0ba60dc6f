//! static-web-server on a folder: one thread for each of its CPUs, as its documentation has it by default, and nothing
//! done to a file that a request has not asked for.

use std::path::Path;

use anyhow::Result;

use super::{Launch, Server, pinned, start_on_free_port};

pub(crate) fn start(launch: &Launch) -> Result<Server> {
    start_on_free_port(|address| {
        let mut command = pinned(launch.cpus, launch.program);
        // It takes some of its settings from a file of this name in its folder: there is none.
        command.current_dir(Path::new("/"));
        command
            .args(["--host", &address.ip().to_string()])
            .args(["--port", &address.port().to_string()])
            .arg("--root")
            .arg(launch.root)
            .args(["--log-level", "error", "--compression", "false"]);
        Ok((command, None))
    })
}
