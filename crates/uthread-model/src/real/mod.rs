//! Runs a scenario as real programs on loopback: clients, a service on one driver, and its
//! dependencies.
//!
//! Everything that the simulation decides is decided by the same code here: arrivals, latencies,
//! failures and counts. Its policies are decided by `uthread-resilience` here as there, and here also
//! carried out by it. Only the time is real: a request, a response and a call are messages over TCP, a
//! pool has threads, and work takes CPU time.
//!
//! ```text
//!   generator  ==== 8 connections ====>  service  ---- a connection for each call in progress ---->  backend
//!   a fiber for each request             N threads, or a fiber for each request                      a fiber for each connection
//! ```

mod ledger;

mod backend;
mod calls;
mod generator;
mod service;

mod clock;
mod wire;

#[cfg(test)]
mod tests;

use std::net::TcpListener;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use anyhow::{Context, anyhow, ensure};
use uthread::net::TcpStream;
use uthread::{Driver, Runtime};

use self::clock::Clock;
use self::generator::Generator;
use self::ledger::Ledger;
use self::service::Service;
use crate::mode::Mode;
use crate::outcome::{Measured, Outcome};
use crate::scenario::{Dependency, Scenario};

/// Seconds that a run takes at most by default: the simulated time is divided until it does.
const SECONDS_MAX: f64 = 18.0;
/// Connections between clients and service. Requests share them, as with HTTP/2, so one that waits
/// takes no descriptor.
const CONNECTIONS: usize = 8;
/// Open files besides those of calls: the connections above, rings, timers and what the program
/// has.
const FILES_SPARE: u64 = 200;

/// Returns the drivers on which a service of this kind runs.
pub(crate) fn drivers(mode: Mode) -> impl Iterator<Item = Driver> {
    let all = Driver::ALL.iter().copied();
    all.filter(move |driver| match mode {
        Mode::Sync => *driver == Driver::Threads,
        Mode::Async => *driver != Driver::Threads,
    })
}

/// Returns why a driver cannot be used, if so.
pub(crate) fn refusal(driver: Driver) -> Option<String> {
    let error = Runtime::builder().driver(driver).workers(1).build().err()?;
    Some(format!("The driver {driver} is not available: {error}."))
}

/// Returns the least whole number by which a time is divided to be short enough to wait for.
pub(crate) fn default_scale(seconds: f64) -> f64 {
    (seconds / SECONDS_MAX).ceil().max(1.0)
}

/// Runs a scenario on a driver, with all times divided by `scale`. The results are in times of the
/// scenario.
///
/// # Errors
///
/// The scenario has tiers, there are too few open files for what the simulation had in progress, the driver is not
/// available, or a system call fails.
pub(crate) fn measure(
    scenario: &Scenario,
    simulated: &Outcome,
    driver: Driver,
    scale: f64,
) -> anyhow::Result<Outcome> {
    ensure!(
        !scenario
            .dependencies
            .iter()
            .any(|given| given.tier.is_some()),
        "a scenario with tiers has no real runs: all of them would share the CPUs of this program"
    );
    // Both ends of a connection for each call in progress are in this process, and idle ones are
    // kept for each dependency.
    let calls_of = |given: &Dependency| 1 + u64::from(given.hedge.is_some());
    let calls = scenario.dependencies.iter().map(calls_of).sum::<u64>();
    let calls = simulated.in_progress.max * calls;
    uthread_load::raise_open_files(2 * calls + FILES_SPARE)?;
    let helpers = Runtime::builder().workers(1).build()?;
    let runtime = Runtime::builder().driver(driver).build();
    let runtime = runtime.with_context(|| format!("the driver {driver} is not available"))?;
    let ledger = Ledger::new(Clock::new(scale));
    let backend = backend::start(&helpers).context("start the dependencies")?;
    let service = Service::new(scenario, simulated.mode, &ledger, backend)?;
    let (near, far) = connections().context("connect clients and service")?;
    let generator = Generator::new(scenario, &ledger, near)?;
    let (ready, is_ready) = mpsc::channel();
    thread::scope(|scope| {
        let served = scope.spawn(|| runtime.run(|| service.serve(far, ready)));
        let generated = match is_ready.recv() {
            Ok(()) => helpers.run(|| generator.run(scenario)),
            // The service has failed to start.
            Err(_) => Ok(()),
        };
        // Ends the connections.
        drop(generator);
        match served.join() {
            Ok(served) => served.context("serve requests").and(generated),
            Err(_) => Err(anyhow!("the service has panicked")),
        }
    })?;
    let measured = Measured {
        driver: driver.to_string(),
        scale,
    };
    ledger.outcome(scenario, simulated, measured)
}

/// Returns the ends of the clients and those of the service.
fn connections() -> anyhow::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let mut pairs = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let near = std::net::TcpStream::connect(address)?;
        let (far, _) = listener.accept()?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        pairs.0.push(near.into());
        pairs.1.push(far.into());
    }
    Ok(pairs)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
