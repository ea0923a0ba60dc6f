//! A record: one block with key, version, the store's identity, a value, and a checksum.

use std::ops::Range;

use fastrand::Rng;

use crate::blocks::BLOCK_BYTES;

const KEY: Range<usize> = 0..8;
const VERSION: Range<usize> = 8..16;
/// Tells the store from an earlier one in the same file.
const IDENTITY: Range<usize> = 16..24;
const VALUE: Range<usize> = 24..BLOCK_BYTES - 8;
const CHECKSUM: Range<usize> = BLOCK_BYTES - 8..BLOCK_BYTES;
/// An odd number without a pattern, by which all bits of a word reach the checksum.
const FACTOR: u64 = 0xff51_afd7_ed55_8ccd;

/// Writes the record of a new value, which is random.
pub(super) fn write(identity: u64, key: u64, version: u64, block: &mut [u8]) {
    Rng::with_seed(key ^ version.rotate_left(32)).fill(&mut block[VALUE]);
    for (place, number) in [(KEY, key), (VERSION, version), (IDENTITY, identity)] {
        block[place].copy_from_slice(&number.to_le_bytes());
    }
    let checksum = checksum(block);
    block[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
}

/// Returns key and version of a whole record of this store.
pub(super) fn read(identity: u64, block: &[u8]) -> Option<(u64, u64)> {
    let is_whole =
        number(block, IDENTITY) == identity && number(block, CHECKSUM) == checksum(block);
    is_whole.then(|| (number(block, KEY), number(block, VERSION)))
}

fn number(block: &[u8], place: Range<usize>) -> u64 {
    let bytes = block[place].try_into().expect("a place has eight bytes");
    u64::from_le_bytes(bytes)
}

fn checksum(block: &[u8]) -> u64 {
    let words = (0..CHECKSUM.start).step_by(8);
    words.fold(1, |sum: u64, at| {
        (sum.rotate_left(5) ^ number(block, at..at + 8)).wrapping_mul(FACTOR)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_record_is_none() {
        let mut block = vec![0; BLOCK_BYTES];
        assert_eq!(read(5, &block), None);
        write(5, 7, 9, &mut block);
        assert_eq!(read(5, &block), Some((7, 9)));
        assert_eq!(read(6, &block), None, "of another store");
        for at in [0, 8, 16, 24, 2000, BLOCK_BYTES - 9, BLOCK_BYTES - 1] {
            block[at] ^= 4;
            assert_eq!(read(5, &block), None, "{at}");
            block[at] ^= 4;
        }
    }
}
