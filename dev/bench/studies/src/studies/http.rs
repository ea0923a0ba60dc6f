//! HTTP: static files and a fixed response on connections that stay open, as a closed loop.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use uthread::Driver;
use uthread_report::results::{Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use super::plan;
use super::server_study::{self, AROUND_SECONDS, metrics};
use crate::alone::{Alone, Measuring};
use crate::cpu_split::CpuSplit;
use crate::files::{Files, LARGE, MIDDLE, SMALL, Size};
use crate::load::Load;
use crate::peers;
use crate::servers::http::{FIXED, HttpServer, Launch};
use crate::setup::find_uthread;

const SIZES: [Size; 3] = [SMALL, MIDDLE, LARGE];
const SIZE_NAMES: [&str; 3] = ["1 KiB", "16 KiB", "1 MiB"];
const CONNECTIONS: [u32; 5] = [1, 10, 100, 1_000, 5_000];
const WORKERS: [usize; 2] = [1, 2];
/// Connections where something else varies.
const CONNECTIONS_ELSE: u32 = 64;

/// Our subjects: a name, the driver, and the program for the fixed response.
const OURS: [(&str, Driver, &[&str]); 3] = [
    ("uthread", Driver::Uring, &["--driver", "uring"]),
    ("uthread epoll", Driver::Epoll, &["--driver", "epoll"]),
    ("uthread threads", Driver::Threads, &["--driver", "threads"]),
];
const PEERS: [&str; 4] = ["nginx", "apache2", "node", "static-web-server"];
/// Peers that have no response without a file.
const WITHOUT_FIXED: [&str; 2] = ["apache2", "static-web-server"];

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) alone: Alone,
    /// The program `uthread` [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) server: Option<PathBuf>,
}

/// One measurement, by what varies.
struct Case {
    /// `None`: the fixed response.
    file: Option<&'static str>,
    connections: u32,
    workers: usize,
}

pub(crate) fn study(measuring: &Measuring, uthread: Option<&Path>) -> Result<Study> {
    let uthread = find_uthread(uthread)?;
    let (mut subjects, mut servers) = (Vec::new(), Vec::new());
    for (name, driver, own) in OURS {
        subjects.push(Subject::ours(name));
        servers.push(Some(HttpServer::Uthread {
            serve: uthread.clone(),
            driver: Some(driver),
            fixed: peers::own("fixed", own)?,
        }));
    }
    let (peers, programs) = peers::compared(Vec::new(), &PEERS, measuring);
    subjects.extend(peers);
    servers.extend(programs.into_iter().map(|program| {
        let program = program?;
        Some(match &*program.name {
            "nginx" => HttpServer::Nginx(program.path),
            "apache2" => HttpServer::Apache(program.path),
            "node" => HttpServer::Node(program.path),
            _ => HttpServer::StaticWebServer(program.path),
        })
    }));
    let files = Files::create(&SIZES)?;
    // The load reads the expected response from there.
    fs::write(files.path().join(FIXED.0), FIXED.1).context("write the fixed response")?;
    let notes = vec![CpuSplit::apart_or_shared(1)?.describe(1)];
    let (panels, cases): (Vec<Panel>, Vec<Vec<Case>>) = panels().into_iter().unzip();
    let plan = plan("http", notes, subjects, panels);
    let fixed_panel = cases.len() - 1;
    let without_fixed = WITHOUT_FIXED.map(|name| plan.subject(name));
    let (seconds, quiet_wait) = (measuring.seconds, measuring.quiet_wait());
    let measure = move |cell: Cell| {
        let Case {
            file,
            connections,
            workers,
        } = &cases[cell.panel][cell.point];
        let split = CpuSplit::apart_or_shared(*workers)?;
        let launch = Launch {
            root: files.path(),
            workers: *workers,
            split: &split,
            connections: *connections,
        };
        let server = servers[cell.subject].as_ref().context("it is missing")?;
        let (server, name) = match file {
            Some(name) => (server.start(&launch)?, *name),
            None => (server.start_fixed(&launch)?, FIXED.0),
        };
        let load = Load::closed(*connections, seconds, split.is_apart()).get(files.path(), name);
        let measured = server_study::measure(&server, &split, &load, quiet_wait, cell.round == 0)?;
        Ok(measured.taken())
    };
    let study = Study::new(plan, seconds as f64 + AROUND_SECONDS, measure);
    Ok(study.where_it(move |panel, subject| {
        panel != fixed_panel || !without_fixed.contains(&Some(subject))
    }))
}

/// Returns the panels with the cases of their points; the last is the fixed response.
fn panels() -> Vec<(Panel, Vec<Case>)> {
    let case = |file, connections, workers| Case {
        file,
        connections,
        workers,
    };
    let small = Some(SMALL.0);
    let panel = |title: &str, axis, points| Panel::new(title, axis, points, metrics());
    let by_size = format!("files by size, {CONNECTIONS_ELSE} connections");
    let by_workers = format!("1 KiB by workers, {CONNECTIONS_ELSE} connections");
    let numbers = || Point::numbers(&CONNECTIONS);
    let workers = Point::numbers(&WORKERS.map(|workers| workers as u32));
    let of_connections = |file| CONNECTIONS.map(|count| case(file, count, 1)).into();
    vec![
        (
            panel(&by_size, "", SIZE_NAMES.map(Point::name).to_vec()),
            SIZES
                .map(|(name, _)| case(Some(name), CONNECTIONS_ELSE, 1))
                .into(),
        ),
        (
            panel("1 KiB by connections", "connections", numbers()),
            of_connections(small),
        ),
        (
            panel(&by_workers, "workers", workers),
            WORKERS
                .map(|count| case(small, CONNECTIONS_ELSE, count))
                .into(),
        ),
        (
            panel("a fixed response by connections", "connections", numbers()),
            of_connections(None),
        ),
    ]
}
