//! The HTTP servers that are compared, each on a folder and tuned for static files as its
//! documentation advises.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use uthread::Driver;

use super::{Server, pinned, start_listening, start_on_free_port};
use crate::cpu_split::CpuSplit;
use crate::limits;
use crate::peers::{Program, REPOSITORY};

/// A response without a file, which nginx, Node.js and our program `fixed` give: the path and the
/// body.
pub(crate) const FIXED: (&str, &str) = ("fixed", "hello, world\n");
/// Connections besides those of the load.
const CONNECTIONS_SPARE: u32 = 16;
/// Name of a configuration in its folder.
const CONFIG: &str = "server.conf";
/// The modules of Apache's package in Debian.
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";
/// Number of files that nginx keeps open, more than a study has.
const OPEN_FILES_CACHED: u32 = 64;
/// Idle connections must outlive every wait for a quiet machine.
const IDLE_TIMEOUT: &str = "1h";

/// A server for files, by its program.
pub(crate) enum HttpServer {
    Uthread {
        serve: PathBuf,
        driver: Option<Driver>,
        /// Answers [`FIXED`].
        fixed: Program,
    },
    Nginx(PathBuf),
    Apache(PathBuf),
    /// Runs `serve.mjs` of `dev/bench/peers/node`.
    Node(PathBuf),
    StaticWebServer(PathBuf),
}

/// The content and the resources of a server.
pub(crate) struct Launch<'a> {
    pub(crate) root: &'a Path,
    pub(crate) workers: usize,
    pub(crate) split: &'a CpuSplit,
    /// nginx reserves memory per connection ahead, and Apache a thread, so they are given as many as
    /// the study opens and no more.
    pub(crate) connections: u32,
}

impl HttpServer {
    /// Starts a server of files.
    pub(crate) fn start(&self, launch: &Launch) -> Result<Server> {
        self.check_limits(launch)?;
        let started = match self {
            HttpServer::Uthread { serve, driver, .. } => {
                start_listening(serve_command(launch, serve, *driver))
            }
            HttpServer::Nginx(program) => start_on_free_port(|address| {
                let config = nginx_config(launch, address)?;
                configured(launch, program, &config, ["-p", "-c"], &["-e", "stderr"])
            }),
            HttpServer::Apache(program) => start_on_free_port(|address| {
                let config = apache_config(launch, address)?;
                configured(launch, program, &config, ["-d", "-f"], &["-DFOREGROUND"])
            }),
            HttpServer::Node(program) => {
                start_on_free_port(|address| Ok((node_command(launch, program, address), None)))
            }
            HttpServer::StaticWebServer(program) => start_on_free_port(|address| {
                Ok((static_web_server_command(launch, program, address), None))
            }),
        };
        started.context("start the server")
    }

    /// Starts a server that answers [`FIXED`].
    pub(crate) fn start_fixed(&self, launch: &Launch) -> Result<Server> {
        match self {
            HttpServer::Uthread { fixed, .. } => {
                self.check_limits(launch)?;
                let workers = launch.workers.to_string();
                let arguments = ["fixed", "0", &workers];
                Server::start_peer(fixed, &launch.split.server_cpus, &arguments)
            }
            HttpServer::Nginx(_) | HttpServer::Node(_) => self.start(launch),
            HttpServer::Apache(_) | HttpServer::StaticWebServer(_) => {
                bail!("it has no response without a file")
            }
        }
    }

    fn check_limits(&self, launch: &Launch) -> Result<()> {
        let has_threads = match self {
            HttpServer::Uthread { driver, .. } => *driver == Some(Driver::Threads),
            HttpServer::Apache(_) => true,
            _ => false,
        };
        limits::check(u64::from(launch.connections), has_threads)
    }
}

/// Starts `uthread serve` with one worker on these CPUs, as the target of a forwarder.
pub(crate) fn serve_on(
    program: &Path,
    root: &Path,
    cpus: &[usize],
    connections: u32,
) -> Result<Server> {
    start_listening(serve(program, root, cpus, 1, connections)).context("start the target")
}

fn serve(program: &Path, root: &Path, cpus: &[usize], workers: usize, connections: u32) -> Command {
    let connections = connections + CONNECTIONS_SPARE;
    let mut command = pinned(cpus, program);
    command.arg("serve").arg(root);
    command.args(["--listen", "127.0.0.1:0", "--log", "off"]);
    command.args(["--idle-timeout", IDLE_TIMEOUT]);
    command.args(["--max-connections", &connections.to_string()]);
    command.args(["--workers", &workers.to_string()]);
    command
}

fn serve_command(launch: &Launch, program: &Path, driver: Option<Driver>) -> Command {
    let cpus = &launch.split.server_cpus;
    let mut command = serve(
        program,
        launch.root,
        cpus,
        launch.workers,
        launch.connections,
    );
    if let Some(driver) = driver {
        command.args(["--driver", &driver.to_string()]);
    }
    command
}

/// Runs it with one thread for each of its CPUs, which is its default.
fn static_web_server_command(launch: &Launch, program: &Path, address: SocketAddr) -> Command {
    let mut command = pinned(&launch.split.server_cpus, program);
    // The server reads a settings file in its working directory; `/` has none.
    command.current_dir("/");
    command.args(["--host", &address.ip().to_string()]);
    command.args(["--port", &address.port().to_string()]);
    command.arg("--root").arg(launch.root);
    command.args(["--log-level", "error", "--compression", "false"]);
    command
}

fn node_command(launch: &Launch, program: &Path, address: SocketAddr) -> Command {
    let mut command = pinned(&launch.split.server_cpus, program);
    command.arg(Path::new(REPOSITORY).join("dev/bench/peers/node/serve.mjs"));
    command.args([address.port().to_string(), launch.workers.to_string()]);
    command.arg(launch.root);
    command
}

/// Returns the command of a server with its configuration, in a folder of its own. `options`: those
/// for the folder and for the file.
fn configured(
    launch: &Launch,
    program: &Path,
    config: &str,
    options: [&str; 2],
    more: &[&str],
) -> Result<(Command, Option<TempDir>)> {
    let mut builder = tempfile::Builder::new();
    let folder = builder.prefix("uthread-bench-config-").tempdir()?;
    fs::write(folder.path().join(CONFIG), config)?;
    let mut command = pinned(&launch.split.server_cpus, program);
    command.arg(options[0]).arg(folder.path());
    command.args([options[1], CONFIG]).args(more);
    Ok((command, Some(folder)))
}

/// Returns the folder of the files, which has no character that a configuration would interpret.
fn plain_root(launch: &Launch) -> Result<String> {
    let root = launch.root.display().to_string();
    let is_plain = !root.contains(['"', '\\', '$']);
    ensure!(is_plain, "a configuration cannot name the folder {root}");
    Ok(root)
}

/// Gives Apache a process for each worker, and each process a thread for each connection: without a
/// free thread, it closes connections that are between two requests.
fn apache_config(launch: &Launch, address: SocketAddr) -> Result<String> {
    let root = plain_root(launch)?;
    let workers = launch.workers;
    let threads = launch.connections + CONNECTIONS_SPARE;
    let threads_of_all = threads * workers as u32;
    // Started by root, Apache needs another user.
    Ok(format!(
        "LoadModule mpm_event_module {APACHE_MODULES}/mod_mpm_event.so
         LoadModule authz_core_module {APACHE_MODULES}/mod_authz_core.so
         ServerName localhost
         Listen {address}
         User nobody
         Group #65534
         PidFile pid
         ErrorLog /dev/stderr
         LogLevel crit
         ServerLimit {workers}
         StartServers {workers}
         ThreadLimit {threads}
         ThreadsPerChild {threads}
         MaxRequestWorkers {threads_of_all}
         MaxSpareThreads {threads_of_all}
         EnableSendfile On
         MaxKeepAliveRequests 0
         KeepAliveTimeout 3600
         Timeout 3600
         DocumentRoot \"{root}\"\n"
    ))
}

fn nginx_config(launch: &Launch, address: SocketAddr) -> Result<String> {
    let root = plain_root(launch)?;
    // nginx closes idle connections once fewer than a sixteenth are free: leave it an eighth, and
    // some for itself.
    let connections = launch.connections + launch.connections / 8 + 64;
    // Per connection its socket and the file it sends.
    let open_files = 2 * connections + OPEN_FILES_CACHED;
    let workers = launch.workers;
    let (path, body) = FIXED;
    let body = body.trim_end();
    // No timeout of a server may end a connection while it is being measured.
    Ok(format!(
        "daemon off; master_process on; worker_processes {workers}; worker_rlimit_nofile {open_files};
         pid nginx.pid; error_log stderr crit;
         events {{ worker_connections {connections}; }}
         http {{
             sendfile on; tcp_nopush on; access_log off;
             open_file_cache max={OPEN_FILES_CACHED}; open_file_cache_valid 1h; open_file_cache_errors on;
             keepalive_requests 1000000000; keepalive_timeout 3600s;
             client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp;
             uwsgi_temp_path temp; scgi_temp_path temp;
             server {{
                 listen {address}; root \"{root}\";
                 location = /{path} {{ return 200 \"{body}\\n\"; }}
             }}
         }}\n"
    ))
}
