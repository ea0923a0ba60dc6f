//! Records what the workers of a process do, by the events that they write meanwhile.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use uthread::root::{EVENT_WORDS, EVENTS_MAX, EventKind, Leave};

use crate::ahead::Ahead;
use crate::fibers;
use crate::memory::{Memory as _, Piece, read_one, word};
use crate::modules::Modules;
use crate::opened::open;
use crate::process::Running;
use crate::roots::{self, Found};
use crate::sites::Sites;
use crate::trace::{Event, Trace, TracedWorker};

/// The time between two looks at the events. A worker that switches a million times a second writes
/// over them after some 16 ms.
const INTERVAL: Duration = Duration::from_millis(4);

/// The time for which the workers go on recording if this process ends before it stops them.
const MARGIN: Duration = Duration::from_secs(1);

/// The size of a record.
const EVENT_BYTES: usize = 8 * EVENT_WORDS;

/// Records what the workers of a process do for this time. Meanwhile they run a few percent slower.
///
/// # Errors
///
/// There is no such process; its memory may not be read or written, by `process_vm_writev(2)`; it
/// does not use the library, or another version of it.
pub fn trace(pid: i32, time: Duration) -> Result<Trace> {
    let mut recording = Recording::begin(pid)?;
    let begin_ns = recording.memory.now_ns().unwrap_or(0);
    let margin_end = begin_ns.saturating_add((time + MARGIN).as_nanos() as u64);
    recording.set_end(margin_end)?;
    let end = Instant::now() + time;
    while Instant::now() < end && recording.is_alive() {
        thread::sleep(INTERVAL.min(end.saturating_duration_since(Instant::now())));
        recording.look();
    }
    // It may have ended.
    let _ = recording.set_end(0);
    let end_ns = recording.memory.now_ns().unwrap_or(0);
    recording.look();
    let names = recording.names();
    Ok(Trace {
        pid,
        begin_ns,
        end_ns,
        workers: recording
            .workers
            .into_iter()
            .map(|worker| worker.traced)
            .collect(),
        places: recording.places,
        names,
    })
}

/// The events read so far.
struct Recording {
    memory: Running,
    modules: Modules,
    roots: Vec<Found>,
    sites: Sites,
    workers: Vec<Recorded>,
    /// The places where fibers were spawned, by the addresses in events.
    places: HashMap<u64, String>,
}

struct Recorded {
    worker: roots::Worker,
    /// Number of records read or lost.
    read: u64,
    traced: TracedWorker,
}

impl Recording {
    /// Finds the workers, and passes over what they have recorded for others.
    fn begin(pid: i32) -> Result<Recording> {
        let opened = open(pid)?;
        let mut recording = Recording {
            memory: opened.memory,
            modules: opened.modules,
            roots: opened.roots,
            sites: opened.sites,
            workers: Vec::new(),
            places: HashMap::new(),
        };
        recording.look();
        for worker in &mut recording.workers {
            worker.traced.events.clear();
            worker.traced.gaps.clear();
        }
        Ok(recording)
    }

    /// Makes the workers record until this time.
    fn set_end(&self, until_ns: u64) -> Result<()> {
        self.roots
            .iter()
            .try_for_each(|root| self.memory.write(root.traced_until_at(), until_ns))
    }

    fn is_alive(&self) -> bool {
        let root = self.modules.roots.first();
        root.is_some_and(|root| self.memory.probe(root.start).is_ok())
    }

    /// Reads the events that are new.
    fn look(&mut self) {
        for root in &self.roots {
            // A worker that starts or ends right now is seen the next time.
            let Ok((workers, changes)) = root.workers(&self.memory) else {
                continue;
            };
            for worker in workers {
                let found = self.workers.iter().position(|known| known.worker == worker);
                let index = found.unwrap_or_else(|| {
                    self.workers.push(Recorded::new(worker));
                    self.workers.len() - 1
                });
                let recorded = &mut self.workers[index];
                let before = recorded.traced.events.len();
                let gaps_before = recorded.traced.gaps.len();
                if recorded.look(self.memory, root).is_none()
                    || !root.is_unchanged(&self.memory, changes)
                {
                    // Its memory may be another worker's.
                    recorded.traced.events.truncate(before);
                    recorded.traced.gaps.truncate(gaps_before);
                }
                for event in &recorded.traced.events[before..] {
                    let address = event.place;
                    if address != 0
                        && !self.places.contains_key(&address)
                        && let Some(place) = self.sites.get(&self.memory, address)
                    {
                        self.places.insert(address, place.to_owned());
                    }
                }
            }
        }
    }

    /// Returns the names of the fibers that have one, and live, by id.
    fn names(&self) -> HashMap<u64, String> {
        let taken = fibers::take(&self.memory, &self.modules, Ahead::default());
        let fibers = taken.map(|taken| taken.finish().fibers).unwrap_or_default();
        let named = fibers.into_iter().filter_map(|fiber| {
            let id = fiber.control.word(fiber.layout.id)?;
            Some((id, fiber.identity.name?))
        });
        named.collect()
    }
}

impl Recorded {
    fn new(worker: roots::Worker) -> Recorded {
        Recorded {
            worker,
            read: 0,
            traced: TracedWorker {
                runtime: worker.runtime,
                index: worker.index,
                events: Vec::new(),
                gaps: Vec::new(),
            },
        }
    }

    /// Reads the events that are new. Returns `None` if they cannot be read.
    fn look(&mut self, memory: Running, root: &Found) -> Option<()> {
        let pointer = self
            .worker
            .remote
            .wrapping_add(root.worker_layout.events.into());
        let at = read_one(&memory, pointer, 8)?.word(0)?;
        if at == 0 {
            return Some(());
        }
        let written = || read_one(&memory, at, 8)?.word(0);
        let end = written()?;
        let capacity = EVENTS_MAX as u64;
        let begin = self.read.max(end.saturating_sub(capacity));
        let ring = at + 8;
        let place = |number: u64| ring + (number % capacity) * EVENT_BYTES as u64;
        let until_turn = (capacity - begin % capacity).min(end.saturating_sub(begin));
        let rest = end.saturating_sub(begin) - until_turn;
        let mut pieces = [
            Piece::new(place(begin), until_turn as usize * EVENT_BYTES),
            Piece::new(ring, rest as usize * EVENT_BYTES),
        ];
        memory.read(&mut pieces);
        // What was read while the worker wrote there is lost: up to the record that it writes now.
        let valid = (written()? + 1).saturating_sub(capacity).max(begin);
        let [first, second] = pieces;
        let records = first.bytes.chunks_exact(EVENT_BYTES);
        let records = records.chain(second.bytes.chunks_exact(EVENT_BYTES));
        let records = records.skip((valid - begin) as usize);
        let lost = valid.min(end).saturating_sub(self.read);
        if lost > 0 {
            self.traced.gaps.push((self.traced.events.len(), lost));
        }
        self.traced.events.extend(records.filter_map(event));
        self.read = end;
        Some(())
    }
}

/// Parses a record.
fn event(record: &[u8]) -> Option<Event> {
    let word = |index: usize| word(record, 8 * index);
    let head = word(0)?;
    let kind = EventKind::from_byte(head as u8)?;
    let last = word(4)?;
    let has_place = matches!(kind, EventKind::Run | EventKind::Detach);
    let event = Event {
        kind,
        leave: Leave::from_byte((head >> 8) as u8),
        begin_ns: word(1)?,
        end_ns: word(2)?,
        fiber: word(3)?,
        other: if has_place { 0 } else { last },
        place: if has_place { last } else { 0 },
    };
    (event.begin_ns <= event.end_ns).then_some(event)
}
