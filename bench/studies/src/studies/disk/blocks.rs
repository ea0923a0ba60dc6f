//! The file that is read: numbered blocks of random bytes, so that no layer can avoid reading.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};

use uthread::fs::OpenOptions;
use uthread_load::SplitMix;
use uthread_report::{Unavailable, tell};

const MIB: u64 = 1024 * 1024;
const BLOCK_BYTES: usize = 4096;
/// Size of a block's number, at its beginning.
const NUMBER_BYTES: usize = 8;
/// Size of a write to the kernel.
const WRITE_BYTES: usize = 1024 * 1024;

/// Writes the file, unless an earlier run did.
///
/// # Errors
///
/// `Unavailable` where it cannot be read past the page cache.
pub(super) fn prepare(folder: &Path, mib: u64) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let path = folder.join(format!("blocks-{mib}-mib"));
    let blocks = mib * MIB / BLOCK_BYTES as u64;
    if !is_whole(&path, blocks) {
        // Before a large file is written in vain.
        File::create(&path).with_context(|| format!("make {}", path.display()))?;
        check_direct(&path)?;
        tell!("writing {}", path.display());
        write(&path, blocks).with_context(|| format!("write {}", path.display()))?;
    }
    check_direct(&path)?;
    Ok(path)
}

fn check_direct(path: &Path) -> Result<()> {
    let opened = OpenOptions::new().read(true).direct(true).open(path);
    let aligned = opened.and_then(|file| file.direct_alignment());
    aligned.map(drop).map_err(|error| {
        let path = path.display();
        Unavailable(format!(
            "{path} cannot be read past the page cache ({error}): name a disk by --folder"
        ))
        .into()
    })
}

/// Returns `true` if the whole file was written: its last block is written last.
fn is_whole(path: &Path, blocks: u64) -> bool {
    let last_number = || -> Result<(u64, u64)> {
        let mut file = File::open(path)?;
        let mut number = [0; NUMBER_BYTES];
        file.seek(SeekFrom::Start((blocks - 1) * BLOCK_BYTES as u64))?;
        file.read_exact(&mut number)?;
        Ok((file.metadata()?.len(), u64::from_le_bytes(number)))
    };
    last_number().is_ok_and(|found| found == (blocks * BLOCK_BYTES as u64, blocks - 1))
}

fn write(path: &Path, blocks: u64) -> Result<()> {
    let mut random = SplitMix::new(1);
    let mut file = BufWriter::with_capacity(WRITE_BYTES, File::create(path)?);
    for block in 0..blocks {
        file.write_all(&block.to_le_bytes())?;
        for _ in NUMBER_BYTES / 8..BLOCK_BYTES / 8 {
            file.write_all(&random.next().to_le_bytes())?;
        }
    }
    let file = file.into_inner()?;
    file.sync_all()?;
    // A direct read looks into the page cache first.
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_its_number_and_nothing_in_common() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocks");
        write(&path, 3).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 3 * BLOCK_BYTES);
        for (number, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            assert_eq!(block[..NUMBER_BYTES], (number as u64).to_le_bytes());
            let zeroes = block.iter().filter(|&&byte| byte == 0).count();
            assert!(zeroes < BLOCK_BYTES / 64, "{zeroes} zeroes");
        }
        assert_ne!(
            bytes[8..BLOCK_BYTES],
            bytes[BLOCK_BYTES + 8..2 * BLOCK_BYTES]
        );
        assert!(is_whole(&path, 3));
    }

    #[test]
    fn what_was_written_in_part_is_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("blocks");
        assert!(!is_whole(&path, 3));
        write(&path, 2).unwrap();
        assert!(!is_whole(&path, 3) && !is_whole(&path, 1));
        let file = File::options().append(true).open(&path).unwrap();
        file.set_len(3 * BLOCK_BYTES as u64).unwrap();
        assert!(!is_whole(&path, 3));
    }
}
