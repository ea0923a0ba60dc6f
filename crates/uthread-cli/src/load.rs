//! `uthread load`: generates load with the crate `uthread-load`, and prints the report.

use std::io::Write;
use std::{fs, process, thread};

use uthread::signal::{Signal, Signals};
use uthread_load::{Ask, Crowd, Error, Pattern, Plan, Report, Stop, Target};

use crate::args::{LoadArgs, LoadAsk, LoadOptions, LoadTarget};
use crate::exit::Exit;
use crate::output::{print, tell};

pub(crate) fn run(args: &LoadArgs) -> Exit {
    let (target, options) = match &args.target {
        LoadTarget::Tcp {
            address,
            size,
            options,
        } => (Target::tcp(address, size.get()), options),
        LoadTarget::Http { url, ask, options } => (http(url, ask), options),
    };
    match target.and_then(|target| load(&plan(target, options))) {
        Ok(report) => finish(&report, options.json),
        Err(error) => {
            tell(error);
            Exit::CouldNotStart
        }
    }
}

fn http(url: &str, arguments: &LoadAsk) -> Result<Target, Error> {
    let body = match arguments.body.strip_prefix('@') {
        None => arguments.body.clone().into_bytes(),
        Some(path) => {
            let wrong = |error| Error::Usage(format!("cannot read {path}: {error}"));
            fs::read(path).map_err(wrong)?
        }
    };
    Target::http(url)?.asking(Ask {
        method: arguments.method.clone(),
        headers: arguments.headers.clone(),
        body,
        statuses: arguments.status.clone(),
        is_checked: !arguments.no_check,
    })
}

fn plan(target: Target, options: &LoadOptions) -> Plan {
    let depth = options.pipelining;
    let closed = Pattern::Closed { depth };
    Plan {
        connections: options.connections,
        pattern: options
            .rate
            .map_or(closed, |per_second| Pattern::Open { per_second }),
        duration: options.duration,
        warm_up: options.warm_up,
        timeout: options.timeout,
        workers: options.workers,
        spin: options.spin,
        driver: options.driver,
        ..Plan::new(target)
    }
}

fn load(plan: &Plan) -> Result<Report, Error> {
    let stop = Stop::new();
    let signals = Signals::new([Signal::INT, Signal::TERM]).map_err(Error::Start)?;
    let stopped = stop.clone();
    thread::spawn(move || end_on(signals, &stopped));
    Crowd::connect_with(plan, &stop)?.run()
}

/// Stops the load at the first signal, which still prints the report; exits at the second.
fn end_on(mut signals: Signals, stop: &Stop) {
    while signals.recv().is_ok() {
        if stop.is_stopped() {
            process::exit(Exit::FailedRunning as i32);
        }
        stop.stop();
    }
}

fn finish(report: &Report, json: bool) -> Exit {
    let printed = print(|out| {
        if json {
            serde_json::to_writer_pretty(&mut *out, report)?;
            writeln!(out)
        } else {
            write!(out, "{report}")
        }
    });
    // Connections that received one response before the load, and none during it, measured nothing.
    match printed {
        Exit::Done if report.answered == 0 => Exit::FailedRunning,
        exit => exit,
    }
}
