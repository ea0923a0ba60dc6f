//! One epoch: a runtime is built, does everything at once for some seconds, and is dropped while
//! fibers still run.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use uthread::{JoinHandle, Runtime};

use crate::mode::Mode;
use crate::random::{Choices as _, Random};
use crate::scenarios::{from_outside, keep_going, start_endless};
use crate::stage::{Stage, join_all};

/// Fibers that run one scenario after the other.
const SLOTS: u64 = 24;

/// Fibers of each endless kind.
const ENDLESS_OF_EACH: usize = 2;

/// How long work is started, in milliseconds.
pub(crate) const LENGTH_MS: Range<u64> = 1000..4000;

/// Time for the release of what a fiber held after its runtime was dropped: threads that fibers
/// started check at intervals whether they are still needed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The end of an epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    /// Scenarios finish before the runtime is dropped, so that nothing may be lost.
    Orderly,
    /// The runtime is dropped while they run.
    Cut,
}

/// The results of an epoch.
pub(crate) struct Report {
    pub(crate) ending: Ending,
    pub(crate) stage: Stage,
    pub(crate) steals: u64,
}

/// Runs an epoch. Violations are recorded in the stage; an error means that the epoch could not
/// end.
pub(crate) fn run(
    mode: Mode,
    workers: usize,
    length_ms: Range<u64>,
    mut random: Random,
) -> io::Result<Report> {
    let directory = tempfile::tempdir()?;
    let stage = Arc::new(Stage::new(directory.path().to_owned(), !mode.lean));
    let ending = if random.percent(40) {
        Ending::Cut
    } else {
        Ending::Orderly
    };
    let runtime = mode.runtime(workers).map_err(io::Error::other)?;
    let (slots, endless) = start(&runtime, &stage, &mut random);
    let length = Duration::from_millis(random.u64(length_ms));
    inject(&runtime, &stage, &mut random, length);
    if let Ending::Orderly = ending {
        stage.stop();
        for slot in slots {
            if slot.join().is_err() {
                stage.violation("a fiber panicked or was cancelled before the end");
            }
        }
    }
    let metrics = runtime.metrics().total();
    stage.cut();
    drop_somewhere(runtime, &mut random)?;
    if endless.iter().any(|fiber| !fiber.is_finished()) {
        stage.violation("a fiber outlived its runtime");
    }
    drop(endless);
    let stage = take_back(stage)?;
    compare(&stage);
    Ok(Report {
        ending,
        stage,
        steals: metrics.steals,
    })
}

/// Starts the fibers that run from the beginning.
fn start(
    runtime: &Runtime,
    stage: &Arc<Stage>,
    random: &mut Random,
) -> (Vec<JoinHandle<()>>, Vec<JoinHandle<()>>) {
    let slots = (0..SLOTS)
        .map(|_| {
            let (life, random) = (stage.life(), random.fork());
            let stage = Arc::clone(stage);
            runtime.spawn(move || {
                let _life = life;
                keep_going(&stage, random);
            })
        })
        .collect();
    let endless = runtime.run(|| start_endless(stage, random, ENDLESS_OF_EACH));
    (slots, endless)
}

/// Spawns fibers from outside the runtime for this time.
fn inject(runtime: &Runtime, stage: &Arc<Stage>, random: &mut Random, length: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < length {
        let injected = (0..1 + random.u64(..4)).map(|_| {
            let (life, random, stage) = (stage.life(), random.fork(), Arc::clone(stage));
            runtime.spawn(move || {
                let _life = life;
                from_outside(&stage, random)
            })
        });
        let injected: Vec<_> = injected.collect();
        if let Err(error) = join_all(injected) {
            stage.judge("work from outside", &error);
        }
        thread::sleep(random.pause(2000));
    }
}

/// Drops the runtime on this thread, or in a fiber of another runtime.
fn drop_somewhere(runtime: Runtime, random: &mut Random) -> io::Result<()> {
    if random.percent(25) {
        Runtime::builder().workers(1).build()?.run(|| drop(runtime));
    } else {
        drop(runtime);
    }
    Ok(())
}

/// Waits until nothing else holds the stage: every fiber's closure does.
fn take_back(mut stage: Arc<Stage>) -> io::Result<Stage> {
    let begin = Instant::now();
    loop {
        match Arc::try_unwrap(stage) {
            Ok(stage) => return Ok(stage),
            Err(shared) => stage = shared,
        }
        if begin.elapsed() > PATIENCE {
            let (begun, ended) = (stage.tally.fibers.get(), stage.tally.fibers_ended.get());
            return Err(io::Error::other(format!(
                "{ended} of {begun} fibers have ended, {} hold the stage; {:?}",
                Arc::strong_count(&stage) - 1,
                stage.violations()
            )));
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Checks the values that have to agree at the end.
fn compare(stage: &Stage) {
    let tally = &stage.tally;
    let (begun, ended) = (tally.fibers.get(), tally.fibers_ended.get());
    if begun != ended {
        stage.violation(format_args!("{ended} of {begun} fibers have ended"));
    }
    let (sent, received, lost) = (tally.sent.get(), tally.received.get(), tally.lost.get());
    if sent != received + lost {
        stage.violation(format_args!(
            "{sent} messages sent, {received} received, {lost} lost"
        ));
    }
}
