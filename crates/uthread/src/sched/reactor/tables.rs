//! Growth of tables that may have a million entries.
//!
//! A vector that doubles leaves holes in the heap, as `malloc` takes memory of up to 32 MiB from
//! there once a program has freed as much. From a certain size on, a table therefore reserves more:
//! `malloc` maps that much separately, so the table takes only the pages that it has touched, and
//! grows further without a copy.

use slab::Slab;

/// Number of bytes from which on a table is large: far more than a program with some hundred fibers
/// needs.
const LARGE_BYTES: usize = 64 * 1024;

/// Number of bytes that a large table reserves: address space only, and more than the maximum of
/// glibc's `M_MMAP_THRESHOLD`, 32 MiB.
const RESERVED_BYTES: usize = 33 * 1024 * 1024;

/// Returns the number of entries for which a full table of this capacity reserves room, unless it
/// grows as usual.
fn room<T>(capacity: usize) -> Option<usize> {
    let reserved = RESERVED_BYTES / size_of::<T>();
    (capacity * size_of::<T>() >= LARGE_BYTES && capacity < reserved).then_some(reserved)
}

/// Makes room in a table for an entry that is about to be added.
pub(in crate::sched) fn make_room<T>(table: &mut Vec<T>) {
    #[cold]
    fn grow<T>(table: &mut Vec<T>) {
        if let Some(room) = room::<T>(table.capacity()) {
            // If there is no such room, it grows as usual.
            let _ = table.try_reserve_exact(room - table.len());
        }
    }
    if table.len() == table.capacity() {
        grow(table);
    }
}

/// Makes room in a slab for an entry that is about to be added.
pub(in crate::sched) fn make_room_in_slab<T>(table: &mut Slab<T>) {
    #[cold]
    fn grow<T>(table: &mut Slab<T>) {
        // A slab cannot report that there is no room.
        if let Some(room) = room::<T>(table.capacity())
            && Vec::<T>::new().try_reserve_exact(2 * room).is_ok()
        {
            table.reserve_exact(room - table.len());
        }
    }
    if table.len() == table.capacity() {
        grow(table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_table_reserves_room_once() {
        let (mut table, mut slab) = (Vec::new(), Slab::new());
        for number in 0..LARGE_BYTES as u64 {
            make_room(&mut table);
            table.push(number);
            make_room_in_slab(&mut slab);
            slab.insert(number);
            let is_large = (number as usize) * size_of::<u64>() >= LARGE_BYTES;
            let reserved = RESERVED_BYTES / size_of::<u64>();
            assert_eq!(table.capacity() >= reserved, is_large);
            assert_eq!(slab.capacity() >= reserved, is_large);
        }
    }
}
