//! The timers of one worker: a hierarchical wheel. Adding and cancelling cost the same few
//! instructions, whether ten timers are pending or a million.
//!
//! ```text
//!   level 0   64 slots of 1 tick        a slot holds the timers of one tick
//!   level 1   64 slots of 64 ticks      when its time comes, a slot's timers
//!   level 2   64 slots of 4,096 ticks   are spread over the level below
//!   ...
//! ```
//!
//! A tick is 131 us: a timer expires at most that late, and never early.

use std::mem;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use slab::Slab;

use super::tables;

/// The duration of a tick in nanoseconds, as a power of two.
const TICK_SHIFT: u32 = 17;
/// Number of slots per level as a power of two: one bit each in a word.
const SLOT_SHIFT: u32 = 6;
const SLOTS: usize = 1 << SLOT_SHIFT;
/// Number of levels. Seven levels reach 18 years; later timers wait in the last slot and are
/// inserted again.
const LEVELS: usize = 7;
const TICKS_MAX: u64 = 1 << (SLOT_SHIFT * LEVELS as u32);

/// Identifies a timer, also after it has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// The index of the entry plus one, so that an optional key takes no more memory.
    number: NonZeroU32,
    /// Distinguishes this use of the entry from earlier ones.
    sequence: u32,
}

/// The pending timers of one worker, each with a value that is returned when it expires.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    origin: Instant,
    /// Every tick up to this one has expired.
    elapsed: u64,
    entries: Slab<Entry<T>>,
    next_sequence: u32,
    levels: [Level; LEVELS],
}

#[derive(Debug)]
struct Level {
    /// Bit n is set if slot n has timers.
    occupied: u64,
    first: [Link; SLOTS],
}

/// A timer: 40 bytes with a value of two words, as there may be a million.
#[derive(Debug)]
struct Entry<T> {
    tick: u64,
    sequence: u32,
    position: Position,
    previous: Link,
    next: Link,
    value: T,
}

#[derive(Debug, Clone, Copy)]
struct Position {
    level: u8,
    slot: u8,
}

/// The index of an entry, or none, in half the size of an `Option`.
#[derive(Debug, Clone, Copy)]
struct Link(u32);

impl Link {
    const NONE: Link = Link(u32::MAX);

    fn get(self) -> Option<usize> {
        (self.0 != Link::NONE.0).then_some(self.0 as usize)
    }
}

impl<T> Timers<T> {
    pub(crate) fn new(origin: Instant) -> Timers<T> {
        Timers {
            origin,
            elapsed: 0,
            entries: Slab::new(),
            next_sequence: 0,
            levels: std::array::from_fn(|_| Level {
                occupied: 0,
                first: [Link::NONE; SLOTS],
            }),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a timer that expires at `deadline`, or at the next check if that has passed.
    pub(crate) fn insert(&mut self, deadline: Instant, value: T) -> Key {
        let until = deadline.saturating_duration_since(self.origin);
        let tick = first_tick(until).max(self.elapsed + 1);
        let sequence = self.next_sequence;
        self.next_sequence = sequence.wrapping_add(1);
        tables::make_room_in_slab(&mut self.entries);
        let index = self.entries.insert(Entry {
            tick,
            sequence,
            position: Position { level: 0, slot: 0 },
            previous: Link::NONE,
            next: Link::NONE,
            value,
        });
        let number = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        let number = number.expect("4 billion timers exhaust memory");
        self.link(Link(index as u32));
        Key { number, sequence }
    }

    /// Removes a timer and returns its value, unless it has expired.
    pub(crate) fn cancel(&mut self, key: Key) -> Option<T> {
        let index = key.number.get() as usize - 1;
        let entry = self.entries.get(index)?;
        if entry.sequence != key.sequence {
            return None;
        }
        let entry = self.entries.remove(index);
        self.unlink(entry.position, entry.previous, entry.next);
        Some(entry.value)
    }

    /// Changes when timers expire. `change` gets the value of each and the time from `now` on until then, and
    /// returns the new time, if it is another one.
    pub(crate) fn change(
        &mut self,
        now: Instant,
        change: impl Fn(&T, Duration) -> Option<Duration>,
    ) {
        let now = now.saturating_duration_since(self.origin);
        let indices: Vec<_> = self.entries.iter().map(|(index, _)| index).collect();
        for index in indices {
            let entry = &self.entries[index];
            let due = Duration::from_nanos(entry.tick << TICK_SHIFT);
            if let Some(left) = change(&entry.value, due.saturating_sub(now)) {
                self.unlink(entry.position, entry.previous, entry.next);
                let tick = first_tick(now.saturating_add(left));
                self.entries[index].tick = tick.max(self.elapsed + 1);
                self.link(Link(index as u32));
            }
        }
    }

    /// Returns a time before which no timer expires.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let (tick, _) = self.next_slot()?;
        Some(self.origin + Duration::from_nanos(tick << TICK_SHIFT))
    }

    /// Passes the values of all timers that have expired by `now` to `expired`.
    pub(crate) fn expire(&mut self, now: Instant, mut expired: impl FnMut(T)) {
        let now = ticks(now.saturating_duration_since(self.origin));
        while let Some((tick, position)) = self.next_slot() {
            if tick > now {
                break;
            }
            self.elapsed = tick;
            let mut next = self.take_slot(position);
            while let Some(index) = next.get() {
                let entry = next;
                next = self.entries[index].next;
                if self.entries[index].tick <= tick {
                    expired(self.entries.remove(index).value);
                } else {
                    self.link(entry);
                }
            }
        }
        self.elapsed = self.elapsed.max(now);
    }

    /// Returns the next slot that expires, and its time.
    fn next_slot(&self) -> Option<(u64, Position)> {
        // All slots of a level expire before the next slot of the level above.
        self.levels.iter().enumerate().find_map(|(level, slots)| {
            if slots.occupied == 0 {
                return None;
            }
            let shift = SLOT_SHIFT * level as u32;
            let current = (self.elapsed >> shift) as u32 % SLOTS as u32;
            let distance = slots.occupied.rotate_right(current).trailing_zeros();
            let slot = ((current + distance) % SLOTS as u32) as u8;
            let slot_ticks = (self.elapsed >> shift) + u64::from(distance);
            let level = level as u8;
            Some((slot_ticks << shift, Position { level, slot }))
        })
    }

    fn take_slot(&mut self, Position { level, slot }: Position) -> Link {
        let level = &mut self.levels[usize::from(level)];
        level.occupied &= !(1 << slot);
        mem::replace(&mut level.first[usize::from(slot)], Link::NONE)
    }

    /// Removes an entry, which has this position and these neighbours, from its slot.
    fn unlink(&mut self, Position { level, slot }: Position, previous: Link, next: Link) {
        match previous.get() {
            Some(previous) => self.entries[previous].next = next,
            None => {
                let level = &mut self.levels[usize::from(level)];
                level.first[usize::from(slot)] = next;
                if next.get().is_none() {
                    level.occupied &= !(1 << slot);
                }
            }
        }
        if let Some(next) = next.get() {
            self.entries[next].previous = previous;
        }
    }

    /// Puts an entry into the slot for its tick, relative to the current tick.
    fn link(&mut self, link: Link) {
        let index = link.0 as usize;
        let tick = self.entries[index].tick.min(self.elapsed + TICKS_MAX - 1);
        let position = position(self.elapsed, tick);
        let level = &mut self.levels[usize::from(position.level)];
        let next = mem::replace(&mut level.first[usize::from(position.slot)], link);
        level.occupied |= 1 << position.slot;
        if let Some(next) = next.get() {
            self.entries[next].previous = link;
        }
        let entry = &mut self.entries[index];
        entry.position = position;
        entry.previous = Link::NONE;
        entry.next = next;
    }
}

/// Returns the slot for `tick`. Its level is given by the highest bit in which `tick` differs from
/// `elapsed`.
fn position(elapsed: u64, tick: u64) -> Position {
    let differing = (elapsed ^ tick) | (SLOTS as u64 - 1);
    let level = (differing.ilog2() / SLOT_SHIFT).min(LEVELS as u32 - 1);
    let slot = ((tick >> (SLOT_SHIFT * level)) % SLOTS as u64) as u8;
    let level = level as u8;
    Position { level, slot }
}

/// Returns the first tick at which a timer may expire that does after this time.
fn first_tick(until: Duration) -> u64 {
    ticks(until + Duration::from_nanos((1 << TICK_SHIFT) - 1))
}

fn ticks(duration: Duration) -> u64 {
    // Beyond 2^64 ns, 584 years, the wheel has been clamped.
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) >> TICK_SHIFT
}

const _: () = assert!(size_of::<Entry<[usize; 2]>>() == 40);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_timer_expires_at_its_new_time() {
        let origin = Instant::now();
        let second = Duration::from_secs(1);
        let mut timers = Timers::new(origin);
        let keys = [1, 2, 3, 4, 5].map(|number| timers.insert(origin + number * second, number));
        timers.expire(origin + second / 2, |number| panic!("{number} is early"));
        // Those of even numbers take half as long again.
        let longer = |number: &u32, left| number.is_multiple_of(2).then_some(left * 3 / 2);
        timers.change(origin + second, longer);
        assert_eq!(timers.cancel(keys[4]), Some(5));
        for half in 2..20 {
            let mut expired = None;
            timers.expire(origin + half * second / 2 + second / 1000, |number| {
                assert_eq!(expired.replace(number), None);
            });
            let expected = match half {
                2 => Some(1),
                5 => Some(2),
                6 => Some(3),
                11 => Some(4),
                _ => None,
            };
            assert_eq!(expired, expected, "{half}");
        }
    }

    #[test]
    fn timers_expire_on_time_in_order_and_once() {
        for seed in 1..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let origin = Instant::now();
            let mut timers = Timers::new(origin);
            let mut pending = std::collections::BTreeMap::new();
            let mut now = origin;
            for step in 0..500_u64 {
                let spread = 1 << (random.u64(..) % 45);
                let deadline = now + Duration::from_nanos(random.u64(..) % spread);
                let key = timers.insert(deadline, step);
                pending.insert(step, (deadline, key));
                if random.u64(..).is_multiple_of(3) {
                    let chosen = random.u64(..) % (step + 1);
                    if let Some((_, key)) = pending.remove(&chosen) {
                        assert_eq!(timers.cancel(key), Some(chosen), "seed {seed}");
                        assert_eq!(timers.cancel(key), None, "seed {seed}");
                    }
                }
                let earliest = pending.values().map(|(deadline, _)| *deadline).min();
                if let (Some(next), Some(earliest)) = (timers.next_deadline(), earliest) {
                    let late = Duration::from_nanos(1 << TICK_SHIFT);
                    assert!(
                        next <= earliest.max(now) + late,
                        "seed {seed}: sleeps too long"
                    );
                }
                now += Duration::from_nanos(random.u64(..) % (1 << (random.u64(..) % 42)));
                timers.expire(now, |value| {
                    let (deadline, _) = pending.remove(&value).expect("the timer was pending");
                    assert!(deadline <= now, "seed {seed}: early");
                });
                let overdue = now.checked_sub(Duration::from_nanos(2 << TICK_SHIFT));
                for (deadline, _) in pending.values() {
                    assert!(
                        overdue.is_none_or(|limit| *deadline > limit),
                        "seed {seed}: late"
                    );
                }
            }
            assert_eq!(timers.is_empty(), pending.is_empty());
        }
    }

    #[test]
    fn a_deadline_beyond_the_wheel_is_kept() {
        let origin = Instant::now();
        let mut timers = Timers::new(origin);
        let century = Duration::from_secs(100 * 365 * 24 * 3600);
        timers.insert(origin + century, ());
        timers.expire(origin + century / 2, |()| panic!("half a century early"));
        let mut fired = false;
        timers.expire(origin + century + Duration::from_secs(1), |()| fired = true);
        assert!(fired);
    }
}
