//! Watches the workers and the fibers of a process while it runs: it is not stopped, and does nothing
//! for it.
//!
//! What is read may change meanwhile. The table of workers has a number of changes by which a reader
//! sees that all workers were alive. A list of fibers is read again if it has moved. A control block
//! counts only if each field makes sense: one of a fiber that has ended has no stack, and memory
//! that has become something else names no place in a mapped file.

mod shares;
mod started;

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use self::shares::{Keepers, Shares};
use self::started::Fiber;
use crate::looks::{Seen, look};
use crate::model::State;
use crate::opened::open;
use crate::process::Running;
use crate::roots::{self, Found};
use crate::sample::{Counts, Sample, Site, States, Worker};
use crate::sites::Sites;
use crate::stat::{self, Stat};

/// Number of times that something is read again that was being changed.
const ATTEMPTS: u32 = 20;

/// The pause between two of these: a change takes less than a microsecond.
const PAUSE: Duration = Duration::from_millis(1);

/// A process that is watched while it runs.
///
/// ```no_run
/// use std::time::Duration;
///
/// # fn main() -> anyhow::Result<()> {
/// let mut watch = uthread_dump::Watch::open(4711)?;
/// for _ in 0..200 {
///     watch.look()?;
///     std::thread::sleep(Duration::from_millis(5));
/// }
/// let sample = watch.sample()?;
/// for site in &sample.sites {
///     println!("{} fibers of {}", site.fibers.sum(), site.spawned_at);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Watch {
    memory: Running,
    roots: Vec<Found>,
    sites: Sites,
    shares: Shares,
    keepers: Keepers,
    earlier: Earlier,
}

/// The state at the sample before.
struct Earlier {
    at: Instant,
    stat: Stat,
    counts: HashMap<roots::Worker, Counts<u64>>,
}

/// Fibers by the address of the place where they were spawned.
type BySite = HashMap<u64, Group>;

/// Fibers of a place.
#[derive(Debug, Default, Clone, Copy)]
struct Group {
    fibers: States,
    longest_wait: Option<Duration>,
}

impl Watch {
    /// Begins to watch a process.
    ///
    /// # Errors
    ///
    /// There is no such process; its memory may not be read, by `process_vm_readv(2)`; it does not
    /// use the library, or another version of it.
    pub fn open(pid: i32) -> Result<Watch> {
        let opened = open(pid)?;
        let mut watch = Watch {
            memory: opened.memory,
            roots: opened.roots,
            sites: opened.sites,
            shares: Shares::default(),
            keepers: Keepers::default(),
            earlier: Earlier {
                at: Instant::now(),
                stat: stat::read(pid).with_context(|| ended(pid))?,
                counts: HashMap::new(),
            },
        };
        let counts = watch.look_surely()?.into_iter();
        watch.earlier.counts = counts.map(|seen| (seen.worker, seen.counts)).collect();
        Ok(watch)
    }

    /// Looks at what each worker runs right now, and which fibers run without one. The more looks between two samples, some hundred a
    /// second, the better the shares of time that the next sample has.
    ///
    /// # Errors
    ///
    /// The process has ended.
    pub fn look(&mut self) -> Result<()> {
        match look(self.memory, &self.roots) {
            Ok(seen) => self.add(&seen),
            Err(_) => {
                self.check_alive()?;
            }
        }
        Ok(())
    }

    /// Counts the fibers, and what the workers have done since the sample before.
    ///
    /// # Errors
    ///
    /// The process has ended, or its memory makes no sense.
    pub fn sample(&mut self) -> Result<Sample> {
        let workers = self.look_surely()?;
        self.add(&workers);
        let shares = std::mem::take(&mut self.shares);
        let now = Instant::now();
        let stat = self.check_alive()?;
        let seconds = (now - self.earlier.at).as_secs_f64();
        let mut sample = Sample {
            pid: self.memory.0,
            seconds,
            cpus: (stat.cpu_seconds - self.earlier.stat.cpu_seconds).max(0.0) / seconds.max(1e-9),
            looks: shares.looks,
            workers: Vec::new(),
            fibers: States::default(),
            sites: Vec::new(),
            dropped: 0,
            problems: Vec::new(),
        };
        let mut runtimes = Vec::new();
        let mut by_site = BySite::new();
        for seen in &workers {
            let fibers = self.count_fibers(seen, &mut by_site, &mut sample);
            sample.fibers.add(fibers);
            let worker = self.worker(seen, fibers, &shares, seconds, &mut runtimes);
            sample.workers.push(worker);
        }
        sample
            .workers
            .sort_by_key(|worker| (worker.runtime, worker.index));
        sample.sites = self.merge(by_site, &shares);
        let counts = workers.iter().map(|seen| (seen.worker, seen.counts));
        self.earlier = Earlier {
            at: now,
            stat,
            counts: counts.collect(),
        };
        Ok(sample)
    }

    /// Adds a look at the workers to the shares, and one at the fibers that run without them.
    fn add(&mut self, workers: &[Seen]) {
        let keepers = self.keepers.look(self.memory, &self.roots, workers);
        self.shares.add(workers, &keepers);
    }

    /// Looks at the workers, again if one starts or ends meanwhile.
    fn look_surely(&self) -> Result<Vec<Seen>> {
        let mut result = look(self.memory, &self.roots);
        for _ in 1..ATTEMPTS {
            if result.is_ok() {
                break;
            }
            self.check_alive()?;
            thread::sleep(PAUSE);
            result = look(self.memory, &self.roots);
        }
        result
    }

    fn check_alive(&self) -> Result<Stat> {
        match stat::read(self.memory.0) {
            Some(stat) if stat.started == self.earlier.stat.started => Ok(stat),
            _ => bail!(ended(self.memory.0)),
        }
    }

    fn worker(
        &mut self,
        seen: &Seen,
        fibers: States,
        shares: &Shares,
        seconds: f64,
        runtimes: &mut Vec<u64>,
    ) -> Worker {
        let known = runtimes
            .iter()
            .position(|runtime| *runtime == seen.worker.runtime);
        let runtime = known.unwrap_or_else(|| {
            runtimes.push(seen.worker.runtime);
            runtimes.len() - 1
        });
        let share = shares.workers.get(&seen.worker).copied();
        let share = share.unwrap_or_default();
        let part = |count: u32| f64::from(count) / f64::from(share.all.max(1));
        let earlier = self.earlier.counts.get(&seen.worker).copied();
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let site = seen.running.map(|_| seen.spawn_site);
        Worker {
            runtime,
            index: seen.worker.index,
            activity: seen.activity,
            running: seen.running,
            spawned_at: site
                .and_then(|address| self.sites.get(&self.memory, address).map(str::to_owned)),
            busy: part(share.busy),
            idle: part(share.idle),
            fibers,
            total: seen.counts,
            per_second: seen.counts.zip(earlier.unwrap_or_default(), per_second),
        }
    }

    /// Counts the fibers of a worker, in all and by place.
    fn count_fibers(&mut self, seen: &Seen, by_site: &mut BySite, sample: &mut Sample) -> States {
        let mut states = States::default();
        let Some(addresses) = started::addresses(self.memory, seen.worker) else {
            let problem = format!(
                "the fibers of worker {} are missing: its list changes too often",
                seen.worker.index
            );
            sample.problems.push(problem);
            return states;
        };
        let root = &self.roots[seen.root];
        let history = root.history(&self.memory, seen.worker);
        let fibers = Fiber::read(self.memory, root.layout, seen.worker.index, &addresses);
        let mut counted = 0;
        for fiber in &fibers {
            if self.sites.get(&self.memory, fiber.spawn_site).is_none() {
                continue;
            }
            let state = match fiber.state {
                State::Alone => State::Alone,
                // No thread is known by its id here.
                _ if fiber.keeps_thread || Some(fiber.id) == seen.running => {
                    State::Running { thread: 0 }
                }
                state => state,
            };
            if states.count(state).is_some() {
                counted += 1;
                let group = by_site.entry(fiber.spawn_site).or_default();
                group.fibers.count(state);
                let waits = !matches!(state, State::Running { .. } | State::New);
                let wait = waits.then(|| history.since(fiber.last_switch)).flatten();
                group.longest_wait = group.longest_wait.max(wait);
            }
        }
        sample.dropped += addresses.len() - counted;
        states
    }

    /// Returns the places with fibers, or whose fibers have run.
    fn merge(&mut self, by_site: BySite, shares: &Shares) -> Vec<Site> {
        let mut sites: HashMap<String, Site> = HashMap::new();
        let mut add = |address: u64, group: Group, busy: f64| {
            // One that is known already costs no more than a look into a table.
            let Some(place) = self.sites.get(&self.memory, address) else {
                return;
            };
            let site = sites.entry(place.to_owned()).or_insert_with(|| Site {
                spawned_at: place.to_owned(),
                busy: 0.0,
                fibers: States::default(),
                longest_wait: None,
            });
            site.busy += busy;
            site.fibers.add(group.fibers);
            site.longest_wait = site.longest_wait.max(group.longest_wait);
        };
        for (address, group) in by_site {
            add(address, group, 0.0);
        }
        for (address, count) in &shares.sites {
            let busy = f64::from(*count) / f64::from(shares.looks.max(1));
            add(*address, Group::default(), busy);
        }
        let mut sites: Vec<_> = sites.into_values().collect();
        let order = |site: &Site| (usize::MAX - site.fibers.sum(), site.spawned_at.clone());
        sites.sort_by_cached_key(order);
        sites
    }
}

fn ended(pid: i32) -> String {
    format!("process {pid} has ended")
}
