//! What is measured: a program on a driver, at a number of connections.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use uthread::Driver;

use crate::servers::{self, CONNECTIONS_SPARE, Heard, Launch, pinned};

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(super) enum Program {
    Echo,
    Serve,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Subject {
    pub(super) program: Program,
    pub(super) connections: u32,
    pub(super) driver: Driver,
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Program::Echo => "echo",
            Program::Serve => "serve",
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject {
            program,
            connections,
            driver,
        } = self;
        write!(formatter, "{program} on {driver} at {connections}")
    }
}

impl Subject {
    /// On these CPUs; `root` is what it serves.
    pub(super) fn start(
        &self,
        uthread: &Path,
        workers: usize,
        cpus: &[usize],
        root: &Path,
    ) -> Result<Heard> {
        let mut command = match self.program {
            Program::Serve => {
                let launch = Launch {
                    program: uthread,
                    root,
                    workers,
                    cpus,
                    connections_max: (self.connections + CONNECTIONS_SPARE) as usize,
                };
                servers::serve_command(&launch, self.driver)
            }
            Program::Echo => {
                let mut command = pinned(cpus, uthread);
                command
                    .args(["echo", "--listen", "127.0.0.1:0"])
                    .args(["--driver", &self.driver.to_string()])
                    .args(["--workers", &workers.to_string()]);
                command
            }
        };
        command.arg("--verbose");
        servers::start_heard(command).context("start")
    }
}

/// How the driver was set up: `uthread: driver: uring (..), as the program asked`.
pub(super) fn driver_in(lines: &[String]) -> Option<&str> {
    let details = lines.iter().find_map(|line| line.split_once("driver: "))?.1;
    Some(
        details
            .strip_suffix(", as the program asked")
            .unwrap_or(details),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_found_in_the_first_lines() {
        let check = |line: &str, expected: Option<&str>| {
            let lines = ["something else".to_owned(), line.to_owned()];
            assert_eq!(driver_in(&lines), expected, "{line:?}");
        };
        check(
            "uthread: driver: uring (a ring), as the program asked",
            Some("uring (a ring)"),
        );
        check(
            "uthread: driver: epoll (x), the best there is",
            Some("epoll (x), the best there is"),
        );
        check("listening on 127.0.0.1:7000", None);
    }
}
