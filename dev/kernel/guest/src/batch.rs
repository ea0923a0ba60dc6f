//! Batches: entries that refer to no memory, and random flags for them.

use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};

use crate::order::{Item, Link};

/// The flag of the patch.
pub(crate) const URGENT: Flags = Flags::from_bits_retain(1 << 7);

/// Length of a random batch; a ring has room for one.
pub(crate) const ITEMS_MAX: usize = 48;

/// A personality that no ring has: an entry with it is refused.
const UNKNOWN: u16 = 77;

/// Returns an entry that does nothing.
pub(crate) fn nop(user_data: u64) -> Entry {
    opcode::Nop::new().build().user_data(user_data)
}

/// Returns an entry that the kernel refuses, with `EINVAL`, when it reads it.
pub(crate) fn refused(user_data: u64) -> Entry {
    nop(user_data).personality(UNKNOWN)
}

/// Returns an entry that completes once the file is readable.
pub(crate) fn readable(file: i32, user_data: u64) -> Entry {
    const POLLIN: u32 = 1;
    let poll = opcode::PollAdd::new(types::Fd(file), POLLIN);
    poll.build().user_data(user_data)
}

/// Returns the entries of a batch, with their indices added to `first` as user data. A kernel
/// without the flag gets them without it.
pub(crate) fn entries(items: &[Item], first: u64, has_flag: bool) -> Vec<Entry> {
    let entry = |(item, user_data): (&Item, u64)| {
        let mut flags = match item.link {
            Link::None => Flags::empty(),
            Link::Soft => Flags::IO_LINK,
            Link::Hard => Flags::IO_HARDLINK,
        };
        flags.set(URGENT, item.urgent && has_flag);
        flags.set(Flags::IO_DRAIN, item.drain);
        nop(user_data).flags(flags)
    };
    items.iter().zip(first..).map(entry).collect()
}

/// Returns a random batch: few or many urgent entries, chains of either kind, and seldom a drain.
pub(crate) fn random(random: &mut fastrand::Rng) -> Vec<Item> {
    let (urgent, linked) = (random.u8(..), random.u8(..128));
    let drain = if random.u8(..16) == 0 { 32 } else { 0 };
    let item = |random: &mut fastrand::Rng| {
        let link = match (random.u8(..) < linked, random.bool()) {
            (false, _) => Link::None,
            (true, false) => Link::Soft,
            (true, true) => Link::Hard,
        };
        let drain = random.u8(..) < drain;
        let urgent = random.u8(..) < urgent && !drain;
        Item {
            urgent,
            link,
            drain,
        }
    };
    (0..random.usize(1..=ITEMS_MAX))
        .map(|_| item(random))
        .collect()
}

/// Returns the number of entries in the longest chain.
#[cfg(test)]
pub(crate) fn longest_chain(items: &[Item]) -> usize {
    let chains = items.split_inclusive(|item| item.link == Link::None);
    chains.map(<[Item]>::len).max().unwrap_or_default()
}
