//! Do slow and hostile clients hurt an ordinary one? Its latency with and without them, at a fixed pace.

use anyhow::{Context, Result};
use serde_json::json;

use super::check_served;
use crate::Common;
use crate::files::{Files, Size};
use crate::hostile::Attack;
use crate::measure::quiet::Window;
use crate::measure::rounds::{Taken, interleave};
use crate::measure::stats::{Ratio, Verdict};
use crate::paced;
use crate::report::{Metric, Table, write_json};
use crate::say::{say, tell};
use crate::servers::Peer;
use crate::setup::{OPEN_FILES_SPARE, Setup};

/// What the ordinary client requests.
const SMALL: &str = "1KiB";
/// What the clients that never read request: more than a socket buffers.
const LARGE: &str = "1MiB";
/// The ordinary client's 99th percentile may at most double: beyond, slow clients are a way to deny service.
const P99_RATIO_MAX: f64 = 2.0;
const P99: usize = 1;

const METRICS: &[Metric] = &[
    Metric::new("p50 us", 0),
    Metric::new("p99 us", 0),
    Metric::new("p99.9 us", 0),
    Metric::new("max us", 0),
    Metric::new("server CPU % of a CPU", 1),
    Metric::new("hostile ones dropped", 0),
];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Clients that send a header of one byte per 100 ms
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=5_000))]
    slow_header: u64,
    /// Clients that request a file of 1 MiB over and over and never read
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(0..=5_000))]
    never_read: u64,
    /// Requests per second of the ordinary client
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pace: u64,
    /// Rounds; each measures every server without and with the hostile clients
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Length of one measurement: 6 s at 500 per second leave three samples beyond the 99.9th percentile
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let clients = args.slow_header + args.never_read;
    // A server may hold the file open besides each client's socket.
    let setup = Setup::prepare(&args.common, &Peer::BOTH, 2 * clients + OPEN_FILES_SPARE)?;
    let sizes = [SMALL, LARGE].map(|name| name.parse::<Size>().map_err(anyhow::Error::msg));
    let sizes = sizes.into_iter().collect::<Result<Vec<Size>>>()?;
    let study = Study {
        args,
        setup,
        files: Files::create(&sizes)?,
        sizes,
    };
    let table = study.measure()?;
    table.print();
    for &comparison in &table.comparisons {
        let name = &table.subjects[comparison.1];
        let finding = table.ratio(P99, comparison).map(judge_p99);
        say!(
            "{name}: {}",
            finding.unwrap_or_else(|| "no p99 to compare".to_owned())
        );
    }
    let json =
        json!({ "study": "slow", "setup": study.setup.to_json(), "tables": [table.to_json()] });
    write_json(args.common.json.as_deref(), &json)
}

fn judge_p99(ratio: Ratio) -> String {
    let verdict = if ratio.verdict == Verdict::TooFewRounds {
        "too few rounds to compare with"
    } else if ratio.high <= P99_RATIO_MAX {
        "within"
    } else if ratio.low > P99_RATIO_MAX {
        "NOT within"
    } else if ratio.median <= P99_RATIO_MAX {
        "its median but not its interval within"
    } else {
        "its interval but not its median reaching"
    };
    let Ratio {
        median, low, high, ..
    } = ratio;
    format!(
        "p99 hostile / undisturbed {median:.2} [{low:.2}..{high:.2}], {verdict} {P99_RATIO_MAX}"
    )
}

struct Study<'a> {
    args: &'a Args,
    setup: Setup,
    files: Files,
    sizes: Vec<Size>,
}

impl Study<'_> {
    fn measure(&self) -> Result<Table> {
        let Args {
            slow_header,
            never_read,
            pace,
            rounds,
            seconds,
            ..
        } = *self.args;
        let peers = &self.setup.peers;
        // Each peer is two subjects: undisturbed, and beside the hostile clients.
        let subjects: Vec<String> = peers
            .iter()
            .flat_map(|peer| [format!("{peer}"), format!("{peer}, hostile")])
            .collect();
        let progress = |round, subject: usize| tell!("round {} {}", round + 1, subjects[subject]);
        let taken = interleave(subjects.len(), rounds as usize, progress, |subject| {
            self.measure_once(peers[subject / 2], subject % 2 == 1)
        })?;
        Ok(Table {
            title: format!(
                "{pace} requests/s beside {slow_header} slow headers and {never_read} clients that never read, \
                 {rounds} rounds of {seconds} s; median (min..max)"
            ),
            metrics: METRICS,
            comparisons: (0..peers.len())
                .map(|peer| (2 * peer + 1, 2 * peer))
                .collect(),
            subjects,
            taken,
        })
    }

    /// On a server of its own, so that no hostile client of an earlier round still occupies it.
    fn measure_once(&self, peer: Peer, hostile: bool) -> Result<Taken> {
        let Args {
            slow_header,
            never_read,
            pace,
            seconds,
            ..
        } = *self.args;
        let connections_max = (slow_header + never_read) as usize + 2;
        let server = self.setup.start(peer, self.files.path(), connections_max)?;
        for size in &self.sizes {
            check_served(&server, size)?;
        }
        // The attack's thread also runs without clients: the CPU of the ordinary client then wakes as often in both.
        let (slow_headers, never_reads) = if hostile {
            (slow_header, never_read)
        } else {
            (0, 0)
        };
        let large = format!("/{LARGE}");
        let attack = Attack::start(
            server.address(),
            slow_headers as usize,
            never_reads as usize,
            &large,
        )?;
        let window = Window::open(Some(server.pid()), self.setup.quiet_wait)?;
        let latencies = paced::run(server.address(), &format!("/{SMALL}"), pace, seconds)
            .with_context(|| {
                format!(
                    "measure {peer}{}",
                    if hostile {
                        " beside the hostile clients"
                    } else {
                        ""
                    }
                )
            })?;
        let usage = window.close()?;
        let outcome = attack.finish()?;
        let dropped = if hostile {
            outcome.dropped as f64
        } else {
            f64::NAN
        };
        let cpu_percent = usage.server.total_ns() as f64 / 1e7 / seconds as f64;
        let figures = vec![
            latencies.p50_us,
            latencies.p99_us,
            latencies.p999_us,
            latencies.max_us,
            cpu_percent,
            dropped,
        ];
        Ok(Taken { figures, usage })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p99_is_judged_with_its_interval() {
        let check = |median, low, high, expected: &str| {
            let verdict = Verdict::NoDifference;
            let judged = judge_p99(Ratio {
                median,
                low,
                high,
                verdict,
            });
            assert!(
                judged.ends_with(expected),
                "{judged:?} does not say {expected:?}"
            );
        };
        check(1.2, 0.9, 1.9, "1.20 [0.90..1.90], within 2");
        check(3.0, 2.5, 4.0, "3.00 [2.50..4.00], NOT within 2");
        check(1.2, 0.9, 21.0, "its median but not its interval within 2");
        check(3.0, 0.9, 21.0, "its interval but not its median reaching 2");
        let (median, low, high, verdict) = (1.2, 1.2, 1.2, Verdict::TooFewRounds);
        assert!(
            judge_p99(Ratio {
                median,
                low,
                high,
                verdict
            })
            .ends_with("too few rounds to compare with 2")
        );
    }
}
