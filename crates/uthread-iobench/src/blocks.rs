//! The blocks of a file: each begins with its number and ends with the complement, so that every
//! read is checked by two comparisons. All else is random, so that no layer can avoid the disk.

use std::io;

use fastrand::Rng;

use crate::walk::Request;

/// The block size that databases read, and that disks are compared by.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Size of the number at each end.
const NUMBER_BYTES: usize = 8;
const LAST: usize = BLOCK_BYTES - NUMBER_BYTES;

/// Fills a block of a new file.
pub(crate) fn fill(block: u64, random: &mut Rng, bytes: &mut [u8]) {
    random.fill(bytes);
    number(block, bytes);
}

/// Prepares the buffer of a request: a block to write gets its number, and one to read loses that
/// of an earlier read.
pub(crate) fn prepare(request: Request, bytes: &mut [u8]) {
    match request {
        Request::Read(block) => bytes[..NUMBER_BYTES].copy_from_slice(&(!block).to_le_bytes()),
        Request::Write(block) => number(block, bytes),
        Request::Sync => {}
    }
}

/// Checks the result of a request, and the block that it has read.
///
/// # Errors
///
/// The error of the request; or any other if it was cut short or has read another block.
pub(crate) fn check(request: Request, result: io::Result<usize>, bytes: &[u8]) -> io::Result<()> {
    let count = result?;
    match request {
        Request::Sync => Ok(()),
        Request::Write(_) if count == BLOCK_BYTES => Ok(()),
        Request::Read(block) if count == BLOCK_BYTES && is_whole(block, bytes) => Ok(()),
        Request::Write(block) => Err(io::Error::other(format!(
            "block {block}: wrote only {count} bytes"
        ))),
        Request::Read(block) => Err(io::Error::other(format!(
            "block {block} is corrupted: {count} bytes, which begin with {:?} and end with {:?}",
            &bytes[..NUMBER_BYTES],
            &bytes[LAST..BLOCK_BYTES]
        ))),
    }
}

fn number(block: u64, bytes: &mut [u8]) {
    bytes[..NUMBER_BYTES].copy_from_slice(&block.to_le_bytes());
    bytes[LAST..BLOCK_BYTES].copy_from_slice(&(!block).to_le_bytes());
}

fn is_whole(block: u64, bytes: &[u8]) -> bool {
    bytes[..NUMBER_BYTES] == block.to_le_bytes()
        && bytes[LAST..BLOCK_BYTES] == (!block).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_block_is_found() {
        let mut bytes = vec![0; BLOCK_BYTES];
        fill(7, &mut Rng::with_seed(1), &mut bytes);
        let read = |block, count, bytes: &[u8]| check(Request::Read(block), Ok(count), bytes);
        assert!(read(7, BLOCK_BYTES, &bytes).is_ok());
        assert!(read(8, BLOCK_BYTES, &bytes).is_err());
        assert!(read(7, 512, &bytes).is_err());
        for place in [0, BLOCK_BYTES - 1] {
            let mut corrupted = bytes.clone();
            corrupted[place] ^= 1;
            assert!(read(7, BLOCK_BYTES, &corrupted).is_err(), "{place}");
        }
        // A read of nothing does not find the block that was read before.
        prepare(Request::Read(7), &mut bytes);
        assert!(read(7, BLOCK_BYTES, &bytes).is_err());
        prepare(Request::Write(9), &mut bytes);
        assert!(read(9, BLOCK_BYTES, &bytes).is_ok());
        assert!(check(Request::Write(9), Ok(512), &bytes).is_err());
        assert!(
            check(
                Request::Sync,
                Err(io::ErrorKind::StorageFull.into()),
                &bytes
            )
            .is_err()
        );
    }

    #[test]
    fn blocks_have_nothing_in_common() {
        let mut random = Rng::with_seed(1);
        let [mut first, mut second] = [vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]];
        fill(0, &mut random, &mut first);
        fill(1, &mut random, &mut second);
        let equal = first.iter().zip(&second).filter(|(a, b)| a == b).count();
        assert!(equal < BLOCK_BYTES / 64, "{equal} equal bytes");
    }
}
