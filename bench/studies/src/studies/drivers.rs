//! The same program on each driver, at more and more connections: how many answers, at what cost, how late, and what does
//! a connection hold?
//!
//! A driver that cannot bear a number of connections is a result, told in its row: nothing that a server does ends the
//! study. Connections are all open and answered before anything is counted. They are held until after the run, so that they are
//! still there, idle, when the memory is read.

mod page;
mod row;
mod subject;

use std::path::PathBuf;

use anyhow::{Error, Result, anyhow};
use serde_json::json;
use uthread::Driver;

use super::check_served;
use crate::files::{Files, Size};
use crate::limits;
use crate::load::{Load, WARM_UP_SECONDS};
use crate::measure::held::Held;
use crate::measure::quiet::Window;
use crate::measure::rounds::{Taken, least_disturbed};
use crate::place::Place;
use crate::report::write_json;
use crate::say::{self, tell};
use crate::servers::Server;
use crate::setup::find_uthread;
use crate::{Rounds, parse_workers};
use row::Row;
use subject::{Program, Subject, driver_in};

/// Small, so that the cost of a request is that of its calls and not the file's.
const FILE: &str = "1KiB";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    rounds: Rounds,
    /// The program `uthread` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
    /// Which drivers; each is compared with the first
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "uring,epoll,threads"
    )]
    drivers: Vec<Driver>,
    /// What runs on them, a table for each
    #[arg(long, value_enum, value_delimiter = ',', default_value = "echo,serve")]
    programs: Vec<Program>,
    /// Connections that send as soon as they have been answered, a row for each
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000,10000",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: Vec<u32>,
    /// Workers of each server; the load gets the CPUs they leave, and shares theirs if they leave none
    #[arg(long, default_value_t = 1, value_parser = parse_workers)]
    workers: usize,
    /// Length of one measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let study = Study::prepare(args)?;
    let mut rows = study.rows();
    for round in 0..args.rounds.rounds as usize {
        for group in rows.chunks_mut(args.drivers.len()) {
            // As `interleave` does it, for the drivers at one number of connections, so that a ratio's pair is close in time.
            let first = round % group.len();
            group.rotate_left(first);
            for row in group.iter_mut() {
                study.add_round(round, row);
            }
            group.rotate_right(first);
        }
    }
    say::out(format_args!("{}", page::show(args, &study.place, &rows)));
    let tables: Vec<_> = rows.chunks(args.drivers.len()).map(row::to_json).collect();
    let setup = study.place.to_json(args.workers);
    write_json(
        args.rounds.json.as_deref(),
        &json!({ "study": "drivers", "setup": setup, "tables": tables }),
    )
}

struct Study<'a> {
    args: &'a Args,
    place: Place,
    uthread: PathBuf,
    files: Files,
    size: Size,
}

impl<'a> Study<'a> {
    fn prepare(args: &'a Args) -> Result<Study<'a>> {
        let place = Place::apart_or_shared(args.workers)?;
        place.pin_load()?;
        let size: Size = FILE.parse().map_err(Error::msg)?;
        Ok(Study {
            args,
            place,
            uthread: find_uthread(args.server.as_deref())?,
            files: Files::create(std::slice::from_ref(&size))?,
            size,
        })
    }

    /// In the order of the page: the drivers of one program at one number of connections stand together.
    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for &program in &self.args.programs {
            for &connections in &self.args.connections {
                rows.extend(self.args.drivers.iter().map(|&driver| {
                    Row::new(Subject {
                        program,
                        connections,
                        driver,
                    })
                }));
            }
        }
        rows
    }

    fn add_round(&self, round: usize, row: &mut Row) {
        let subject = row.subject;
        say::err(format_args!("round {}: {subject}: ", round + 1));
        let result = limits::check(
            u64::from(subject.connections),
            subject.driver == Driver::Threads,
        )
        .and_then(|()| least_disturbed(|| self.measure(subject, &mut row.driver)));
        row.add(result);
        tell!("{}", row.show_last());
    }

    /// On a server of its own: one that has held many connections keeps memory for them.
    fn measure(&self, subject: Subject, driver: &mut Option<String>) -> Result<Taken> {
        let root = self.files.path();
        let cpus = &self.place.server_cpus;
        let heard = subject.start(&self.uthread, self.args.workers, cpus, root)?;
        *driver = driver_in(&heard.first).map(str::to_owned);
        self.load(subject, &heard.server).map_err(|error| {
            let later: Vec<String> = heard.later.try_iter().collect();
            match later.is_empty() {
                true => error,
                false => anyhow!("{error:#}; it said: {}", later.join("; ")),
            }
        })
    }

    fn load(&self, subject: Subject, server: &Server) -> Result<Taken> {
        let (get, body) = match subject.program {
            Program::Echo => (None, None),
            Program::Serve => {
                check_served(server, &self.size)?;
                let name = &self.size.name;
                (Some(name.clone()), Some(self.files.path().join(name)))
            }
        };
        let load = Load {
            connections: subject.connections,
            warm_up_seconds: WARM_UP_SECONDS,
            seconds: self.args.seconds,
            spin: self.place.is_apart(),
            get,
            body,
            ..Load::default()
        };
        let pid = server.pid();
        let mut window = Window::open(Some(pid), self.args.rounds.quiet_wait())?;
        let before = Held::read(pid)?;
        let mut running = load.start(&self.place.load_cpus, server.address())?;
        window.restart()?;
        let report = running.run()?;
        let usage = window.close()?;
        let after = Held::read(pid)?;
        let memory = [&before, &after];
        Ok(Taken {
            figures: row::figures(&report, &usage, memory, subject.connections),
            usage,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Parser, ValueEnum as _};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn without_options_it_is_the_whole_study() {
        let args = Command::parse_from(["drivers"]).args;
        assert_eq!(args.connections, [1, 10, 100, 1_000, 10_000]);
        assert_eq!(
            args.drivers,
            [Driver::Uring, Driver::Epoll, Driver::Threads]
        );
        assert_eq!(args.programs, Program::value_variants());
    }
}
