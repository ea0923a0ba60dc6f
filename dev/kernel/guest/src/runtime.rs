//! Tests of the library's use of the flag.
//!
//! Each round publishes reads of normal fibers with one flush, and writes of urgent fibers with a
//! later one, while the kernel thread that polls the ring has no CPU. So it finds all of them at
//! once, and only the kernel can let the writes overtake.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use uthread::fs::File;
use uthread::priority::Priority;
use uthread::thread::Builder;
use uthread::{Driver, Runtime, yield_now};

use crate::context::{Context, PERMISSION};
use crate::outcome::Outcome;
use crate::scheduling::{self, KeepsCpu};

type Test = fn(&mut Context) -> Outcome;

pub(crate) const TESTS: [(&str, Test); 3] = [
    ("urgent_fibers_overtake", urgent_fibers_overtake),
    ("permission_while_in_use", permission_while_in_use),
    (
        "an_operation_that_fails_with_eperm",
        an_operation_that_fails_with_eperm,
    ),
];

/// Time after which the kernel thread sleeps: less than some rounds take, so that it is found awake
/// and asleep.
const IDLE: Duration = Duration::from_millis(1);

/// Number of random rounds.
const ROUNDS: usize = 100;

/// Maximum number of fibers of a priority in a round.
const FIBERS_MAX: usize = 30;

/// Repeats the random rounds.
const SEED: u64 = 23;

/// Time for which a fiber yields, after which the worker has flushed: operations gather for 50
/// microseconds at most.
const FLUSHED: Duration = Duration::from_millis(1);

/// A runtime with kernel polling, and what its fibers read and write.
struct Rounds {
    runtime: Runtime,
    zero: File,
    null: File,
}

impl Rounds {
    fn new() -> io::Result<Rounds> {
        let builder = Runtime::builder().driver(Driver::Uring).workers(1);
        let runtime = builder.kernel_polling(IDLE).build()?;
        let details = runtime.driver().details();
        if !details.contains("kernel polling for") {
            return Err(io::Error::other(details.to_owned()));
        }
        runtime.run(scheduling::share_a_cpu)?;
        let null = std::fs::File::options().write(true).open("/dev/null")?;
        Ok(Rounds {
            runtime,
            zero: std::fs::File::open("/dev/zero")?.into(),
            null: null.into(),
        })
    }

    /// Returns `true` if the ring uses the flag at first.
    fn uses_flag(&self) -> bool {
        let details = self.runtime.driver().details();
        details.contains("urgent entries overtake")
    }

    /// Publishes reads and then urgent writes, and calls `meanwhile` before the kernel thread can
    /// take any of them. Returns `true` if the kernel has taken all the writes first, and `false`
    /// if it has taken all the reads first.
    fn overtakes(
        &self,
        context: &mut Context,
        [reads, writes]: [usize; 2],
        meanwhile: impl FnOnce() -> io::Result<()> + Send,
    ) -> io::Result<bool> {
        context.operations()?;
        self.runtime.run(|| {
            let _keeps_cpu = KeepsCpu::new()?;
            uthread::scope(|scope| {
                let start = |count, priority, operation: fn(&Rounds) -> io::Result<usize>| {
                    let started = Arc::new(AtomicUsize::new(0));
                    let fibers = (0..count).map(|_| {
                        let builder = Builder::new().priority(priority);
                        let started = Arc::clone(&started);
                        builder.spawn_scoped(scope, move || {
                            started.fetch_add(1, Ordering::Relaxed);
                            operation(self)
                        })
                    });
                    let fibers = fibers.collect::<io::Result<Vec<_>>>()?;
                    while started.load(Ordering::Relaxed) < count {
                        yield_now();
                    }
                    let end = Instant::now() + FLUSHED;
                    while Instant::now() < end {
                        yield_now();
                    }
                    Ok::<_, io::Error>(fibers)
                };
                let normal = start(reads, Priority::Normal, |it| it.zero.read_at(&mut [1], 0))?;
                let urgent = start(writes, Priority::Urgent, |it| it.null.write_at(&[1], 0))?;
                meanwhile()?;
                for fiber in normal.into_iter().chain(urgent) {
                    fiber.join().map_err(|_| io::Error::other("a panic"))??;
                }
                Ok::<(), io::Error>(())
            })
        })?;
        let taken = context.operations()?;
        let taken: Vec<_> = (taken.iter().map(String::as_str))
            .filter(|name| ["READ", "WRITE"].contains(name))
            .collect();
        let [reads, writes] = [vec!["READ"; reads], vec!["WRITE"; writes]];
        match taken {
            _ if taken == [&writes[..], &reads].concat() => Ok(true),
            _ if taken == [reads, writes].concat() => Ok(false),
            _ => Err(io::Error::other(format!("neither order: {taken:?}"))),
        }
    }
}

fn urgent_fibers_overtake(context: &mut Context) -> Outcome {
    let rounds = Rounds::new()?;
    if rounds.uses_flag() != context.has_flag {
        let details = rounds.runtime.driver().details();
        return Err(format!("the runtime reports: {details}").into());
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let (mut operations, mut kept) = ([0; 2], 0);
    for _ in 0..ROUNDS {
        let counts = [(); 2].map(|()| random.usize(1..=FIBERS_MAX));
        kept += usize::from(!rounds.overtakes(context, counts, || Ok(()))?);
        operations = [0, 1].map(|index| operations[index] + counts[index]);
    }
    let [reads, writes] = operations;
    match kept {
        0 => Ok(format!(
            "in each of {ROUNDS} rounds, urgent writes overtook the reads of an earlier flush: {writes} writes, {reads} reads"
        )),
        _ => Err(format!("{kept} of {ROUNDS} rounds in the order of the ring").into()),
    }
}

/// Takes the permission away while entries with the flag are in the queue, and gives it back.
fn permission_while_in_use(context: &mut Context) -> Outcome {
    const COUNTS: [usize; 2] = [8, 8];
    let rounds = Rounds::new()?;
    let before = rounds.overtakes(context, COUNTS, || Ok(()))?;
    let has_flag = context.has_flag;
    let forbid = move || Context::set_if(has_flag, PERMISSION, 0);
    let found = [
        rounds.overtakes(context, COUNTS, forbid)?,
        rounds.overtakes(context, COUNTS, || Ok(()))?,
    ];
    context.set(PERMISSION, 1)?;
    let after = rounds.overtakes(context, COUNTS, || Ok(()))?;
    let anew = Rounds::new()?.overtakes(context, COUNTS, || Ok(()))?;
    match (before, found, after, anew) {
        (true, [false, false], false, true) => Ok(
            "all operations succeed, from the refusal on in the order of the ring; a new ring uses the flag again".to_owned(),
        ),
        found => Err(format!("overtaken: {found:?}").into()),
    }
}

/// Fails an urgent write for another reason, with the error of a refused flag.
fn an_operation_that_fails_with_eperm(context: &mut Context) -> Outcome {
    let rounds = Rounds::new()?;
    let sealed = rustix::fs::memfd_create("sealed", MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::fcntl_add_seals(&sealed, SealFlags::WRITE)?;
    let sealed = File::from(std::fs::File::from(sealed));
    let mut count = 0;
    for _ in 0..ROUNDS {
        let result = rounds.runtime.run(|| {
            let write = || sealed.write_at(&[1], 0);
            let result = uthread::priority::with(Priority::Urgent, write);
            // The ring has tested the flag again when a later request has completed.
            rounds.zero.read_at(&mut [1], 0).and(result)
        });
        let error = result.err().and_then(|error| error.raw_os_error());
        if error != Some(Errno::PERM.raw_os_error()) {
            return Err(format!("it has failed with {error:?}").into());
        }
        count += usize::from(rounds.overtakes(context, [4, 4], || Ok(()))?);
    }
    match count {
        ROUNDS => Ok(format!(
            "{ROUNDS} times EPERM, and the ring continues to use the flag"
        )),
        _ => Err(format!("overtaken after {count} of {ROUNDS} failures").into()),
    }
}
