//! `cargo xtask kernels echo`: what an echo server answers on io_uring, as a ratio to epoll.
//!
//! The guest has one CPU, whose clock is the number of its instructions, so that other work of this
//! machine does not count. The script runs the server on each driver in turn.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::archive::Archive;
use super::guest::{Execution, Guest};
use super::initramfs::{self, place};
use super::plan::{self, MACHINES};
use super::{REPORT, programs, tools};

const SCRIPT: &str = include_str!("echo.sh");

/// The programs, each with its package. They run as users build them.
const SERVER: (&str, &str) = ("uthread-peer", "uthread-peer");
const LOAD: (&str, &str) = ("uthread", "uthread-cli");
const PROFILE: &str = "release";

const ROUNDS: usize = 5;

/// Time limit of a guest, which takes a few minutes.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Where this part of the report begins, which is its last one.
pub(super) const HEADING: &str = "\n## Echo\n";

const OPENING: &str = "
`cargo xtask kernels echo` measures this part: an echo server with 100 connections, on one emulated CPU, which it shares with
its load. The column has what the server answers in a second of its CPU time on io_uring, divided by what the same program
answers on epoll, on the same kernel in the same guest: the median of five interleaved rounds, and their range.

The clock of that CPU is the number of its instructions, those of the kernel included. So there is no throughput to report, only
the ratio: a processor also waits for memory, and takes longer to enter the kernel than an emulated one does.

| machine | answers on io_uring / on epoll |
| --- | --- |
";

/// A lower ratio is that of a server that has hung.
const RATIO_MIN: f64 = 0.2;

/// Measures all machines that have a ring, and updates their part of the report. Returns true if every round of each has
/// served its load.
pub(super) fn run(root: &Path) -> io::Result<bool> {
    tools::check(&[])?;
    let folder = programs::target(root).join("kernels");
    fs::create_dir_all(&folder)?;
    let archive = Archive::of_this_machine(&folder)?;
    let programs = [SERVER, LOAD]
        .map(|(name, package)| programs::named(root, PROFILE, package, name))
        .into_iter()
        .collect::<io::Result<Vec<_>>>()?;
    let environment = format!(
        "SERVER={}\nLOAD={}\nROUNDS={ROUNDS}\n",
        place(SERVER.0),
        place(LOAD.0)
    );
    let busybox = archive.suite(plan::TOOLS)?.busybox()?;
    let initramfs = folder.join("initramfs-echo");
    let packed = initramfs::pack_runs(&busybox, &programs, SCRIPT, &environment, &[])?;
    fs::write(&initramfs, packed)?;
    let mut part = OPENING.to_owned();
    let mut is_complete = true;
    for machine in MACHINES
        .iter()
        .filter(|machine| machine.arguments.is_empty())
    {
        eprintln!("{}:", machine.name);
        let kernel = archive.suite(machine.suite)?.kernel()?;
        let folder = folder.join(machine.name).join("echo");
        fs::create_dir_all(&folder)?;
        let guest = Guest {
            kernel: &kernel,
            initramfs: &initramfs,
            arguments: machine.arguments,
            execution: Execution::Counted,
            limit: LIMIT,
        };
        let ratios = ratios(&guest.run(&folder)?);
        let is_served = ratios.first().is_some_and(|least| *least > RATIO_MIN);
        is_complete &= is_served && ratios.len() == ROUNDS;
        let _ = writeln!(part, "| {} | {} |", machine.name, cell(&ratios));
    }
    println!("{part}");
    let report = fs::read_to_string(root.join(REPORT))?;
    let (tests, _) = report.split_once(HEADING).unwrap_or((&report, ""));
    fs::write(root.join(REPORT), format!("{tests}{HEADING}{part}"))?;
    Ok(is_complete)
}

/// Returns the ratio of each round: a line for io_uring, and the next one for epoll.
fn ratios(output: &str) -> Vec<f64> {
    let lines = output.lines().filter_map(|line| {
        let mut words = line.strip_prefix("@@ echo ")?.split_whitespace().skip(1);
        let mut number = || words.next()?.parse::<f64>().ok();
        Some(number()? / number()?)
    });
    let rates = Vec::from_iter(lines);
    let mut ratios = Vec::from_iter(rates.chunks_exact(2).map(|pair| pair[0] / pair[1]));
    ratios.sort_by(f64::total_cmp);
    ratios
}

fn cell(ratios: &[f64]) -> String {
    match ratios {
        [least, .., most] => {
            let median = ratios[ratios.len() / 2];
            format!("{median:.2} [{least:.2}..{most:.2}]")
        }
        _ => "not measured".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_is_a_line_for_each_driver() {
        let output = "\n@@ kernel 6.1\n
@@ echo uring 3000 1000

@@ echo epoll 1000 1000

@@ echo uring 4000 2000
@@ echo epoll 1000 1000
@@ echo uring 100 1000
";
        assert_eq!(ratios(output), [2.0, 3.0]);
        assert_eq!(cell(&ratios(output)), "3.00 [2.00..3.00]");
        assert_eq!(cell(&[]), "not measured");
    }
}
