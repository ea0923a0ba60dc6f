//! A simulation of several workers on one thread, under a seed that chooses which worker runs next,
//! how long an operation takes, and its result. The clock is virtual: it advances only while all
//! workers sleep, or a fiber computes.
//!
//! Start reading here: this is the scheduler without a kernel. `programs.rs`, `operations.rs`,
//! `channels.rs`, `selections.rs`, `locks.rs`, `priorities.rs` and `active_workers.rs` check
//! properties that hold whatever the seed chooses. To try more seeds than usual, or to repeat one:
//!
//! ```sh
//! UTHREAD_SEEDS=10000 cargo test --release -p uthread simulation
//! UTHREAD_SEED=17 cargo test -p uthread simulation
//! ```

mod multishot;
mod operations;
mod panics;
mod programs;
mod stack_trimming;

mod active_workers;
mod cancellation;
mod channels;
mod locks;
mod priorities;
mod readiness;
mod runtime_ends;
mod selections;
mod shared_fibers;
mod spread_fibers;
mod started_requests;

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, Location};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{env, mem};

use crate::driver::sim::{Sim, WaitView, World};
use crate::fiber::{Fiber, Identity};
use crate::pool;
use crate::runtime::Metrics;
use crate::sched::fast_rand;
use crate::sched::shared::{Mail, Settings, SharePolicy, Shared};
use crate::sched::worker::{Tick, Worker, current};
use crate::stack::sizes::STACK_SIZE_MIN;
use crate::thread::JoinHandle;

/// Seeds of each program in an ordinary test run: some tenths of a second. `cargo xtask ci` runs
/// three times as many.
const SEEDS: u64 = 100;

/// One of so many turns changes the number of active workers.
const RESIZE_TURNS: u64 = 30;

/// Turns after which a simulation that should have ended does not.
const TURNS_MAX: u64 = 1_000_000;

/// Runs a program under many seeds, or under the one asked for, and names the seed
/// that fails.
fn under_seeds(program: impl Fn(u64)) {
    let number = |name| env::var(name).ok().map(|text| text.parse().expect(name));
    let seeds = match number("UTHREAD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("UTHREAD_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| program(seed))) {
            eprintln!("it was seed {seed}: UTHREAD_SEED={seed} runs it again");
            panic::resume_unwind(payload);
        }
    }
}

thread_local! {
    /// The world of this thread's simulation, for its fibers.
    static WORLD: RefCell<Option<Rc<RefCell<World>>>> = const { RefCell::new(None) };
}

/// Occupies the worker for this time.
#[inline(never)]
fn compute(duration: Duration) {
    WORLD.with_borrow(|world| {
        let mut world = world.as_ref().expect("in a simulation").borrow_mut();
        let now = world.clock();
        world.advance_to(now + duration);
    });
}

struct Simulation {
    world: Rc<RefCell<World>>,
    shared: Arc<Shared>,
    workers: Vec<SimulatedWorker>,
    /// `true` if the number of active workers changes now and then.
    resizes: bool,
}

struct SimulatedWorker {
    worker: Worker,
    watch: WaitView,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Awake,
    /// Asleep until this time at the latest.
    Asleep(Option<Duration>),
    Ended,
}

impl Simulation {
    /// Creates workers that share started fibers by half of the seeds, and whose number changes by a
    /// third of them.
    fn new(seed: u64, workers: usize) -> Simulation {
        let sharing = if seed.is_multiple_of(2) {
            SharePolicy::IfLong
        } else {
            SharePolicy::AtRandom
        };
        let mut simulation = Simulation::with_sharing(seed, workers, sharing);
        simulation.resizes = seed % 3 == 2;
        simulation
    }

    /// Creates workers that share started fibers like this: all workers are on one thread.
    fn with_sharing(seed: u64, workers: usize, sharing: SharePolicy) -> Simulation {
        let world = Rc::new(RefCell::new(World::new(seed)));
        WORLD.set(Some(Rc::clone(&world)));
        fast_rand::reseed();
        let (shared, queues) = Shared::new(Settings {
            workers,
            active: workers,
            stack_size: STACK_SIZE_MIN,
            own_tls: false,
            sharing,
            calls: pool::Config::default(),
            context: None,
            clock: None,
        });
        let shared = Arc::new(shared);
        let simulated = |(index, queues)| {
            let driver = Box::new(Sim::new(Rc::clone(&world)));
            let watch = driver.wait_view();
            let shared = Arc::clone(&shared);
            SimulatedWorker {
                worker: Worker::new(index, shared, queues, driver).expect("no kernel"),
                watch,
                phase: Phase::Awake,
            }
        };
        let workers = queues.into_iter().enumerate().map(simulated).collect();
        Simulation {
            world,
            shared,
            workers,
            resizes: false,
        }
    }

    fn metrics(&self) -> Metrics {
        Metrics::new(&mut self.shared.readings(), self.shared.injected(), None)
    }

    fn world(&self) -> &Rc<RefCell<World>> {
        &self.world
    }

    /// Queues a fiber from outside the workers.
    #[track_caller]
    fn spawn<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let identity = Identity::anonymous(Location::caller());
        let (fiber, joinable) = Fiber::owning(identity, f);
        self.shared.inject(fiber);
        JoinHandle::new(joinable)
    }

    /// Runs the workers until `f` has ended, then shuts down; its value.
    fn run<T: Send + 'static>(mut self, f: impl FnOnce() -> T + Send + 'static) -> T {
        let main = self.spawn(f);
        self.step_until(|_| main.is_finished());
        // The main fiber has joined the fibers that it spawned.
        for simulated in &self.workers {
            simulated.assert_nothing_waits();
            assert!(
                simulated.watch.has_settled_cancellations(),
                "a cancellation is left"
            );
        }
        self.shut_down();
        main.join()
            .unwrap_or_else(|payload| panic::resume_unwind(payload))
    }

    /// Cancels one of five fibers after another while they run, and ends the runtime at some moment.
    /// Checks that all fibers have ended then, and that nothing is left.
    fn end_at_any_moment<T>(&mut self, fibers: &[JoinHandle<T>]) {
        let turns = self.world().borrow_mut().below(200);
        for turn in 0..turns {
            self.try_step();
            if turn % 40 == 20 {
                fibers[turn as usize / 40].cancel();
            }
        }
        self.shut_down();
        assert!(fibers.iter().all(JoinHandle::is_finished));
        for simulated in &self.workers {
            simulated.assert_nothing_waits();
        }
    }

    fn shut_down(&mut self) {
        self.shared.shut_down();
        self.step_until(|workers| {
            workers
                .iter()
                .all(|simulated| simulated.phase == Phase::Ended)
        });
    }

    fn step_until(&mut self, done: impl Fn(&[SimulatedWorker]) -> bool) {
        for _ in 0..TURNS_MAX {
            if done(&self.workers) {
                return;
            }
            self.step();
        }
        panic!("no end after {TURNS_MAX} turns");
    }

    /// Returns the time at which the next worker can run, if one can.
    fn next_at(&self) -> Option<Duration> {
        let clock = self.world.borrow().clock();
        self.workers
            .iter()
            .filter_map(|simulated| simulated.runs_at(clock))
            .min()
    }

    /// Returns `true` if a worker has work that it need not wait for.
    fn is_busy(&self) -> bool {
        self.next_at() == Some(self.world.borrow().clock())
    }

    /// Changes the number of active workers now and then.
    fn resize(&self) {
        let mut world = self.world.borrow_mut();
        if self.resizes && world.below(RESIZE_TURNS) == 0 {
            let count = 1 + world.below(self.workers.len() as u64);
            drop(world);
            self.shared.set_active_workers(count as usize);
        }
    }

    /// Asks a random worker to trim the stacks of its fibers.
    fn trim_some(&self) {
        let worker = self.world.borrow_mut().below(self.workers.len() as u64);
        self.shared.remote(worker as usize).mail(Mail::Trim(0));
    }

    /// Lets workers take a random number of turns, less than `max`, as long as one can run.
    fn step_some(&mut self, max: u64) {
        let turns = self.world.borrow_mut().below(max);
        for _ in 0..turns {
            self.try_step();
        }
    }

    /// Lets one worker take one turn, if one can run.
    fn try_step(&mut self) {
        if self.next_at().is_some() {
            self.step();
        }
    }

    /// Lets one worker take one turn, or wake up. With all of them asleep, time passes first.
    fn step(&mut self) {
        let Some(next) = self.next_at() else {
            panic!("every worker sleeps forever: a wake-up was lost");
        };
        let mut world = self.world.borrow_mut();
        let clock = world.clock();
        world.advance_to(next.max(clock));
        let clock = world.clock();
        let able =
            |simulated: &SimulatedWorker| simulated.runs_at(clock).is_some_and(|at| at <= clock);
        let able: Vec<_> = (0..self.workers.len())
            .filter(|&index| able(&self.workers[index]))
            .collect();
        let chosen = able[world.below(able.len() as u64) as usize];
        drop(world);
        self.resize();
        self.workers[chosen].step(clock);
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Suspended fibers would unwind through assertions that no longer hold.
            mem::take(&mut self.workers)
                .into_iter()
                .for_each(mem::forget);
        }
    }
}

impl SimulatedWorker {
    /// Returns the time at which the worker can run, if it can.
    fn runs_at(&self, clock: Duration) -> Option<Duration> {
        match self.phase {
            Phase::Awake => Some(clock),
            Phase::Asleep(until) => [until, self.watch.ends_at(clock)]
                .into_iter()
                .flatten()
                .min(),
            Phase::Ended => None,
        }
    }

    fn assert_nothing_waits(&self) {
        self.worker.assert_nothing_waits(self.phase == Phase::Ended);
    }

    fn step(&mut self, clock: Duration) {
        let worker = &self.worker;
        let asleep = self.phase != Phase::Awake;
        let mut phase = Phase::Awake;
        current::enter(worker, || {
            if asleep {
                worker.wait(Some(Duration::ZERO));
                worker.wake_up();
                return;
            }
            phase = match worker.tick() {
                Tick::Again => Phase::Awake,
                Tick::Sleep(timeout) => Phase::Asleep(timeout.map(|timeout| clock + timeout)),
                Tick::End => Phase::Ended,
                Tick::Alone(_) => unreachable!("no worker is taken"),
            };
        });
        if phase == Phase::Ended {
            worker.leave();
        }
        self.phase = phase;
    }
}
