//! The slabs of a pool, and which parts of them are in use.
//!
//! A slab is carved batch by batch. A batch may be released when all of its stacks have been
//! returned: its guards and page tables are freed, and it can be carved again. A slab whose batches
//! are all released is unmapped.
//!
//! ```text
//!   not carved --carve--> lent <--> free, part of a batch --> free, a whole batch --release--> released --carve--> lent
//! ```
//!
//! The kernel keeps a page of page tables per 2 MiB of touched addresses. It frees the page only
//! when the addresses are unmapped or (on x86-64, since Linux 6.14) advised on as one range.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;

use super::memory::{self, Guards};
use super::sizes::BATCH_STACKS;
use super::{Stack, TOP_BYTES};

/// Number of stacks in the first slab: enough for a small program, 16 MiB of address space at 256
/// KiB each.
pub(super) const SLAB_STACKS_FIRST: usize = 64;

/// Number of stacks in the largest slab. Slabs double in size up to this, so that a million stacks
/// take a few hundred mappings, and none takes more than a few GiB of address space.
const SLAB_STACKS_MAX: usize = 4096;

/// Number of free stacks, in addition to the warm ones, below which no batch is released: half a
/// MiB of page tables at 256 KiB per stack.
const FREE_STACKS_KEPT: usize = 1024;

/// The bit mask of a batch whose stacks are all free.
const WHOLE: usize = (1 << BATCH_STACKS) - 1;

/// Batches by start address, each with a number. One type for all lists, as the code of a map is
/// large.
type Batches = BTreeMap<usize, usize>;

/// All slabs of a pool. Batches are identified by their start addresses.
#[derive(Debug)]
pub(super) struct Slabs {
    stack_size: usize,
    /// Sorted by start address. A few hundred at most, so that an insertion moves little.
    slabs: Vec<Slab>,
    /// The slab that is being carved.
    newest: Option<usize>,
    next_stacks: usize,
    /// The batches that are partly free, with the bit mask of their free stacks.
    partial: Batches,
    /// The batches whose stacks are all free, with the same bit mask.
    whole: Batches,
    /// Number of stacks in these two.
    free: usize,
    /// Batches to be carved again, with the number of their stacks that were carved.
    released: Batches,
}

#[derive(Debug)]
struct Slab {
    start: usize,
    stacks: usize,
    carved: usize,
    /// Batches of this slab that are released.
    released: usize,
}

/// A batch that is being released, and is in no other list meanwhile.
#[derive(Debug)]
pub(super) struct Releasing(usize);

impl Releasing {
    /// Returns the memory of the batch to the kernel, page tables included if the kernel can free
    /// them.
    pub(super) fn release(&self, stack_size: usize, guards: &Guards) {
        let limits = (0..BATCH_STACKS).map(|place| self.0 + place * stack_size);
        guards.remove(&limits.collect::<Vec<_>>());
        // As one range, as the kernel looks for empty page tables only then.
        memory::discard(&[self.0], BATCH_STACKS * stack_size);
    }
}

impl Slabs {
    pub(super) fn new(stack_size: usize) -> Slabs {
        Slabs {
            stack_size,
            slabs: Vec::new(),
            newest: None,
            next_stacks: SLAB_STACKS_FIRST,
            partial: BTreeMap::new(),
            whole: BTreeMap::new(),
            free: 0,
            released: BTreeMap::new(),
        }
    }

    /// Takes free stacks of one batch, at least one, with their guards installed. They are reused
    /// or new.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the address space or `vm.max_map_count` is exhausted. No stack is taken then.
    pub(super) fn take(&mut self, guards: &Guards, taken: &mut Vec<Stack>) -> io::Result<()> {
        let whole = &mut self.whole;
        let free = self.partial.pop_last();
        let free = free.or_else(|| whole.pop_last());
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

    /// Takes back stacks that have no page in memory.
    pub(super) fn give(&mut self, stacks: &[Stack]) {
        stacks.iter().for_each(|stack| self.give_one(stack));
    }

    fn give_one(&mut self, stack: &Stack) {
        let limit = stack.limit.get();
        let slab = &self.slabs[self.slab_of(limit)];
        let place = (limit - slab.start) / self.stack_size;
        let batch = limit - place % BATCH_STACKS * self.stack_size;
        let places = self.partial.entry(batch).or_default();
        *places |= 1 << (place % BATCH_STACKS);
        self.free += 1;
        if *places == WHOLE {
            self.partial.remove(&batch);
            self.whole.insert(batch, WHOLE);
        }
    }

    /// Returns `true` if more stacks are free than a load needs that repeatedly halves and doubles.
    pub(super) fn has_surplus(&self, lent: usize) -> bool {
        self.free > lent.max(FREE_STACKS_KEPT)
    }

    /// Returns the number of batches that are partly free.
    pub(super) fn parts(&self) -> usize {
        self.partial.len()
    }

    /// Removes a batch to be released, if there is a surplus.
    pub(super) fn take_surplus(&mut self, lent: usize) -> Option<Releasing> {
        if !self.has_surplus(lent) {
            return None;
        }
        let (batch, _) = self.whole.pop_last()?;
        self.free -= BATCH_STACKS;
        Some(Releasing(batch))
    }

    /// Records that a batch is released. If this was the last one of its slab, removes the slab and
    /// returns its start address and length.
    pub(super) fn mark_released(&mut self, Releasing(batch): Releasing) -> Option<(usize, usize)> {
        let index = self.slab_of(batch);
        self.released.insert(batch, 0);
        let slab = &mut self.slabs[index];
        slab.released += 1;
        if slab.released * BATCH_STACKS < slab.stacks {
            return None;
        }
        let Slab { start, stacks, .. } = self.slabs.remove(index);
        let length = stacks * self.stack_size;
        self.newest = self.newest.filter(|newest| *newest != start);
        for batch in (start..start + length).step_by(BATCH_STACKS * self.stack_size) {
            self.released.remove(&batch);
        }
        Some((start, length))
    }

    /// Removes all slabs and returns their start addresses and lengths.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (usize, usize)> {
        let stack_size = self.stack_size;
        let slabs = std::mem::take(&mut self.slabs);
        let slabs = slabs.into_iter();
        slabs.map(move |slab| (slab.start, slab.stacks * stack_size))
    }

    /// Adds the next stacks of the newest slab, or the first of a new one.
    fn carve(&mut self, guards: &Guards, carved: &mut Vec<Stack>) -> io::Result<()> {
        let newest = self.newest.map(|start| self.slab_of(start));
        let usable = newest.filter(|index| self.slabs[*index].carved < self.slabs[*index].stacks);
        let index = match usable {
            Some(index) => index,
            None => self.add_slab()?,
        };
        let Slab {
            start,
            stacks,
            carved: first,
            ..
        } = self.slabs[index];
        let last = first.next_multiple_of(BATCH_STACKS);
        let last = if last == first {
            first + BATCH_STACKS
        } else {
            last
        };
        let last = last.min(stacks);
        let batch = start + first / BATCH_STACKS * BATCH_STACKS * self.stack_size;
        let places = first % BATCH_STACKS..first % BATCH_STACKS + (last - first);
        let guarded = self.guard(batch, places, guards, carved)?;
        self.slabs[index].carved += guarded;
        Ok(())
    }

    /// Adds the stacks of a released batch.
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
            self.slabs[slab].released -= 1;
        }
        match before + guarded {
            BATCH_STACKS => self.released.remove(&batch),
            rest => self.released.insert(batch, rest),
        };
        Ok(())
    }

    /// Installs the guards of some stacks of a batch and adds these stacks. Returns how many
    /// succeeded.
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
        Stack {
            limit: NonZeroUsize::new(limit).expect("a mapping never starts at address zero"),
            base: NonZeroUsize::new(limit + self.stack_size - TOP_BYTES)
                .expect("above a non-zero limit"),
            end: limit + self.stack_size,
        }
    }

    /// Returns the index of the slab that contains this address.
    fn slab_of(&self, address: usize) -> usize {
        let above = self.slabs.partition_point(|slab| slab.start <= address);
        above.checked_sub(1).expect("every stack is in a slab")
    }

    /// Maps a slab, of fewer stacks than usual if the kernel refuses so much address space (strict
    /// overcommit, `ulimit -v`). Returns its index.
    fn add_slab(&mut self) -> io::Result<usize> {
        let mut stacks = self.next_stacks;
        let start = loop {
            match memory::map(stacks * self.stack_size) {
                Ok(start) => break start.expose_provenance().get(),
                Err(_) if stacks > 1 => stacks /= 2,
                Err(errno) => return Err(errno.into()),
            }
        };
        let slab = Slab {
            start,
            stacks,
            carved: 0,
            released: 0,
        };
        let index = self.slabs.partition_point(|slab| slab.start < start);
        self.slabs.insert(index, slab);
        self.newest = Some(start);
        self.next_stacks = (stacks * 2).min(SLAB_STACKS_MAX);
        Ok(index)
    }

    #[cfg(test)]
    pub(super) fn released(&self) -> usize {
        self.slabs.iter().map(|slab| slab.released).sum()
    }

    /// Returns the number of stacks with a guard.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        let carved: usize = self.slabs.iter().map(|slab| slab.carved).sum();
        carved - self.released() * BATCH_STACKS
    }

    /// Returns the number of stacks that the slabs have space for.
    #[cfg(test)]
    pub(super) fn mapped(&self) -> usize {
        self.slabs.iter().map(|slab| slab.stacks).sum()
    }
}
