//! The shares of time in which workers run fibers, and fibers of a place run.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::started::{self, Fiber};
use crate::looks::Seen;
use crate::process::Running;
use crate::roots::{self, Found};
use crate::sample::Activity;

/// The time between two searches for fibers that keep a thread, as a multiple of what a search takes:
/// it takes at most a twentieth of the time of the watching process, however many fibers there are.
const SEARCH_RARITY: u32 = 19;

/// What the looks since the sample before have seen.
#[derive(Default)]
pub(super) struct Shares {
    pub(super) looks: u32,
    pub(super) workers: HashMap<roots::Worker, Share>,
    /// Number of fibers of a place that ran, by the address of the place.
    pub(super) sites: HashMap<u64, u32>,
}

/// Numbers of looks at a worker.
#[derive(Default, Clone, Copy)]
pub(super) struct Share {
    pub(super) all: u32,
    pub(super) busy: u32,
    pub(super) idle: u32,
}

impl Shares {
    /// Counts a look: at the workers, and at the fibers that keep a thread.
    pub(super) fn add(&mut self, workers: &[Seen], keepers: &[Fiber]) {
        self.looks += 1;
        for seen in workers {
            let share = self.workers.entry(seen.worker).or_default();
            share.all += 1;
            match seen.activity {
                Activity::Running => {
                    share.busy += 1;
                    *self.sites.entry(seen.spawn_site).or_default() += 1;
                }
                Activity::Awake => {}
                Activity::Asleep => share.idle += 1,
            }
        }
        for fiber in keepers {
            // It may have returned to its worker since that was seen.
            if workers.iter().all(|seen| seen.running != Some(fiber.id)) {
                *self.sites.entry(fiber.spawn_site).or_default() += 1;
            }
        }
    }
}

/// The fibers that keep a thread, from which their worker was taken: they run, and no worker tells
/// it. There are few, and the search for them reads all fibers.
#[derive(Default)]
pub(super) struct Keepers {
    /// The index of the root and of the worker of some, and the addresses of these.
    known: Vec<(usize, u64, Vec<u64>)>,
    /// When they are searched again.
    next: Option<Instant>,
}

impl Keepers {
    /// Returns those that run now. The ones that have begun lately may be missing.
    pub(super) fn look(
        &mut self,
        memory: Running,
        roots: &[Found],
        workers: &[Seen],
    ) -> Vec<Fiber> {
        let begin = Instant::now();
        let is_due = self.next.is_none_or(|next| begin >= next);
        if is_due {
            let addresses = |seen: &Seen| {
                let addresses = started::addresses(memory, seen.worker)?;
                Some((seen.root, seen.worker.index, addresses))
            };
            self.known = workers.iter().filter_map(addresses).collect();
        }
        let mut running = Vec::new();
        for (root, worker, addresses) in &mut self.known {
            let layout = roots[*root].layout;
            let mut fibers = Fiber::read(memory, layout, *worker, addresses);
            fibers.retain(|fiber| fiber.keeps_thread);
            addresses.clear();
            addresses.extend(fibers.iter().map(|fiber| fiber.address));
            running.append(&mut fibers);
        }
        self.known.retain(|(_, _, addresses)| !addresses.is_empty());
        if is_due {
            let pause: Duration = begin.elapsed() * SEARCH_RARITY;
            self.next = Some(Instant::now() + pause);
        }
        running
    }
}
