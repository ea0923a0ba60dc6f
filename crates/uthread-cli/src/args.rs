//! The command line: what can be asked of `uthread`, and the text of `--help`.
//!
//! Every default is written here and nowhere else; values are checked while they are parsed, so the rest of the program
//! never meets a zero timeout.

use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use uthread::Driver;

const EXAMPLES: &str = "\
Examples:
  uthread serve                              this directory on http://127.0.0.1:8080/
  uthread serve site --listen 0.0.0.0:80     a directory, to everyone
  uthread serve site --log json | jq .status
  uthread echo --listen 127.0.0.1:7000       a TCP echo server to measure against
  uthread load tcp 127.0.0.1:7000            how much it bears: rate, latency, fairness
  uthread port --main src                    a program for std becomes one for fibers
  uthread doctor                             what this machine offers, and what to do about the rest

Exit codes:
  0  done; for serve: stopped, and every response was finished
  1  failed while running; for doctor: something does not work; for load: nothing was answered;
     for port --check: there is something to change
  2  wrong usage, or could not start (port taken, directory missing, not permitted)
  3  stopped, but responses that outlasted the grace period were cut";

/// Serve files, echo bytes or load servers, on user-level threads
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
    /// Send back whatever is received over TCP
    Echo(EchoArgs),
    /// Load a TCP echo or HTTP server, and check every answer
    Load(LoadArgs),
    /// Port a program that is written for `std` to fibers, by its paths
    Port(PortArgs),
    /// Tell what this machine offers to fibers, and what to do about what it lacks
    Doctor(DoctorArgs),
    /// Print shell completions (try: uthread completions fish | source)
    Completions {
        /// The shell to complete for
        #[arg(value_parser = clap::builder::EnumValueParser::<Shell>::new())]
        shell: Shell,
    },
    /// Print a manual page (try: uthread man serve | man -l -)
    Man {
        /// The subcommand to describe; without it, the program
        command: Option<String>,
    },
}

const SERVE_NOTES: &str = "\
Signals:
  SIGTERM or Ctrl-C stops accepting, closes idle connections, and lets running responses finish
  within --grace. A second signal cuts them at once.

Never served:
  names that begin with a dot (but /.well-known/), symbolic links that leave DIR, and anything that
  is not a regular file or a directory.

Precompressed neighbours:
  page.html.br, page.html.zst and page.html.gz are sent in place of page.html to clients that accept
  them.

Exit codes:
  0 stopped, all responses finished   1 failed while running   2 could not start   3 responses cut";

#[derive(Debug, Args)]
#[command(after_help = SERVE_NOTES)]
pub(crate) struct ServeArgs {
    /// The directory to serve
    #[arg(default_value = ".", value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// Where to listen; port 0 takes a free one and prints it
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,

    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,

    /// Answer 403 for a directory without index.html, in place of a list of its files
    #[arg(long, help_heading = "Content")]
    pub(crate) no_listing: bool,

    /// Take error pages from this directory: 404.html, 503.html, ...
    #[arg(long, value_name = "DIR", help_heading = "Content")]
    pub(crate) error_pages: Option<PathBuf>,

    /// Access log on stdout: common, json or off
    #[arg(long, value_enum, default_value_t = LogFormat::Common, value_name = "FORMAT", hide_possible_values = true, help_heading = "Log")]
    pub(crate) log: LogFormat,

    /// Most connections at once; a further one is answered 503 and closed
    #[arg(
        long,
        default_value = "10000",
        value_name = "N",
        help_heading = "Limits"
    )]
    pub(crate) max_connections: NonZeroUsize,

    /// Time for a whole request head, from its first byte (then 408)
    #[arg(long, default_value = "10s", value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) header_timeout: Duration,

    /// Time a connection may wait between requests (then closed)
    #[arg(long, default_value = "60s", value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) idle_timeout: Duration,

    /// Time without progress while sending (then cut)
    #[arg(long, default_value = "30s", value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) write_timeout: Duration,

    /// Time for running responses to finish after SIGTERM (then cut)
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) grace: Duration,
}

/// No doc comments on the variants: one would switch `--help` to its long form, a paragraph per option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Common,
    Json,
    Off,
}

/// What every subcommand that runs fibers takes.
#[derive(Debug, Args)]
pub(crate) struct RuntimeArgs {
    /// OS threads that run the connections [default: one per CPU]
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<NonZeroUsize>,

    /// What carries calls to the kernel: uring, epoll or threads [default: UTHREAD_DRIVER, else the best there is]
    #[arg(long, value_name = "DRIVER", value_parser = driver_parser(), hide_possible_values = true)]
    pub(crate) driver: Option<Driver>,

    /// Tell which driver it is, how it was set up, and why
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// Known by name to shell completions too.
fn driver_parser() -> impl TypedValueParser<Value = Driver> {
    PossibleValuesParser::new(["uring", "epoll", "threads"]).try_map(|name| name.parse::<Driver>())
}

#[derive(Debug, Args)]
pub(crate) struct EchoArgs {
    /// Where to listen; port 0 takes a free one and prints it
    #[arg(long, default_value = "127.0.0.1:7000", value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,

    #[command(flatten)]
    pub(crate) runtime: RuntimeArgs,

    /// Busy work before each reply, such as 20us
    #[arg(long, default_value = "0s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) compute: Duration,
}

const LOAD_NOTES: &str = "\
Closed loop (the default) and open loop (--rate):
  A closed loop sends on a connection as soon as it has been answered: it finds the rate a server
  reaches. A slow server is asked less, so its latency looks better than users would find it. An
  open loop sends when a request is due, at random times of that mean rate, and counts latency from
  then on: a server that falls behind shows it.

What is checked:
  tcp: numbered messages, which have to come back byte for byte. http: status 200, and the body of
  the first answer, byte for byte; a body without Content-Length cannot be checked and is an error.
  Connections that fail are opened anew after 100 ms; the report counts errors by kind.

What to look for in the report:
  \"saturated\" says that the generator itself was the limit, and what to do. The CPU share counts
  its own threads. `answered` counts the warm-up and the last answers too, all else is measured.

Exit codes:
  0 something was answered; as with other generators, failed requests stand in the report (--json:
    errors)   1 nothing was answered   2 wrong usage, or could not start";

#[derive(Debug, Args)]
#[command(after_help = LOAD_NOTES)]
pub(crate) struct LoadArgs {
    #[command(subcommand)]
    pub(crate) target: LoadTarget,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LoadTarget {
    /// Messages that a TCP server sends back as they are (try: uthread load tcp 127.0.0.1:7000)
    #[command(after_help = LOAD_NOTES)]
    Tcp {
        /// Where the server listens
        #[arg(value_name = "HOST:PORT")]
        address: String,

        /// Bytes of a message; all in flight on a connection are at most 65536
        #[arg(long, default_value = "16", value_name = "BYTES")]
        size: NonZeroUsize,

        #[command(flatten)]
        options: LoadOptions,
    },
    /// A path over HTTP/1.1 (try: uthread load http 127.0.0.1:8080/index.html)
    #[command(after_help = LOAD_NOTES)]
    Http {
        /// What to request, with or without http:// before it
        #[arg(value_name = "HOST:PORT/PATH")]
        url: String,

        #[command(flatten)]
        options: LoadOptions,
    },
}

#[derive(Debug, Args)]
pub(crate) struct LoadOptions {
    /// Connections at once; all are opened, and answered once, before the load begins
    #[arg(long, short, default_value = "50", value_name = "N")]
    pub(crate) connections: NonZeroUsize,

    /// How long to measure
    #[arg(long, short, default_value = "10s", value_parser = positive_duration, value_name = "TIME")]
    pub(crate) duration: Duration,

    /// How long to load before that
    #[arg(long, default_value = "1s", value_parser = humantime::parse_duration, value_name = "TIME")]
    pub(crate) warm_up: Duration,

    /// Requests per second over all connections, as an open loop [default: a closed loop]
    #[arg(long, short, value_name = "N", conflicts_with = "pipelining")]
    pub(crate) rate: Option<NonZeroU64>,

    /// Closed loop: requests in flight on each connection
    #[arg(long, default_value = "1", value_name = "DEPTH")]
    pub(crate) pipelining: NonZeroUsize,

    /// After which a request without an answer, or a connection that does not open, has failed
    #[arg(long, default_value = "10s", value_parser = positive_duration, value_name = "TIME")]
    pub(crate) timeout: Duration,

    /// Print JSON, for machines
    #[arg(long)]
    pub(crate) json: bool,

    /// Threads of the generator, each with its share of the connections
    #[arg(
        long,
        default_value = "1",
        value_name = "N",
        help_heading = "Generator"
    )]
    pub(crate) workers: NonZeroUsize,

    /// Never sleep: with CPUs of its own, so that the generator's waking up is not measured
    #[arg(long, help_heading = "Generator")]
    pub(crate) spin: bool,

    /// What carries its calls to the kernel: uring, epoll or threads [default: UTHREAD_DRIVER, else the best there is]
    #[arg(long, value_name = "DRIVER", value_parser = driver_parser(), hide_possible_values = true, help_heading = "Generator")]
    pub(crate) driver: Option<Driver>,
}

const PORT_NOTES: &str = "\
What is replaced:
  std::{net, fs, io, sync, thread, time, process} and std::os::unix::{net, fs} by the modules of
  uthread, wherever code names them. An import of both becomes two. Comments, strings and what
  uthread does not have stay; what needs a look is listed with its line. Afterwards:
    cargo fmt                                  the order of the imports
    cargo add uthread                          the dependency

Exit codes:
  0 done   1 with --check, there is something to change; or a file could not be read or written
  2 wrong usage, or no such path";

#[derive(Debug, Args)]
#[command(after_help = PORT_NOTES)]
pub(crate) struct PortArgs {
    /// Files, and folders with all Rust files in them
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Change nothing, only tell what is to change
    #[arg(long)]
    pub(crate) check: bool,

    /// Put #[uthread::main] above `fn main`
    #[arg(long)]
    pub(crate) main: bool,

    /// Run tests in fibers: #[uthread::test] for #[test]
    #[arg(long)]
    pub(crate) tests: bool,

    /// Give each fiber its own values: uthread::local! for thread_local!
    #[arg(long)]
    pub(crate) locals: bool,
}

const DOCTOR_NOTES: &str = "\
Every feature is found by trying it. Where io_uring is refused, the page tells
why, and the command that allows it.

Exit codes:
  0 programs run here, if need be on another driver
  1 none starts, or a self-test fails";

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_NOTES)]
pub(crate) struct DoctorArgs {
    /// Print JSON, for machines
    #[arg(long)]
    pub(crate) json: bool,

    /// Seconds for the self-test of each driver
    #[arg(long, default_value = "1", value_parser = seconds, value_name = "N")]
    pub(crate) seconds: f64,
}

/// Long enough for a rate, short enough for whoever waits.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds @ 0.1..=60.0) => Ok(seconds),
        _ => Err("must be a number from 0.1 to 60".to_owned()),
    }
}

/// A deadline of zero would refuse every client; the kernel reads a zero timeout as "none".
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
