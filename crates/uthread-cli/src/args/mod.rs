//! The command line: arguments, defaults and the text of `--help`. `tunnel`, `top` and `run` have those
//! of their subcommands, `config` reads a file of options, `server` has those that servers have in
//! common, and `inspect` those of `dump` and `trace`.
//!
//! Defaults are written only here. Values are checked while they are parsed, so the rest of the
//! program never sees a zero timeout.

mod config;
#[cfg(target_arch = "x86_64")]
mod inspect;
#[cfg(target_arch = "x86_64")]
mod run;
mod server;
#[cfg(target_arch = "x86_64")]
mod top;
mod tunnel;

#[cfg(target_arch = "x86_64")]
pub(crate) use inspect::{DumpArgs, TraceArgs};
#[cfg(target_arch = "x86_64")]
pub(crate) use run::RunArgs;
pub(crate) use server::{CountersArgs, LogFormat, ServerArgs};
#[cfg(target_arch = "x86_64")]
pub(crate) use top::TopArgs;
pub(crate) use tunnel::TunnelArgs;

use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use uthread::Driver;

use crate::address::Address;
use server::log_parser;

const EXAMPLES: &str = "\
Examples:
  uthread serve                              serve this directory on http://127.0.0.1:8080/
  uthread serve site --listen 0.0.0.0:80     serve a directory on all interfaces
  uthread serve site --listen unix:/run/site.sock
  uthread serve site --log json | jq .status
  uthread echo --listen 127.0.0.1:7000       run a TCP echo server
  uthread tunnel --allow '*:443'             run a proxy for HTTPS
  uthread load tcp 127.0.0.1:7000            measure its throughput, latency and fairness
  uthread iobench rand-read --dir /mnt       measure random reads of a disk
  uthread search -F unwrap src               find text in files
  uthread model slower --html page.html      simulate a service on threads and on fibers
  uthread port --main src                    port a std program to fibers
  uthread doctor                             check this machine, and print remedies

Exit codes:
  0 success; serve: stopped after finishing every response; tunnel: stopped after the last \
  connection had ended; search: something was found
  1 failed while running; doctor: something does not work; load: no response was received; \
  port --check: there are changes to make; search: nothing was found; iobench: interrupted, \
  measurements failed, or urgent-trace found a wrong order
  2 wrong usage, or cannot start (port in use, directory missing, permission denied); search: \
  something could not be read
  3 serve, tunnel: stopped, but cut responses or connections after the grace period";

/// Servers and tools on user-level threads
#[derive(Debug, Parser)]
#[command(name = "uthread", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a directory over HTTP/1.1
    Serve(ServeArgs),
    /// Run a TCP echo server
    Echo(EchoArgs),
    /// Relay TCP connections: an HTTP proxy, or a forwarder to one target
    Tunnel(TunnelArgs),
    /// Generate load on a TCP echo or HTTP server, and check every response
    Load(LoadArgs),
    /// Measure disk I/O by blocking calls, AIO, io_uring and fibers, side by side
    #[command(after_help = IOBENCH_NOTES)]
    Iobench(Box<uthread_iobench::Options>),
    /// Find text in files, with the options of ripgrep
    #[command(args_override_self = true, version = SEARCH_VERSION, after_help = SEARCH_NOTES)]
    Search(Box<uthread_search::Options>),
    /// Simulate services with threads and with fibers under load, side by side
    #[command(after_help = MODEL_NOTES)]
    Model(uthread_model::Options),
    /// Port a std program to fibers by replacing its imports
    Port(PortArgs),
    /// Find the dependencies of a program that block a fiber's worker
    Audit(AuditArgs),
    /// Show the fibers of a running program, or of a core file
    #[cfg(target_arch = "x86_64")]
    Dump(DumpArgs),
    /// Watch the workers and fibers of a running program, without stopping it
    #[cfg(target_arch = "x86_64")]
    Top(TopArgs),
    /// Record what each worker of a running program does, for Perfetto or the Firefox profiler
    #[cfg(target_arch = "x86_64")]
    Trace(TraceArgs),
    /// Run a program for pthreads on fibers, as it is
    #[cfg(target_arch = "x86_64")]
    Run(RunArgs),
    /// Check what this machine supports, and print remedies
    Doctor(DoctorArgs),
    /// Print shell completions (try: uthread completions fish | source)
    Completions {
        /// Shell to generate completions for
        #[arg(value_parser = clap::builder::EnumValueParser::<Shell>::new())]
        shell: Shell,
    },
    /// Print a manual page (try: uthread man serve | man -l -)
    Man {
        /// Subcommand to describe [default: the program itself]
        command: Option<String>,
        /// Write the pages of the program and of all subcommands to this folder instead
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        into: Option<PathBuf>,
    },
}

/// Editors look for the version of ripgrep whose options they may pass.
const SEARCH_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (with the options of ripgrep 15.2.0)"
);

const SEARCH_NOTES: &str = "\
PATTERN is a regular expression in the syntax of Rust's crate regex; -F takes it literally. \
Without PATH, stdin is searched if something is piped into it, and the working directory otherwise.

Not searched in directories, unless -u, -uu or -uuu is given: files that .gitignore, .ignore and \
.rgignore exclude; hidden files; files with NUL bytes.

Options may also be in a file, one a line, which the environment variable RIPGREP_CONFIG_PATH \
names. Options such as --hidden are taken back by --no-hidden, and --no-ignore by --ignore.

Exit codes:
  0 something was found   1 nothing was found
  2 something could not be read, or wrong usage";

const IOBENCH_NOTES: &str = "\
Scenarios:
  syscall-overhead   sequential reads, with a system call for each and in batches
  lat-iops           latency and rate of sequential reads
  rand-read          latency and rate of random reads
  multi-4thr         four threads, each with a file of its own
  cpu-footprint      CPU time, context switches and memory of random reads
  mixed              reads and writes, 70 to 30, with fsync
  kv                 puts and gets of a key-value store on fibers
  urgent-reads       urgent random reads beside fibers that write
  urgent-echoes      urgent messages beside fibers that transfer much
  urgent-trace       the order in which the kernel takes urgent entries; needs root

All reads and writes go past the page cache, and every block is checked. The files have no names, \
and vanish with the program however it ends. fio is measured beside if it is installed. Progress \
and the time left are on stderr, tables on stdout.

Exit codes:
  0 everything was measured
  1 interrupted, measurements failed (a line for each scenario), or a wrong order was found
  2 wrong usage, or cannot start";

const MODEL_NOTES: &str = "\
Examples:
  uthread model sync -t 50 -l '60ms*10'       10,000 requests at 1,000/s, with a call of 60 ms each
  uthread model async -n 8000 -l '20ms*9,30s' one call in ten takes 30 s, and so fails
  uthread model slower bursts                 ready-made scenarios, with threads and with fibers
  uthread model print outage > mine.toml      start a scenario of your own from a ready-made one
  uthread model mine.toml --html page.html
  uthread model slower --real                 the model beside real runs on threads, uring and epoll

Time is virtual, except with --real. Text is on stdout; --json and --html add what changed over time.

Exit codes:
  0 simulated   1 a file cannot be written
  2 wrong usage, a wrong scenario, or a real run failed";

const SERVE_NOTES: &str = "\
Signals:
  SIGTERM or Ctrl-C stops accepting, lets responses finish within --grace, and closes connections \
  that stay idle for a second. A second signal cuts all of them immediately.

Unix sockets:
  --listen unix:PATH creates a socket file, with the permissions that the umask leaves, and \
  removes it at the end. The file of a process that has ended is replaced. Clients appear as \"unix:\" in the \
  log.

Service managers:
  A socket from LISTEN_FDS (systemd.socket) takes the place of --listen. READY=1 and STOPPING=1 \
  are sent to NOTIFY_SOCKET (Type=notify).

Never served:
  names that begin with a dot (except /.well-known/), symbolic links that lead out of DIR, and \
  anything that is not a regular file or a directory.

Precompressed files:
  page.html.br, page.html.zst and page.html.gz are sent instead of page.html to clients that \
  accept the encoding.

Exit codes:
  0 stopped, all responses finished   1 failed while running
  2 cannot start   3 responses cut";

#[derive(Debug, Args)]
#[command(after_help = SERVE_NOTES)]
pub(crate) struct ServeArgs {
    /// Directory to serve
    #[arg(default_value = ".", value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Address or port to listen on, or unix:PATH; port 0 picks a free port and prints it
    #[arg(
        long,
        short_alias = 'p',
        alias = "port",
        default_value = "127.0.0.1:8080",
        value_name = "ADDR:PORT"
    )]
    pub(crate) listen: Address,

    #[command(flatten)]
    pub(crate) server: ServerArgs,

    #[command(flatten)]
    pub(crate) counters: CountersArgs,

    /// Respond 403 to a directory without index.html, instead of listing its files
    #[arg(long, help_heading = "Content")]
    pub(crate) no_listing: bool,

    /// Directory with error pages, which are read at the start: 404.html, 503.html, ...
    #[arg(long, value_name = "DIR", help_heading = "Content")]
    pub(crate) error_pages: Option<PathBuf>,

    /// Format of the access log on stdout: common, json or off
    #[arg(long, value_parser = log_parser("common"), default_value = "common", value_name = "FORMAT", hide_possible_values = true, help_heading = "Log")]
    pub(crate) log: LogFormat,

    /// Maximum number of connections; respond 503 to further ones and close them
    #[arg(
        long,
        default_value = "10000",
        value_parser = positive::<NonZeroUsize>, value_name = "N",
        help_heading = "Limits"
    )]
    pub(crate) max_connections: NonZeroUsize,

    /// Respond 408 if a request head takes longer than this, from its first byte
    #[arg(long, default_value = "10s", value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) header_timeout: Duration,

    /// Close a connection that is idle between requests for this time
    #[arg(long, default_value = "60s", value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) idle_timeout: Duration,

    /// Cut a response that makes no progress for this time
    #[arg(long, default_value = "30s", value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) write_timeout: Duration,

    /// Let running responses finish for this time after SIGTERM, then cut them
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) grace: Duration,
}

/// Parses a driver by its name, which shell completions offer, too.
fn driver_parser() -> impl TypedValueParser<Value = Driver> {
    let names = Driver::ALL.iter().map(Driver::to_string);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<Driver>())
}

#[derive(Debug, Args)]
pub(crate) struct EchoArgs {
    /// Address or port to listen on, or unix:PATH; port 0 picks a free port and prints it
    #[arg(
        long,
        short_alias = 'p',
        alias = "port",
        default_value = "127.0.0.1:7000",
        value_name = "ADDR:PORT"
    )]
    pub(crate) listen: Address,

    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Compute for this time before each reply, such as 20us
    #[arg(long, default_value = "0s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) compute: Duration,
}

const LOAD_NOTES: &str = "\
Closed loop (the default) and open loop (--rate):
  A closed loop sends the next request as soon as a response has arrived. It measures the maximum \
  rate. A server that stalls receives fewer requests, so its latency looks better than it is.
  An open loop sends requests at random times with the given mean rate, whether or not earlier \
  ones were answered, and measures latency from the time when a request was due. It shows every \
  stall.

Checks:
  tcp: numbered messages must come back byte for byte. http: the status must be one of --status, \
  and the body must equal that of the first response (not with --no-check); it has a \
  Content-Length or chunks. The generator reopens failed connections after 100 ms, and counts \
  errors by kind.

Reading the report:
  \"saturated\" means that the generator itself was the limit, and tells what to do. The CPU share \
  is that of its own threads. \"answered\" includes the warm-up and the last responses; all other \
  figures cover the measured time only.

Exit codes:
  0 received responses, even if some requests failed (see the report; with --json: errors)
  1 received no response
  2 wrong usage, or cannot start";

#[derive(Debug, Args)]
#[command(after_help = LOAD_NOTES)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    pub(crate) target: LoadTarget,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LoadTarget {
    /// Send messages to a TCP echo server (try: uthread load tcp 127.0.0.1:7000)
    #[command(after_help = LOAD_NOTES)]
    Tcp {
        /// Address of the server
        #[arg(value_name = "HOST:PORT")]
        address: String,

        /// Size of a message in bytes; at most 65536 may be in flight per connection
        #[arg(long, default_value = "16", value_parser = positive::<NonZeroUsize>, value_name = "BYTES")]
        size: NonZeroUsize,

        #[command(flatten)]
        options: LoadOptions,
    },
    /// Request a path over HTTP/1.1 (try: uthread load http 127.0.0.1:8080/index.html)
    #[command(after_help = LOAD_NOTES)]
    Http {
        /// URL to request, with or without http://
        #[arg(value_name = "HOST:PORT/PATH")]
        url: String,

        #[command(flatten)]
        ask: LoadAsk,

        #[command(flatten)]
        options: LoadOptions,
    },
}

#[derive(Debug, Args)]
pub(crate) struct LoadAsk {
    /// Method of the requests
    #[arg(long, short = 'X', default_value = "GET", value_name = "METHOD")]
    pub(crate) method: String,

    /// Further header field, such as "Accept: text/html"; can be repeated
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,

    /// Body of the requests, or @FILE to send the content of a file
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) body: String,

    /// Statuses of responses that are no failures
    #[arg(long, default_value = "200", value_delimiter = ',', value_name = "N,N")]
    pub(crate) status: Vec<u16>,

    /// Accept any body: for a server whose responses change
    #[arg(long)]
    pub(crate) no_check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadOptions {
    /// Number of connections; the load starts after all are open and have received one response
    #[arg(long, short, default_value = "50", value_parser = positive::<NonZeroUsize>, value_name = "N")]
    pub(crate) connections: NonZeroUsize,

    /// Duration of the measurement
    #[arg(long, short, default_value = "10s", value_parser = positive_duration, value_name = "TIME")]
    pub(crate) duration: Duration,

    /// Duration of the load before the measurement
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) warm_up: Duration,

    /// Requests per second over all connections; makes the load an open loop [default: closed loop]
    #[arg(long, short, value_parser = positive::<NonZeroU64>, value_name = "N", conflicts_with = "pipelining")]
    pub(crate) rate: Option<NonZeroU64>,

    /// Number of requests in flight per connection, in a closed loop
    #[arg(long, default_value = "1", value_parser = positive::<NonZeroUsize>, value_name = "DEPTH")]
    pub(crate) pipelining: NonZeroUsize,

    /// Fail a request or a connection attempt after this time
    #[arg(long, default_value = "10s", value_parser = positive_duration, value_name = "TIME")]
    pub(crate) timeout: Duration,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Number of generator threads, which share the connections evenly
    #[arg(
        long,
        default_value = "1",
        value_parser = positive::<NonZeroUsize>, value_name = "N",
        help_heading = "Generator"
    )]
    pub(crate) workers: NonZeroUsize,

    /// Never sleep, so that wake-ups of the generator are not measured; needs a CPU per thread
    #[arg(long, help_heading = "Generator")]
    pub(crate) spin: bool,

    /// I/O driver of the generator [default: UTHREAD_DRIVER, or the best available]
    #[arg(long, value_name = "DRIVER", value_parser = driver_parser(), help_heading = "Generator")]
    pub(crate) driver: Option<Driver>,
}

const PORT_NOTES: &str = "\
Replacements:
  Paths of std::{net, fs, io, sync, thread, time, process} and std::os::unix::{net, fs} become \
  paths of uthread, in imports and in code. Imports that need both crates are split. Comments, \
  strings and items that uthread lacks stay unchanged. Lines that need attention are listed. \
  Afterwards:
    cargo fmt             order the imports
    cargo add uthread     add the dependency

Exit codes:
  0 success
  1 with --check: there are changes to make; or cannot read or write a file
  2 wrong usage, or no such path";

#[derive(Debug, Args)]
#[command(after_help = PORT_NOTES)]
pub(crate) struct PortArgs {
    /// Rust files, and directories to search for Rust files
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Only list the changes
    #[arg(long)]
    pub(crate) check: bool,

    /// Add #[uthread::main] to `fn main`
    #[arg(long)]
    pub(crate) main: bool,

    /// Replace #[test] by #[uthread::test], to run tests in fibers
    #[arg(long)]
    pub(crate) tests: bool,

    /// Replace thread_local! by uthread::local!, to give each fiber its own values
    #[arg(long)]
    pub(crate) locals: bool,
}

const AUDIT_NOTES: &str = "\
Reads the sources of the crates that cargo resolves, and names the first place of \
each kind. Crates that were tried in fibers have the result of that instead.

Exit codes:
  0 success
  2 wrong usage, or cargo cannot list the dependencies";

#[derive(Debug, Args)]
#[command(after_help = AUDIT_NOTES)]
pub(crate) struct AuditArgs {
    /// Folder of a package or workspace
    #[arg(default_value = ".", value_name = "FOLDER")]
    pub(crate) path: PathBuf,
}

const DOCTOR_NOTES: &str = "\
Every feature is detected by trying it. If io_uring is refused, the report names \
the reason and the commands that allow it.

Exit codes:
  0 programs run here, if necessary on another driver
  1 no driver starts, or a self-test fails";

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_NOTES)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Duration of each driver's self-test in seconds
    #[arg(long, default_value = "1", value_parser = seconds, value_name = "N")]
    pub(crate) seconds: f64,
}

/// Parses the duration of a self-test: long enough to measure a rate, short enough to wait for.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds @ 0.1..=60.0) => Ok(seconds),
        _ => Err("must be a number from 0.1 to 60".to_owned()),
    }
}

/// Parses a number other than zero. The message of its type speaks of types.
fn positive<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| "must be a whole number, and at least 1".to_owned())
}

/// Parses a duration other than zero: a deadline of zero would refuse every client, and the kernel
/// takes a zero timeout for none.
fn positive_duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("must be longer than zero".to_owned()),
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    /// Returns `true` if a line was ended before `next` although there was room for its first word.
    fn is_ragged(line: &str, next: &str, width: usize) -> bool {
        let indent = |text: &str| text.len() - text.trim_start().len();
        let is_text = |text: &str| !text.trim().contains("  ") && !text.trim().is_empty();
        let word = next.split_whitespace().next().unwrap_or_default();
        indent(line) == indent(next)
            && is_text(line)
            && is_text(next)
            && !line.ends_with(['.', ':'])
            && word.starts_with(|letter: char| letter.is_ascii_lowercase())
            && !["uthread", "curl"].contains(&word)
            && line.len() + 1 + word.len() <= width
    }

    #[test]
    fn help_is_wrapped_once() {
        for width in [80, 100] {
            let mut all = CommandLine::command().term_width(width);
            all.build();
            let helps = all
                .get_subcommands_mut()
                .map(|command| command.render_help());
            let helps: Vec<_> = helps.map(|help| help.to_string()).collect();
            for help in helps.into_iter().chain([all.render_help().to_string()]) {
                let lines: Vec<&str> = help.lines().collect();
                for pair in lines.windows(2) {
                    let is_ragged = is_ragged(pair[0], pair[1], width);
                    assert!(!is_ragged, "at {width} columns: {pair:#?}");
                }
            }
        }
    }

    #[test]
    fn durations() {
        for (text, expected) in [
            ("10s", Some(Duration::from_secs(10))),
            ("500ms", Some(Duration::from_millis(500))),
            ("20us", Some(Duration::from_micros(20))),
            ("0s", None),
            ("10", None),
            ("soon", None),
        ] {
            assert_eq!(positive_duration(text).ok(), expected, "{text}");
        }
    }
}
