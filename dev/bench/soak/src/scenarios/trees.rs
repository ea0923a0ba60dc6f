//! Fibers that start fibers: joined, scoped, forked, detached, panicking, and waiting in
//! destructors.

use std::io;
use std::panic::{self, AssertUnwindSafe, panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use uthread::thread::{Cancelled, park};
use uthread::{Runtime, current, scope, sleep, yield_now};

use crate::random::{Choices as _, Random};
use crate::stage::{Stage, broken, expect, join, spawn};

/// The payload of an intended panic.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Planned(pub(crate) u64);

/// Levels of a tree, and children of a node: at most 3^6 fibers, mostly far fewer.
const DEPTH_MAX: u64 = 6;
const CHILDREN_MAX: u64 = 3;

/// Does something short, as a fiber might between two steps.
fn pass_time(random: &mut Random) {
    match random.u64(..8) {
        0..3 => {}
        3..6 => yield_now(),
        6 => sleep(random.pause(300)),
        _ => drop(std::hint::black_box(vec![0_u8; 1 + random.usize(..2000)])),
    }
}

pub(super) fn joined(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let depth = 1 + random.u64(..DEPTH_MAX);
    let nodes = AtomicU64::new(0);
    let nodes = Arc::new(nodes);
    let counted = grow(stage, depth, random, &nodes)?;
    let grown = nodes.load(Ordering::Relaxed);
    expect(
        counted == grown,
        format_args!("{counted} of {grown} joined"),
    )
}

/// Grows a node with its children. Returns the size of the tree.
fn grow(
    stage: &Arc<Stage>,
    depth: u64,
    random: &mut Random,
    nodes: &Arc<AtomicU64>,
) -> io::Result<u64> {
    nodes.fetch_add(1, Ordering::Relaxed);
    let children = if depth == 0 {
        0
    } else {
        random.u64(..CHILDREN_MAX + 1)
    };
    let handles: Vec<_> = (0..children)
        .map(|_| {
            let (mut random, nodes) = (random.fork(), Arc::clone(nodes));
            spawn(stage, move |stage| {
                pass_time(&mut random);
                grow(stage, depth - 1, &mut random, &nodes)
            })
        })
        .collect();
    pass_time(random);
    let below: Vec<_> = handles.into_iter().map(join).collect();
    below
        .into_iter()
        .try_fold(1, |sum, count| Ok(sum + count??))
}

pub(super) fn scoped(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let mut leaves = vec![0; 1 + random.usize(..200)];
    paint(stage, &mut leaves, 1, random);
    let sum: u64 = leaves.iter().sum();
    stage.expect_waited(sum == leaves.len() as u64, format_args!("{leaves:?}"))
}

/// Adds to every number, in ever smaller pieces that borrow from the caller.
fn paint(stage: &Arc<Stage>, leaves: &mut [u64], colour: u64, random: &mut Random) {
    if leaves.len() < 4 {
        leaves.iter_mut().for_each(|leaf| *leaf += colour);
        return pass_time(random);
    }
    let (left, right) = leaves.split_at_mut(leaves.len() / 2);
    let mut theirs = random.fork();
    scope(|scope| {
        let life = stage.life();
        scope.spawn(move || {
            let _life = life;
            paint(stage, left, colour, &mut theirs);
        });
        paint(stage, right, colour, random);
    });
}

pub(super) fn forked(_: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let n = 5 + random.u64(..15);
    let (mut last, mut fib) = (0, 1);
    for _ in 1..n {
        (last, fib) = (fib, last + fib);
    }
    let forked = fork(n, random);
    expect(forked == fib, format_args!("fib({n}) came to {forked}"))
}

fn fork(n: u64, random: &mut Random) -> u64 {
    if n < 2 {
        if random.percent(5) {
            pass_time(random);
        }
        return n;
    }
    let mut theirs = random.fork();
    let (a, b) = uthread::join(|| fork(n - 1, random), || fork(n - 2, &mut theirs));
    a + b
}

pub(super) fn detached(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let count = 1 + random.usize(..50);
    let left = Arc::new(AtomicUsize::new(count));
    for _ in 0..count {
        let (left, waiting, mut random) = (Arc::clone(&left), current(), random.fork());
        drop(spawn(stage, move |_| {
            pass_time(&mut random);
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                waiting.unpark();
            }
        }));
    }
    // A cancellation ends it by unwinding.
    while left.load(Ordering::Acquire) > 0 {
        park();
    }
    Ok(())
}

/// Waits when it is dropped, also during a panic.
struct WaitsInDrop {
    random: Random,
    dropped: Arc<AtomicUsize>,
}

impl Drop for WaitsInDrop {
    fn drop(&mut self) {
        match self.random.u64(..4) {
            0 => sleep(self.random.pause(500)),
            1 => yield_now(),
            2 => drop(uthread::fs::metadata("/")),
            _ => {
                let mut random = self.random.fork();
                drop(uthread::spawn(move || pass_time(&mut random)).join());
            }
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Panics by `panic_any` or by `resume_unwind`.
fn panic_as_planned(stage: &Stage, number: u64) -> ! {
    stage.tally.panics.add(1);
    match number % 2 {
        0 => panic_any(Planned(number)),
        _ => resume_unwind(Box::new(Planned(number))),
    }
}

fn panics_after(stage: &Stage, random: &mut Random, number: u64) {
    pass_time(random);
    panic_as_planned(stage, number);
}

pub(super) fn panics(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let number = random.u64(..);
    let mut theirs = random.fork();
    let handle = spawn(stage, move |stage| panics_after(stage, &mut theirs, number));
    if random.percent(20) {
        // No one joins it.
        return Ok(());
    }
    let payload = handle.join().err().ok_or_else(|| broken("no panic"))?;
    expect_planned(&*payload, number)
}

fn expect_planned(payload: &(dyn std::any::Any + Send), number: u64) -> io::Result<()> {
    if payload.is::<Cancelled>() {
        return Err(rustix::io::Errno::CANCELED.into());
    }
    let planned = payload.downcast_ref() == Some(&Planned(number));
    expect(planned, "another panic than the fiber's")
}

pub(super) fn panics_in_scope(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let number = random.u64(..);
    let mut theirs = random.fork();
    let mut beside = 0;
    let scoped = panic::catch_unwind(AssertUnwindSafe(|| {
        scope(|scope| {
            let lives = [stage.life(), stage.life()];
            let panicking = scope.spawn(move || {
                let _lives = lives;
                panics_after(stage, &mut theirs, number);
            });
            scope.spawn(|| beside = number);
            panicking.join().err()
        })
    }));
    match scoped {
        Ok(Some(payload)) => {
            expect_planned(&*payload, number)?;
            stage.expect_waited(beside == number, "a fiber of the scope did not run")
        }
        Ok(None) => Err(broken("no panic")),
        // Cancelled: the unwinding continues.
        Err(payload) => resume_unwind(payload),
    }
}

pub(super) fn waits_in_destructors(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    let dropped = Arc::new(AtomicUsize::new(0));
    let handles: Vec<_> = (0..1 + random.u64(..6))
        .map(|number| {
            let (mut theirs, dropped) = (random.fork(), Arc::clone(&dropped));
            let unwinds = random.percent(70);
            spawn(stage, move |stage| {
                let _first = WaitsInDrop {
                    random: theirs.fork(),
                    dropped: Arc::clone(&dropped),
                };
                let _second = WaitsInDrop {
                    random: theirs.fork(),
                    dropped,
                };
                if unwinds {
                    panics_after(stage, &mut theirs, number);
                }
            })
        })
        .collect();
    let count = 2 * handles.len();
    for (number, handle) in (0..).zip(handles) {
        if let Err(payload) = handle.join() {
            expect_planned(&*payload, number)?;
        }
    }
    let dropped = dropped.load(Ordering::Relaxed);
    expect(
        dropped == count,
        format_args!("{dropped} of {count} dropped"),
    )
}

/// Runs a runtime inside a fiber. Rare, as it starts threads.
pub(super) fn inner_runtime(stage: &Arc<Stage>, random: &mut Random) -> io::Result<()> {
    if !random.percent(10) {
        return Ok(());
    }
    let inner = Runtime::builder().workers(1 + random.usize(..2)).build()?;
    let life = stage.life();
    let left = inner.spawn(move || {
        let _life = life;
        sleep(Duration::from_secs(3600));
    });
    let n = inner.run(|| fork(10, random));
    drop(inner);
    expect(n == 55, "a wrong sum of an inner runtime")?;
    let cut = left.join().is_err_and(|payload| payload.is::<Cancelled>());
    expect(cut, "a fiber of a dropped runtime ended otherwise")
}
