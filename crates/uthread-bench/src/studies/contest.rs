//! Servers beside each other under the same load: what all such studies measure, and who takes part in echoing.

use anyhow::{Context, Result};

use crate::load::{Load, Report};
use crate::measure::calls::Counted;
use crate::measure::proc;
use crate::measure::quiet::{Usage, Window, wait_until_quiet};
use crate::measure::rounds::Taken;
use crate::peers::{self, Availability};
use crate::place::Place;
use crate::results::{Better, Metric, Subject};
use crate::servers::Server;
use crate::study::Measuring;

/// Ours: a name, and the options of `own`.
const OURS: [(&str, &[&str]); 5] = [
    ("uthread", &["own", "--driver", "uring"]),
    ("uthread migrating", &["own", "--driver", "uring", "--migrating"]),
    ("uthread polling", &["own", "--driver", "uring", "--polling"]),
    ("uthread epoll", &["own", "--driver", "epoll"]),
    ("uthread threads", &["own", "--driver", "threads"]),
];
/// The first is no runtime: a loop around epoll, and nothing else.
const PEERS: [&str; 7] = ["floor", "tokio", "go", "monoio", "compio", "may", "threads"];

/// Seconds that a server gets before what is measured: a garbage collector learns its heap.
const WARM_UP_SECONDS: u64 = 1;
/// What starting a server, connecting and the wait for quiet take on top.
const AROUND_SECONDS: f64 = 1.5;
const MIB: f64 = 1024.0 * 1024.0;
