//! The web servers in Haskell of `bindings/haskell/server`, each on a folder.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use uthread_report::results::Subject;

use super::{Server, pinned, start_on_free_port};
use crate::peers::{REPOSITORY, run_build, target};
use crate::setup::own_path;

/// A server, by its program.
pub(crate) struct HaskellServer {
    program: PathBuf,
    /// `None` for warp, which has no choice.
    manager: Option<&'static str>,
}

/// The folders of sources, and the main module of each program.
const SOURCES: [&str; 3] = ["uthread-uring/src", "uthread-network/src", "server"];
const SERVER: &str = "server/Main.hs";
const WARP: &str = "server/Warp.hs";

/// Returns our server on its managers and warp, with their subjects. What cannot be built is
/// missing.
pub(crate) fn all() -> Vec<(Subject, Option<HaskellServer>)> {
    let server = build("server", SERVER);
    let of_manager = |subject: fn(&str) -> Subject, name, manager| match &server {
        Ok(program) => {
            let program = program.clone();
            let manager = Some(manager);
            (subject(name), Some(HaskellServer { program, manager }))
        }
        Err(missing) => (missing_subject(name, missing), None),
    };
    let peer = |name: &str| Subject::peer(name, None, None);
    let warp = match build("warp", WARP) {
        Ok(program) => {
            let manager = None;
            (peer("warp"), Some(HaskellServer { program, manager }))
        }
        Err(missing) => (missing_subject("warp", &missing), None),
    };
    vec![
        of_manager(Subject::ours, "uthread-uring", "uring"),
        of_manager(Subject::ours, "uthread-uring epoll", "epoll"),
        of_manager(peer, "GHC", "ghc"),
        warp,
    ]
}

fn missing_subject(name: &str, missing: &str) -> Subject {
    Subject::peer(name, None, Some(missing.to_owned()))
}

/// Builds a program with plain `ghc`, and returns its path, or what is missing.
fn build(name: &str, main: &str) -> Result<PathBuf, String> {
    let library = own_path().map_err(|error| error.to_string())?;
    let library = library.with_file_name("libuthread_ring.so");
    if !library.is_file() {
        return Err(
            "its library is not built; to build it: cargo build --release -p uthread-c".into(),
        );
    }
    let bindings = Path::new(REPOSITORY).join("bindings");
    let haskell = bindings.join("haskell");
    let (output, program) = (target().join("haskell").join(name), target().join(name));
    let folder = library.with_file_name("");
    let mut ghc = Command::new("ghc");
    ghc.args(["-v0", "-O2", "-threaded", "-rtsopts", "-o"])
        .arg(&program);
    ghc.arg("-outputdir").arg(&output);
    for source in SOURCES {
        ghc.arg(format!("-i{}", haskell.join(source).display()));
    }
    ghc.arg(haskell.join(main));
    if main == SERVER {
        ghc.arg(format!("-I{}", bindings.join("c/include").display()));
        ghc.arg(haskell.join("uthread-uring/cbits/completion.c"));
        ghc.arg(format!("-L{}", folder.display()))
            .arg("-luthread_ring");
        // By this name, programs load it.
        let loaded = concat!("libuthread_ring.so.", env!("CARGO_PKG_VERSION_MAJOR"));
        let loaded = library.with_file_name(loaded);
        if !loaded.exists() {
            symlink(&library, loaded).map_err(|error| error.to_string())?;
        }
        ghc.arg(format!("-optl-Wl,-rpath,{}", folder.display()));
    }
    uthread_report::tell!("building the Haskell program {name}");
    run_build(ghc)?;
    Ok(program)
}

impl HaskellServer {
    /// Starts it with so many capabilities, on these CPUs.
    pub(crate) fn start(&self, root: &Path, capabilities: usize, cpus: &[usize]) -> Result<Server> {
        let started = start_on_free_port(|address| {
            let mut command = pinned(cpus, &self.program);
            command
                .args(self.manager)
                .arg(address.port().to_string())
                .arg(root);
            // Collectors that wait for each other by spinning would compete with the load for its
            // CPU.
            command.args(["+RTS", &format!("-N{capabilities}"), "-qg"]);
            Ok((command, None))
        });
        started.context("start the server")
    }
}
