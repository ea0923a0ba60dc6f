//! The command line of `uthread tunnel`.

use std::env;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, Parser};

use super::config;
use super::server::{CountersArgs, LogFormat, ServerArgs, log_parser};
use super::{Command, CommandLine, positive, positive_duration};
use crate::address::Address;
use crate::targets::{Rule, Target};

const TUNNEL_NOTES: &str = "\
Examples:
  uthread tunnel --allow '*:443'                       HTTPS to the whole internet
  uthread tunnel --allow '*.example.com:443' --allow 10.0.0.0/8:5432
  uthread tunnel --to db.example.com:5432 --listen 127.0.0.1:5432
  curl --proxy http://127.0.0.1:3128 https://example.com/
  uthread tunnel --allow '*:443' --tls-certificate cert.pem --tls-key key.pem
  curl --proxy https://proxy.example.com:3128 https://example.com/
  uthread tunnel --allow '*:80' --allow '*:443'        plain HTTP, too

Allowed targets:
  HOST:PORT, *.DOMAIN:PORT, *:PORT or NETWORK/BITS:PORT, with * for all ports. A name may resolve \
  to a loopback, private, link-local or other address of IANA's special-purpose registries only if \
  it is listed in full, or if the address is in a listed network. Such an address itself must be \
  listed, or be in a listed network.

Requests:
  CONNECT HOST:PORT relays bytes. http:// URLs, whose port is 80 if they name none, are forwarded by \
  HTTP/1.1, each on a connection of its own, with bodies of any size.

Configuration:
  --config names a file in TOML with long options:
    listen = \"0.0.0.0:3128\"      # a text
    allow = [\"*:80\", \"*:443\"]    # an option that can be repeated
    max-connections = 10000      # a number
    verbose = true               # an option without a value
  --check exits with 0 if the options and their files are valid, and else with a message and 2. \
  SIGHUP reads the files again, and drops no connection. All settings stay if something is wrong, \
  or if an option has changed that is not about targets, users, certificates or limits: that needs a restart.

Users:
  --users names a file with a line NAME:HASH for each, which \"htpasswd -nB NAME\" makes (bcrypt). \
  Clients send the password itself (Basic): use TLS where others can read the network.

Responses:
  400, 408, 414, 431  malformed, late or large request    407  without the credentials of a user
  403  the target is not allowed                          504  no answer in time
  502  no address, not connected, or a bad response       501  TRACE, or another coding than chunked
  503  too many connections, out of descriptors, or --breaker
  Proxy-Status (RFC 9209) and the body tell more.

Signals:
  SIGHUP reads the files again. SIGTERM or Ctrl-C stops accepting, and lets connections end within --grace. A second signal cuts \
  them immediately.

Unix sockets:
  --listen unix:PATH creates a socket file, with the permissions that the umask leaves, and \
  removes it at the end. The file of a process that has ended is replaced. Clients appear as \"unix:\" in the \
  log.

Service managers:
  A socket from LISTEN_FDS (systemd.socket) takes the place of --listen. READY=1 and STOPPING=1 \
  are sent to NOTIFY_SOCKET (Type=notify).

Exit codes:
  0 stopped, all connections ended
  2 wrong usage, or cannot start
  3 connections cut";

#[derive(Debug, Args)]
#[command(after_help = TUNNEL_NOTES)]
pub(crate) struct TunnelArgs {
    /// Target that clients may name; can be repeated
    #[arg(long, value_name = "TARGET", required_unless_present_any = ["to", "config"], conflicts_with = "to")]
    pub(crate) allow: Vec<Rule>,

    /// Forward every connection to this target, instead of being a proxy
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) to: Option<Target>,

    /// Read further options from this file; those of the command line win
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Check the options and the files that they name, and exit
    #[arg(long)]
    pub(crate) check: bool,

    /// Serve only clients with the credentials of a user in this file
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    pub(crate) users: Option<PathBuf>,

    /// Certificate for TLS with clients, and those of its issuers, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    pub(crate) tls_certificate: Option<PathBuf>,

    /// Private key of the certificate, as PEM
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_certificate",
        help_heading = "TLS"
    )]
    pub(crate) tls_key: Option<PathBuf>,

    /// Address or port to listen on, or unix:PATH; port 0 picks a free port and prints it
    #[arg(
        long,
        short_alias = 'p',
        alias = "port",
        default_value = "127.0.0.1:3128",
        value_name = "ADDR:PORT"
    )]
    pub(crate) listen: Address,

    #[command(flatten)]
    pub(crate) server: ServerArgs,

    /// Format of the access log on stdout: text, json or off
    #[arg(long, value_parser = log_parser("text"), default_value = "text", value_name = "FORMAT", hide_possible_values = true, help_heading = "Log")]
    pub(crate) log: LogFormat,

    #[command(flatten)]
    pub(crate) counters: CountersArgs,

    /// Maximum number of connections; close further ones, with a 503 unless --to is given
    #[arg(
        long,
        default_value = "8000",
        value_parser = positive::<NonZeroUsize>, value_name = "N",
        help_heading = "Limits"
    )]
    pub(crate) max_connections: NonZeroUsize,

    /// Maximum number of connections of one client address, or of a Unix socket [default: no limit]
    #[arg(long, value_parser = positive::<NonZeroUsize>, value_name = "N", help_heading = "Limits")]
    pub(crate) max_per_client: Option<NonZeroUsize>,

    /// Maximum number of bytes per second and direction of a connection, such as 10M [default: no
    /// limit]
    #[arg(long, value_parser = byte_count, value_name = "BYTES", help_heading = "Limits")]
    pub(crate) rate: Option<NonZeroU64>,

    /// Respond 408 if a request, with the handshake of TLS, takes longer than this
    #[arg(long, default_value = "10s", value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) header_timeout: Duration,

    /// Respond 504 if resolving a name, or connecting to its addresses, takes longer than this
    #[arg(long, default_value = "10s", value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) connect_timeout: Duration,

    /// Connect to a target that refuses again, up to so many times in --connect-timeout and for at
    /// most a tenth of the connections
    #[arg(long, default_value = "0", value_name = "N", help_heading = "Limits")]
    pub(crate) retries: u64,

    /// Respond 503 for --breaker-time if a target has failed so many times in a row, then try it once
    /// [default: off]
    #[arg(long, value_parser = positive::<NonZeroU64>, value_name = "N", help_heading = "Limits")]
    pub(crate) breaker: Option<NonZeroU64>,

    /// Time for which a target is not tried
    #[arg(long, default_value = "10s", value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) breaker_time: Duration,

    /// Close a connection in which no byte has moved in either direction for this time; respond
    /// 504 if a server takes longer to respond
    #[arg(long, default_value = "5m", value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) idle_timeout: Duration,

    /// Close a connection after this time [default: no limit]
    #[arg(long, value_parser = positive_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) lifetime: Option<Duration>,

    /// Resolve a name again after this time
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) name_age: Duration,

    /// Let connections end for this time after SIGTERM, then cut them
    #[arg(long, default_value = "30s", value_parser = humantime::parse_duration, value_name = "TIME", help_heading = "Limits")]
    pub(crate) grace: Duration,
}

impl TunnelArgs {
    /// Parses the arguments of the program again, with the configuration file if they name one.
    pub(crate) fn load(&self) -> anyhow::Result<TunnelArgs> {
        let arguments = Vec::from_iter(env::args_os());
        let line = match &self.config {
            Some(path) => config::parse(&arguments, path, &["allow", "to"])?,
            None => CommandLine::try_parse_from(arguments)?,
        };
        match line.command {
            Command::Tunnel(args) if args.allow.is_empty() && args.to.is_none() => {
                bail!("there are no targets: set allow or to")
            }
            Command::Tunnel(args) => Ok(args),
            _ => bail!("the first argument is not the subcommand"),
        }
    }

    /// Fails if a running program cannot change to other arguments.
    pub(crate) fn check_change(&self, to: &TunnelArgs) -> anyhow::Result<()> {
        if (&self.listen, &self.to, &self.server) != (&to.listen, &to.to, &to.server)
            || (self.log, &self.counters, self.grace) != (to.log, &to.counters, to.grace)
        {
            bail!(
                "a change of listen, to, reuse-port, workers, driver, verbose, log, counters or grace \
                 needs a restart"
            );
        }
        Ok(())
    }
}

/// Parses a number of bytes, with K, M or G for powers of 1024.
fn byte_count(text: &str) -> Result<NonZeroU64, String> {
    let units = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30)];
    let in_unit = |(unit, bytes)| Some((text.strip_suffix(unit)?, bytes));
    let (digits, bytes) = units.into_iter().find_map(in_unit).unwrap_or((text, 1));
    let count = digits.parse().ok();
    let count = count.and_then(|count: u64| NonZeroU64::new(count.checked_mul(bytes)?));
    count.ok_or_else(|| "must be a number of bytes, such as 500K or 10M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts() {
        for (text, expected) in [
            ("1", Some(1)),
            ("500K", Some(500 * 1024)),
            ("10M", Some(10 << 20)),
            ("2G", Some(2 << 30)),
            ("0", None),
            ("0K", None),
            ("K", None),
            ("1k", None),
            ("20000000000G", None),
        ] {
            let found = byte_count(text).ok().map(NonZeroU64::get);
            assert_eq!(found, expected, "{text}");
        }
    }
}
