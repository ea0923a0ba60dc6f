//! The slabs of a pool, and which parts of them are in use.
//!
//! A slab is carved batch by batch, and a batch of which every stack has come back may be released: its guards and page
//! tables go, and it can be carved again. A slab that is released as a whole is unmapped.
//!
//! ```text
//!   not carved --carve--> lent <--> free, part of a batch --> free, a whole batch --release--> released --carve--> lent
//! ```
//!
//! The kernel keeps a page of page tables for 2 MiB of addresses in which something was touched, and does not look
//! whether that is gone before the addresses are given back or (on x86-64, since Linux 6.14) advised on together.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroUsize;

use super::Stack;
use super::cache;
use super::memory::{self, Guards};
use super::sizes::BATCH_STACKS;

/// Stacks in the first slab: enough for a small program, 16 MiB of address space at 256 KiB each.
pub(super) const SLAB_STACKS_FIRST: usize = 64;

/// Stacks in the largest slab: slabs double up to here, so that a million stacks take a few hundred mappings while no single
/// one asks for more than some GiB of address space.
const SLAB_STACKS_MAX: usize = 4096;

/// Stacks begin in turn at so many different lines of their first page: beginning all at the same
/// address modulo a page they would compete for a sixty-fourth of the cache. A quarter of the page at
/// most is lost to it, so that a waiting fiber still fits into what is left.
pub(super) const COLOURS: usize = 16;

/// Free stacks, beside those that are kept warm, below which no batch is released: half a MiB of page tables at 256 KiB a stack.
const FREE_STACKS_KEPT: usize = 1024;

/// Of a batch that is free as a whole.
const WHOLE: u16 = u16::MAX;

const _: () = assert!(WHOLE.count_ones() as usize == BATCH_STACKS);

/// All slabs of one pool. Batches are known by the addresses at which they begin.
#[derive(Debug)]
pub(super) struct Slabs {
    stack_size: usize,
    /// By their addresses.
    slabs: BTreeMap<usize, Slab>,
    /// The one that is being carved.
    newest: Option<usize>,
    next_stacks: usize,
    /// Which stacks of a batch are free, where not all are.
    partial: BTreeMap<usize, u16>,
    whole: BTreeSet<usize>,
    /// How many stacks are in those two.
    free: usize,
    /// Batches to be carved again, and how many of their stacks were.
    released: BTreeMap<usize, usize>,
}

#[derive(Debug)]
struct Slab {
    stacks: usize,
    carved: usize,
    /// Batches of which nothing is carved any more.
    released: usize,
}

/// A batch that is to be released: nobody else knows of it meanwhile.
#[derive(Debug)]
pub(super) struct Releasing(usize);

impl Releasing {
    /// Gives the memory of the batch back, page tables included where the kernel can do that.
    pub(super) fn release(&self, stack_size: usize, guards: &Guards) {
        let limits = (0..BATCH_STACKS).map(|place| self.0 + place * stack_size);
        guards.remove(&limits.collect::<Vec<_>>());
        // As one range: only then the kernel looks for page tables that are empty.
        memory::discard(&[self.0], BATCH_STACKS * stack_size);
    }
}

impl Slabs {
    pub(super) fn new(stack_size: usize) -> Slabs {
        Slabs {
            stack_size,
            slabs: BTreeMap::new(),
            newest: None,
            next_stacks: SLAB_STACKS_FIRST,
            partial: BTreeMap::new(),
            whole: BTreeSet::new(),
            free: 0,
            released: BTreeMap::new(),
        }
    }

    /// Takes free stacks of one batch, at least one, their guards in place: used before, or new ones.
    ///
    /// # Errors
    ///
    /// `ENOMEM` where address space or `vm.max_map_count` is used up; none was taken then.
    pub(super) fn take(&mut self, guards: &Guards, taken: &mut Vec<Stack>) -> io::Result<()> {
        let whole = &mut self.whole;
        let free = self.partial.pop_last();
        let free = free.or_else(|| whole.pop_last().map(|batch| (batch, WHOLE)));
        if let Some((batch, places)) = free {
            self.free -= places.count_ones() as usize;
            let places = (0..BATCH_STACKS)
                .rev()
                .filter(|place| places >> place & 1 == 1);
            taken.extend(places.map(|place| self.stack(batch, place)));
            return Ok(());
        }
        match self.released.last_key_value() {
            Some((batch, carved)) => self.carve_again(*batch, *carved, guards, taken),
            None => self.carve(guards, taken),
        }
    }

    /// Takes stacks back of which nothing is in memory.
    pub(super) fn give(&mut self, stacks: &[Stack]) {
        stacks.iter().for_each(|stack| self.give_one(stack));
    }

    fn give_one(&mut self, stack: &Stack) {
        let limit = stack.limit.get();
        let slab = self.slab_of(limit);
        let place = (limit - slab) / self.stack_size;
        let batch = limit - place % BATCH_STACKS * self.stack_size;
        let places = self.partial.entry(batch).or_default();
        *places |= 1 << (place % BATCH_STACKS);
        self.free += 1;
        if *places == WHOLE {
            self.partial.remove(&batch);
            self.whole.insert(batch);
        }
    }

    /// Whether more stacks are free than a load needs that falls by half and rises again, and so again and again.
    pub(super) fn has_surplus(&self, lent: usize) -> bool {
        self.free > lent.max(FREE_STACKS_KEPT)
    }

    /// How many batches are free in part.
    pub(super) fn parts(&self) -> usize {
        self.partial.len()
    }

    /// A batch to be released, if there is a surplus.
    pub(super) fn take_surplus(&mut self, lent: usize) -> Option<Releasing> {
        if !self.has_surplus(lent) {
            return None;
        }
        let batch = self.whole.pop_last()?;
        self.free -= BATCH_STACKS;
        Some(Releasing(batch))
    }

    /// Notes that a batch was released. If its slab is as a whole, that one is forgotten: where it began, and its length.
    pub(super) fn mark_released(&mut self, Releasing(batch): Releasing) -> Option<(usize, usize)> {
        let start = self.slab_of(batch);
        self.released.insert(batch, 0);
        let slab = self.slabs.get_mut(&start).expect("it was found there");
        slab.released += 1;
        if slab.released * BATCH_STACKS < slab.stacks {
            return None;
        }
        let length = slab.stacks * self.stack_size;
        self.slabs.remove(&start);
        self.newest = self.newest.filter(|newest| *newest != start);
        let mut above = self.released.split_off(&start);
        self.released
            .append(&mut above.split_off(&(start + length)));
        Some((start, length))
    }

    /// All slabs: where they begin, and their lengths.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (usize, usize)> {
        let stack_size = self.stack_size;
        let slabs = std::mem::take(&mut self.slabs);
        let slabs = slabs.into_iter();
        slabs.map(move |(start, slab)| (start, slab.stacks * stack_size))
    }

    /// Adds the next stacks of the newest slab, or the first of a new one.
    fn carve(&mut self, guards: &Guards, carved: &mut Vec<Stack>) -> io::Result<()> {
        let newest = self.newest.and_then(|start| self.slabs.get(&start));
        if newest.is_none_or(|slab| slab.carved == slab.stacks) {
            self.add_slab()?;
        }
        let start = self.newest.expect("a slab was added just above");
        let first = self.slabs[&start].carved;
        let last = first.next_multiple_of(BATCH_STACKS);
        let last = if last == first {
            first + BATCH_STACKS
        } else {
            last
        };
        let last = last.min(self.slabs[&start].stacks);
        let batch = start + first / BATCH_STACKS * BATCH_STACKS * self.stack_size;
        let places = first % BATCH_STACKS..first % BATCH_STACKS + (last - first);
        let guarded = self.guard(batch, places, guards, carved)?;
        let slab = self.slabs.get_mut(&start).expect("it is the newest");
        slab.carved += guarded;
        Ok(())
    }

    /// Adds the stacks of a batch that was released.
    fn carve_again(
        &mut self,
        batch: usize,
        before: usize,
        guards: &Guards,
        carved: &mut Vec<Stack>,
    ) -> io::Result<()> {
        let guarded = self.guard(batch, before..BATCH_STACKS, guards, carved)?;
        if before == 0 {
            let slab = self.slab_of(batch);
            let slab = self.slabs.get_mut(&slab).expect("it was found there");
            slab.released -= 1;
        }
        match before + guarded {
            BATCH_STACKS => self.released.remove(&batch),
            rest => self.released.insert(batch, rest),
        };
        Ok(())
    }

    /// Installs the guards of some stacks of a batch; how many of them have theirs, and were added.
    fn guard(
        &self,
        batch: usize,
        places: std::ops::Range<usize>,
        guards: &Guards,
        carved: &mut Vec<Stack>,
    ) -> io::Result<usize> {
        let limits = places.clone().map(|place| batch + place * self.stack_size);
        let guarded = guards.install_all(&limits.collect::<Vec<_>>())?;
        let places = places.take(guarded).rev();
        carved.extend(places.map(|place| self.stack(batch, place)));
        Ok(guarded)
    }

    fn stack(&self, batch: usize, place: usize) -> Stack {
        let limit = batch + place * self.stack_size;
        let colour = place % COLOURS * cache::LINE_BYTES;
        Stack {
            limit: NonZeroUsize::new(limit).expect("a mapping never starts at address zero"),
            base: NonZeroUsize::new(limit + self.stack_size - colour)
                .expect("above a non-zero limit"),
        }
    }

    /// Where the slab begins that has this address.
    fn slab_of(&self, address: usize) -> usize {
        let below = self.slabs.range(..=address).next_back();
        *below.expect("every stack is in a slab").0
    }

    /// Maps a slab, of fewer stacks than usual where so much address space is refused (strict overcommit, `ulimit -v`).
    fn add_slab(&mut self) -> io::Result<()> {
        let mut stacks = self.next_stacks;
        let start = loop {
            match memory::map(stacks * self.stack_size) {
                Ok(start) => break start.expose_provenance().get(),
                Err(_) if stacks > 1 => stacks /= 2,
                Err(errno) => return Err(errno.into()),
            }
        };
        let slab = Slab {
            stacks,
            carved: 0,
            released: 0,
        };
        self.slabs.insert(start, slab);
        self.newest = Some(start);
        self.next_stacks = (stacks * 2).min(SLAB_STACKS_MAX);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn released(&self) -> usize {
        self.slabs.values().map(|slab| slab.released).sum()
    }

    /// How many stacks have their guards.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        let carved: usize = self.slabs.values().map(|slab| slab.carved).sum();
        carved - self.released() * BATCH_STACKS
    }

    /// How many stacks the slabs have room for.
    #[cfg(test)]
    pub(super) fn mapped(&self) -> usize {
        self.slabs.values().map(|slab| slab.stacks).sum()
    }
}
