//! Web services by frameworks of several runtimes: a text, a value as JSON, a page of 20 rows, and a
//! row of a database.

use std::fs;

use anyhow::{Context, Result};
use uthread_report::results::{Panel, Point};
use uthread_report::study::{Cell, Study};

use super::plan;
use super::server_study::{self, AROUND_SECONDS, metrics, metrics_with_memory};
use crate::alone::Measuring;
use crate::cpu_split::CpuSplit;
use crate::files::Files;
use crate::h2load::STREAMS;
use crate::limits;
use crate::load::Load;
use crate::peers::page::{TEXT, page};
use crate::peers::{self, Program};
use crate::servers::Server;
use crate::servers::database::{self, Database};

const PATHS: [&str; 3] = ["text", "json", "page"];
const CONNECTIONS: [u32; 2] = [64, 512];
const WORKERS: [usize; 2] = [1, 2];
const PEERS: [&str; 3] = ["tokio", "go", "actix"];
/// A row of the database.
const ROW: &str = "row/7";
/// Connections of HTTP/2, each with [`STREAMS`].
const CONNECTIONS_OF_HTTP2: u32 = 8;

/// What a panel varies besides its points.
#[derive(Clone, Copy, PartialEq)]
enum Case {
    Pages { workers: usize, connections: u32 },
    Streams,
    Rows,
}

impl Case {
    fn all() -> Vec<Case> {
        let pages = WORKERS.iter().flat_map(|&workers| {
            CONNECTIONS.map(|connections| Case::Pages {
                workers,
                connections,
            })
        });
        pages.chain([Case::Streams, Case::Rows]).collect()
    }

    fn panel(self) -> Panel {
        let paths = || PATHS.map(Point::name).to_vec();
        match self {
            Case::Pages {
                workers,
                connections,
            } => {
                let plural = if workers == 1 { "" } else { "s" };
                let title = format!("{connections} connections, {workers} worker{plural}");
                Panel::new(&title, "", paths(), metrics_with_memory())
            }
            Case::Streams => {
                let title =
                    format!("HTTP/2, {CONNECTIONS_OF_HTTP2} connections with {STREAMS} streams");
                Panel::new(&title, "", paths(), metrics())
            }
            Case::Rows => {
                let points = Point::numbers(&CONNECTIONS);
                Panel::new("a row of PostgreSQL", "connections", points, metrics())
            }
        }
    }

    fn workers(self) -> usize {
        match self {
            Case::Pages { workers, .. } => workers,
            Case::Streams | Case::Rows => 1,
        }
    }

    /// Returns the load of a point: its path and the number of connections.
    fn load(self, point: usize) -> (&'static str, u32) {
        match self {
            Case::Pages { connections, .. } => (PATHS[point], connections),
            Case::Streams => (PATHS[point], CONNECTIONS_OF_HTTP2),
            Case::Rows => (ROW, CONNECTIONS[point]),
        }
    }
}

pub(crate) fn study(measuring: &Measuring) -> Result<Study> {
    let own = peers::own("uthread", &["--driver", "uring"])?;
    let (subjects, programs) = peers::compared(vec![own], &PEERS, measuring);
    let files = Files::create(&[])?;
    write_answers(&files)?;
    let mut notes = vec![CpuSplit::apart_or_shared(1)?.describe(1)];
    let postgres = found("postgres", &mut notes);
    let h2load = found("h2load", &mut notes);
    let cases = Case::all();
    let panels = cases.iter().map(|case| case.panel()).collect();
    let plan = plan("service", notes, subjects, panels);
    let (seconds, quiet_wait) = (measuring.seconds, measuring.quiet_wait());
    let database = postgres
        .map(|_| Database::start(&CpuSplit::apart_or_shared(1)?.load_cpus))
        .transpose()
        .context("start PostgreSQL")?;
    let without_rows = plan.subject("actix");
    let (has_rows, has_streams) = (database.is_some(), h2load.is_some());
    let applicable = cases.clone();
    let measure = move |cell: Cell| {
        let case = cases[cell.panel];
        let (path, connections) = case.load(cell.point);
        limits::check(u64::from(connections), false)?;
        let split = CpuSplit::apart_or_shared(case.workers())?;
        let mut program = programs[cell.subject].clone().context("it is missing")?;
        let workers = case.workers().to_string();
        let mut arguments = vec!["service", "0", &workers];
        if case == Case::Rows {
            let database = database.as_ref().context("there is no database")?;
            arguments.push(database.folder().to_str().context("it is not UTF-8")?);
            if cell.subject == 0 {
                program = peers::own_with_database()?;
            }
        }
        let server = Server::start_peer(&program, &split.server_cpus, &arguments)?;
        let mut load = Load::closed(connections, seconds, split.is_apart()).get(files.path(), path);
        match case {
            Case::Pages { .. } => {}
            Case::Streams => {
                load.h2load = h2load.as_ref().map(|h2load| h2load.path.clone());
                load.spin = false;
            }
            // The database shares its CPUs.
            Case::Rows => load.spin = false,
        }
        let counts = cell.round == 0 && case != Case::Streams;
        let measured = server_study::measure(&server, &split, &load, quiet_wait, counts)?;
        Ok(match case {
            Case::Pages { .. } => measured.taken_with_memory(),
            Case::Streams | Case::Rows => measured.taken(),
        })
    };
    let study = Study::new(plan, seconds as f64 + AROUND_SECONDS, measure);
    Ok(
        study.where_it(move |panel, subject| match applicable[panel] {
            Case::Pages { .. } => true,
            Case::Streams => has_streams,
            Case::Rows => has_rows && Some(subject) != without_rows,
        }),
    )
}

/// Finds an installed program, or says in `notes` what is missing without it.
fn found(name: &str, notes: &mut Vec<String>) -> Option<Program> {
    let (subject, program) = peers::find(name);
    if let Some(missing) = subject.missing {
        notes.push(format!("Not measured without {name}: {missing}."));
    }
    program
}

/// Writes the bodies with which the load compares each answer.
fn write_answers(files: &Files) -> Result<()> {
    let json = format!("{{\"message\":\"{TEXT}\"}}");
    fs::create_dir(files.path().join("row"))?;
    let bodies = [
        ("text", TEXT),
        ("json", &json),
        ("page", &page()),
        (ROW, database::TEXT),
    ];
    for (name, body) in bodies {
        fs::write(files.path().join(name), body).with_context(|| format!("write {name}"))?;
    }
    Ok(())
}
