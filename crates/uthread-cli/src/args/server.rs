//! Options that servers have in common.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use uthread::Driver;

use super::{driver_parser, positive};
use crate::address::tcp;

/// Options of every server.
#[derive(Debug, PartialEq, Args)]
pub(crate) struct ServerArgs {
    /// Share the port with other processes that set this option
    #[arg(long)]
    pub(crate) reuse_port: bool,

    /// Number of worker threads [default: one per CPU]
    #[arg(long, value_parser = positive::<NonZeroUsize>, value_name = "N")]
    pub(crate) workers: Option<NonZeroUsize>,

    /// I/O driver [default: UTHREAD_DRIVER, or the best available]
    #[arg(long, value_name = "DRIVER", value_parser = driver_parser())]
    pub(crate) driver: Option<Driver>,

    /// Print the driver, its configuration, and why it was chosen
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// The option of servers that show counters.
#[derive(Debug, PartialEq, Args)]
pub(crate) struct CountersArgs {
    /// Serve counters over HTTP at this address, in the text format of OpenMetrics, for Prometheus
    #[arg(long, value_parser = tcp, value_name = "ADDR:PORT", help_heading = "Log")]
    pub(crate) counters: Option<SocketAddr>,
}

impl CountersArgs {
    /// Returns `true` if counters are to be served.
    pub(crate) fn is_enabled(&self) -> bool {
        self.counters.is_some()
    }
}

/// Format of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
    Off,
}

/// Parses a format of a log, whose text format has the name `text`.
pub(super) fn log_parser(text: &'static str) -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new([text, "json", "off"]).map(|name| match &*name {
        "json" => LogFormat::Json,
        "off" => LogFormat::Off,
        _ => LogFormat::Text,
    })
}
