//! The test harness: each behaviour in each place is a trial, and the results of all trials form a
//! table.

pub(crate) mod child;
mod panics;
pub(crate) mod place;
mod table;
mod trial;
pub(crate) mod turns;

use std::env;
use std::process::ExitCode;
use std::thread;

use libtest_mimic::Arguments;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use place::Place;
use table::Table;

pub(crate) use trial::lacks;

/// A behaviour of the library, which is the same in every place.
pub(crate) struct Behaviour {
    pub(crate) name: &'static str,
    pub(crate) check: fn(Place),
    pub(crate) gaps: &'static [Gap],
}

/// Where a behaviour cannot hold, and why.
pub(crate) struct Gap(pub(crate) fn(Place) -> bool, pub(crate) &'static str);

/// A name and its behaviours.
pub(crate) type Module = (&'static str, &'static [Behaviour]);

pub(crate) const OUTSIDE: Gap = Gap(Place::is_outside, "about fibers");
pub(crate) const INSIDE: Gap = Gap(|place| !place.is_outside(), "about a plain thread");
pub(crate) const THREADS: Gap = Gap(Place::is_of_threads, "about workers, and threads have none");
pub(crate) const ONE_WORKER: Gap = Gap(|place| !place.has_more_workers(), "takes two workers");
pub(crate) const MORE_WORKERS: Gap = Gap(
    Place::has_more_workers,
    "the order of fibers is certain on one worker only",
);
pub(crate) const OWN_TLS: Gap = Gap(
    Place::has_own_tls,
    "the thread of a fiber with thread-local storage of its own is the fiber's",
);
pub(crate) const OWN_THREAD: Gap = Gap(
    Place::has_own_tls,
    "about a fiber that keeps its worker: here that goes on with another thread",
);
pub(crate) const NO_RING: Gap = Gap(|place| !place.is_of_uring(), "takes a ring");

pub(crate) const EVERYWHERE: &[Gap] = &[];
pub(crate) const ON_A_THREAD: &[Gap] = &[INSIDE];
pub(crate) const IN_FIBERS: &[Gap] = &[OUTSIDE];
pub(crate) const ON_WORKERS: &[Gap] = &[OUTSIDE, THREADS];
pub(crate) const ON_ONE_WORKER: &[Gap] = &[OUTSIDE, THREADS, MORE_WORKERS];
pub(crate) const ON_ONE_LEAN_WORKER: &[Gap] = &[OUTSIDE, THREADS, MORE_WORKERS, OWN_THREAD];
pub(crate) const ON_SEVERAL_WORKERS: &[Gap] = &[OUTSIDE, THREADS, ONE_WORKER];

/// The behaviours of a module, by where they hold: `(gaps, [functions])`. The compiler warns of a
/// function that is in no list.
macro_rules! behaviours {
    ($(($gaps:expr, [$($check:ident),* $(,)?])),* $(,)?) => {
        pub(crate) const BEHAVIOURS: &[crate::harness::Behaviour] = &[$($(
            crate::harness::Behaviour { name: stringify!($check), check: $check, gaps: $gaps },
        )*)*];
    };
}
pub(crate) use behaviours;

/// Runs what the arguments of the process select, and prints the table.
pub(crate) fn run(modules: &[Module]) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // There are thousands.
    arguments.quiet = arguments.format.is_none();
    if !child::is_child() {
        panics::keep();
    }
    raise_descriptor_limit();
    let table = Table::new(modules);
    let is_narrowed = arguments.filter.is_some() || arguments.list || child::is_child();
    let is_exhaustive = env::var_os("UTHREAD_EXHAUSTIVE").is_some();
    if !is_narrowed && arguments.test_threads.is_none() {
        // Half of the trials' time is spent waiting.
        arguments.test_threads = thread::available_parallelism()
            .ok()
            .map(|cpus| 2 * cpus.get());
    }
    let in_variants = is_narrowed || is_exhaustive;
    let conclusion = libtest_mimic::run(&arguments, trial::trials(&table, in_variants));
    if !arguments.list && !child::is_child() {
        print!("{table}");
    }
    conclusion.exit_code()
}

/// Raises the limit on descriptors to its maximum: trials beside each other share the process's,
/// and some open hundreds.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}
