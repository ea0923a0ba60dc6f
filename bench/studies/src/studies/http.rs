//! Static files and a fixed response over HTTP, on connections that stay open, closed loop: how many, at what cost, how
//! late?

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Error, Result};
use uthread::Driver;

use super::contest::{self, AROUND_SECONDS, metrics};
use crate::files::{Files, Size};
use crate::limits;
use crate::load::Load;
use crate::measure::rounds::Taken;
use crate::peers::{self, Program};
use crate::place::Place;
use crate::results::{self, Panel, Point, Subject};
use crate::servers::nginx::FIXED;
use crate::servers::{self, CONNECTIONS_SPARE, Launch, Peer, Server, static_web_server};
use crate::setup::find_uthread;
use crate::study::{Alone, Cell, Measuring, Study};

const SIZES: [&str; 3] = ["1 KiB", "16 KiB", "1 MiB"];
const CONNECTIONS: [u32; 5] = [1, 10, 100, 1_000, 5_000];
const WORKERS: [usize; 2] = [1, 2];
/// Where it is not the connections that differ.
const CONNECTIONS_ELSE: u32 = 64;

/// Ours: a name, the driver, and the program for the fixed response.
const OURS: [(&str, Driver, &[&str]); 3] = [
    ("uthread", Driver::Uring, &["own", "--driver", "uring"]),
    (
        "uthread epoll",
        Driver::Epoll,
        &["own", "--driver", "epoll"],
    ),
    (
        "uthread threads",
        Driver::Threads,
        &["own", "--driver", "threads"],
    ),
];
const PEERS: [&str; 2] = ["nginx", "static-web-server"];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    alone: Alone,
    /// The program `uthread` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let measuring = &args.alone.measuring;
    let study = Http::new(measuring, find_uthread(args.server.as_deref())?)?;
    args.alone.run(Box::new(study))
}

pub(crate) fn study(measuring: &Measuring) -> Result<Box<dyn Study>> {
    Ok(Box::new(Http::new(measuring, find_uthread(None)?)?))
}

struct Http {
    subjects: Vec<Who>,
    /// For each panel and point.
    cases: Vec<Vec<Case>>,
    files: Files,
    measuring: Measuring,
    plan: results::Study,
}

enum Who {
    Ours {
        serve: PathBuf,
        fixed: Program,
        driver: Driver,
    },
    Nginx(PathBuf),
    StaticWebServer(PathBuf),
    Missing,
}

/// What is asked of each server.
struct Case {
    /// `None`: the fixed response.
    size: Option<Size>,
    connections: u32,
    workers: usize,
    place: Place,
}

impl Http {
    fn new(measuring: &Measuring, uthread: PathBuf) -> Result<Http> {
        let sizes: Vec<Size> = SIZES.iter().map(|name| size(name)).collect::<Result<_>>()?;
        let mut named = Vec::new();
        let mut subjects = Vec::new();
        for (name, driver, own) in OURS {
            named.push(Subject::ours(name));
            subjects.push(Who::Ours {
                serve: uthread.clone(),
                fixed: peers::own("fixed", own)?,
                driver,
            });
        }
        for (subject, program) in peers::asked(&PEERS, measuring) {
            subjects.push(match (program, subject.name.as_str()) {
                (None, _) => Who::Missing,
                (Some(program), "nginx") => Who::Nginx(program.path),
                (Some(program), _) => Who::StaticWebServer(program.path),
            });
            named.push(subject);
        }
        let (panels, cases) = panels(&sizes)?;
        let files = Files::create(&sizes)?;
        // For the load, which reads there what is to be answered.
        fs::write(files.path().join(FIXED.0), FIXED.1).context("write the fixed response")?;
        let notes = vec![
            Place::apart_or_shared(1)?.describe(1),
            "Every answer is compared with the file. The files are in the page cache.".to_owned(),
            "nginx has sendfile and tcp_nopush on and its log off; static-web-server has its log and compression off, uthread \
             its log. The fixed response is nginx's `return 200`, and for uthread a program of 60 lines around httparse."
                .to_owned(),
        ];
        Ok(Http {
            subjects,
            cases,
            files,
            measuring: measuring.clone(),
            plan: results::Study {
                name: "http".to_owned(),
                title: "HTTP: files and a fixed response".to_owned(),
                question: "Each connection asks for the same file again and again, and for a response that is no file. What \
                    does a request cost, and how late is it answered?"
                    .to_owned(),
                facts: Vec::new(),
                notes,
                subjects: named,
                panels,
            },
        })
    }

    fn start(&self, who: &Who, case: &Case) -> Result<Server> {
        let launch = |program| Launch {
            program,
            root: self.files.path(),
            workers: case.workers,
            cpus: &case.place.server_cpus,
            connections_max: (case.connections + CONNECTIONS_SPARE) as usize,
        };
        match who {
            Who::Ours { fixed, .. } if case.size.is_none() => {
                let workers = case.workers.to_string();
                Server::start_peer(fixed, &case.place.server_cpus, &["fixed", "0", &workers])
            }
            Who::Ours { serve, driver, .. } => {
                Ok(servers::start_heard(servers::serve_command(&launch(serve), *driver))?.server)
            }
            Who::Nginx(program) => Server::start(Peer::Nginx, &launch(program)),
            Who::StaticWebServer(program) => static_web_server::start(&launch(program)),
            Who::Missing => unreachable!("the runner leaves it out"),
        }
    }
}

/// `1 KiB`; its file has the name without the space.
fn size(name: &str) -> Result<Size> {
    name.replace(' ', "").parse().map_err(Error::msg)
}

fn panels(sizes: &[Size]) -> Result<(Vec<Panel>, Vec<Vec<Case>>)> {
    let case = |size: Option<&Size>, connections, workers| -> Result<Case> {
        Ok(Case {
            size: size.cloned(),
            connections,
            workers,
            place: Place::apart_or_shared(workers)?,
        })
    };
    let small = &sizes[0];
    let numbers = |numbers: &[u32]| {
        numbers
            .iter()
            .map(|&number| Point::number(f64::from(number)))
            .collect()
    };
    let workers = WORKERS.map(|workers| Point::number(workers as f64));
    let with_connections = |size: Option<&Size>| -> Result<Vec<Case>> {
        CONNECTIONS
            .iter()
            .map(|&connections| case(size, connections, 1))
            .collect()
    };
    let by_size = sizes
        .iter()
        .map(|size| case(Some(size), CONNECTIONS_ELSE, 1));
    let by_workers = WORKERS
        .iter()
        .map(|&workers| case(Some(small), CONNECTIONS_ELSE, workers));
    let panels = vec![
        Panel::new(
            &format!("files by size, {CONNECTIONS_ELSE} connections"),
            "",
            SIZES.iter().map(|size| Point::name(size)).collect(),
            metrics(),
        ),
        Panel::new(
            "1 KiB by connections",
            "connections",
            numbers(&CONNECTIONS),
            metrics(),
        ),
        Panel::new(
            &format!("1 KiB by workers, {CONNECTIONS_ELSE} connections"),
            "workers",
            workers.to_vec(),
            metrics(),
        ),
        Panel::new(
            "a fixed response by connections",
            "connections",
            numbers(&CONNECTIONS),
            metrics(),
        ),
    ];
    let cases = vec![
        by_size.collect::<Result<_>>()?,
        with_connections(Some(small))?,
        by_workers.collect::<Result<_>>()?,
        with_connections(None)?,
    ];
    Ok((panels, cases))
}

impl Study for Http {
    fn plan(&self) -> &results::Study {
        &self.plan
    }

    fn measure(&mut self, cell: Cell) -> Result<Taken> {
        let case = &self.cases[cell.panel][cell.point];
        let who = &self.subjects[cell.subject];
        let has_threads = matches!(
            who,
            Who::Ours {
                driver: Driver::Threads,
                ..
            }
        );
        limits::check(u64::from(case.connections), has_threads)?;
        let server = self.start(who, case).context("start")?;
        let name = case.size.as_ref().map_or(FIXED.0, |size| &size.name);
        let load = Load::closed(self.measuring.seconds, case.place.is_apart());
        let load = load
            .with_connections(case.connections)
            .get(name, &self.files.path().join(name));
        contest::measure(
            &server,
            &case.place,
            &load,
            self.measuring.quiet_wait(),
            cell.round == 0,
        )
    }

    fn seconds_each(&self) -> f64 {
        self.measuring.seconds as f64 + AROUND_SECONDS
    }

    /// Static-web-server has no response that is no file.
    fn applies(&self, panel: usize, subject: usize) -> bool {
        let is_fixed = self.cases[panel].iter().any(|case| case.size.is_none());
        !is_fixed || !matches!(self.subjects[subject], Who::StaticWebServer(_))
    }
}
