//! Measures how cache lines move between two CPUs, and models the scheduler's shared state at up to
//! 256 workers. README.md explains the model.

mod atomic;
mod chart;
mod experiments;
mod library;
mod lines;
mod loads;
mod machine;
mod memory;
mod report;
mod runtime;
mod scheduler;

use std::process::ExitCode;

use chart::Curve;
use experiments::{ALL, Experiment, REMEDIES, Series};
use memory::Costs;

const USAGE: &str = "\
Usage: uthread-cores lines
       uthread-cores model [--load-ns N] [--rmw-ns N] [--owned-rmw-ns N] [--svg FILE]";

/// The costs without options: those that docs/rationale.md shows.
const DEFAULT_COSTS: Costs = Costs {
    load_ns: 38,
    rmw_ns: 38,
    owned_rmw_ns: 5,
};

/// The workloads whose lines the remedies change, by their index.
const REMEDIED: [usize; 4] = [0, 2, 4, 7];

/// The one of them that the chart shows with remedies, too: the channel.
const DRAWN_WITH_REMEDY: usize = 4;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["lines"] => lines(),
        ["model", ref options @ ..] => model(options),
        _ => Err(USAGE.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("uthread-cores: {message}");
            ExitCode::from(2)
        }
    }
}

fn lines() -> Result<(), String> {
    let times = lines::measure().map_err(|error| format!("cannot pin to CPUs 0 and 1: {error}"))?;
    println!("| access | ns |\n| --- | ---: |");
    for (name, time) in [
        (
            "load of a line that the other CPU has written",
            times.load_ns,
        ),
        ("read-modify-write of such a line", times.rmw_ns),
        ("read-modify-write of an owned line", times.owned_rmw_ns),
        (
            "read-modify-write by both CPUs at a time",
            times.contended_ns,
        ),
    ] {
        println!("| {name} | {time:.1} |");
    }
    Ok(())
}

fn model(options: &[&str]) -> Result<(), String> {
    let mut costs = DEFAULT_COSTS;
    let mut svg = None;
    for pair in options.chunks(2) {
        let &[name, value] = pair else {
            return Err(USAGE.into());
        };
        let number = || {
            let number = value.parse().ok().filter(|ns| (1..=1_000_000).contains(ns));
            number.ok_or(format!("{name}: not from 1 to 1000000: {value}"))
        };
        match name {
            "--load-ns" => costs.load_ns = number()?,
            "--rmw-ns" => costs.rmw_ns = number()?,
            "--owned-rmw-ns" => costs.owned_rmw_ns = number()?,
            "--svg" => svg = Some(value),
            _ => return Err(USAGE.into()),
        }
    }
    let all: Vec<(&Experiment, Series)> = ALL
        .iter()
        .map(|experiment| (experiment, experiment.series(costs, REMEDIES[0].1)))
        .collect();
    for (experiment, series) in &all {
        println!("{}", report::table(experiment, series));
    }
    let mut curves: Vec<Curve> = all
        .iter()
        .map(|(experiment, series)| Curve::new(experiment.name.into(), series, false))
        .collect();
    for index in REMEDIED {
        let remedied = REMEDIES.map(|(name, remedy)| (name, ALL[index].series(costs, remedy)));
        println!("{}", report::comparison(&ALL[index], &remedied));
        let [_, _, (_, grouped), _] = &remedied;
        if index == DRAWN_WITH_REMEDY {
            let name = "channel, an Idle per 16 workers".into();
            curves.push(Curve::new(name, grouped, true));
        }
    }
    if let Some(path) = svg {
        let drawing = chart::draw(&curves);
        std::fs::write(path, drawing).map_err(|error| format!("cannot write {path}: {error}"))?;
    }
    Ok(())
}
