//! The disk and the files on it.
//!
//! The files have no names: the measuring processes open them through `/proc`. So they vanish with
//! this process, however it ends, also by a signal that cannot be caught.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use fastrand::Rng;
use rustix::fs::{Advice, OFlags, fadvise, major, minor};
use signal_hook::consts::SIGXFSZ;
use uthread::fs::AlignedBuffer;
use uthread_report::results::Facts;
use uthread_report::{Unavailable, tell};

use crate::blocks::{self, BLOCK_BYTES};

const MIB: u64 = 1024 * 1024;
/// Size of a write to a new file.
const WRITE_BYTES: usize = 1024 * 1024;
/// Unit of the space that a file occupies.
const SECTOR_BYTES: u64 = 512;

/// The files to be measured, written and checked.
pub struct TestFiles {
    files: Vec<File>,
    pub(crate) device: Device,
    mib: u64,
    described: String,
}

impl TestFiles {
    /// Writes so many files of this size into a directory.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if the directory cannot be written, the disk is full, or its file system has
    /// no direct I/O.
    pub fn prepare(
        dir: &Path,
        count: usize,
        mib: u64,
        seed: u64,
        stop: &AtomicBool,
    ) -> Result<TestFiles> {
        // A write beyond the limit of a file's size fails instead of ending the process.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))
            .context("ignore SIGXFSZ")?;
        let mut files = Vec::new();
        for index in 0..count {
            let file = tempfile::tempfile_in(dir);
            let file = file.map_err(|error| cannot("create a file in", dir, error))?;
            if index == 0 {
                // Before a large file is written in vain.
                check_direct(&file, dir)?;
                tell!("writing {count} x {mib} MiB");
            }
            let seed = seed.wrapping_add(index as u64);
            write(&file, mib * MIB / BLOCK_BYTES as u64, seed, stop).map_err(|error| {
                let what = format!("write {mib} MiB in");
                cannot(&what, dir, error)
            })?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            check_whole(&file, dir)?;
            files.push(file);
        }
        let metadata = fs::metadata(dir).with_context(|| format!("look at {}", dir.display()))?;
        let device = Device::of(metadata.dev());
        let described = device.describe(dir);
        Ok(TestFiles {
            files,
            device,
            mib,
            described,
        })
    }

    /// Returns paths by which other processes can open the first files.
    #[must_use]
    pub fn paths(&self, count: usize) -> Vec<PathBuf> {
        let path =
            |file: &File| PathBuf::from(format!("/proc/{}/fd/{}", process::id(), file.as_raw_fd()));
        self.files.iter().take(count).map(path).collect()
    }

    /// Returns the path of the last file.
    pub(crate) fn last_path(&self) -> Vec<PathBuf> {
        self.paths(self.files.len()).split_off(self.files.len() - 1)
    }

    /// Returns disk and files in words.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let files = format!("{} of {} MiB", self.files.len(), self.mib);
        let pairs = [("disk", self.described.clone()), ("files", files)];
        pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}

/// Opens a file past the page cache.
///
/// # Errors
///
/// The errors of `open(2)`.
pub(crate) fn open_direct(path: &Path) -> io::Result<File> {
    File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(path)
}

/// Allocates the memory of a block as direct I/O on this file requires it.
///
/// # Errors
///
/// `Unsupported` if the file system does not report the alignment, or requires more than a block.
pub(crate) fn buffer(file: &File) -> io::Result<AlignedBuffer> {
    let file = uthread::fs::File::from(file.try_clone()?);
    let alignment = file.direct_alignment()?;
    if alignment.offset() > BLOCK_BYTES {
        let reason = format!(
            "direct I/O here takes units of {} bytes",
            alignment.offset()
        );
        return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
    }
    AlignedBuffer::new(alignment, BLOCK_BYTES)
}

/// The block device below a directory.
pub(crate) struct Device {
    /// Its directory in `/sys`, unless the file system has none.
    sys: Option<PathBuf>,
}

impl Device {
    fn of(dev: u64) -> Device {
        let link = format!("/sys/dev/block/{}:{}", major(dev), minor(dev));
        let sys = fs::canonicalize(link).ok();
        // A partition has the queue of its disk.
        let sys = sys.map(|sys| {
            if sys.join("queue").is_dir() {
                sys
            } else {
                sys.parent().map_or(sys.clone(), Path::to_owned)
            }
        });
        Device { sys }
    }

    /// Returns why I/O cannot be polled, or `None` if it can.
    pub(crate) fn polling_refusal(&self) -> Option<String> {
        match self.queue("io_poll").as_deref() {
            Some("1") => None,
            _ => Some("the device has no queues for polling (`queue/io_poll` is not 1)".to_owned()),
        }
    }

    fn describe(&self, dir: &Path) -> String {
        let Some(sys) = &self.sys else {
            return format!("{}: no block device of its own", dir.display());
        };
        let name = sys.file_name().unwrap_or_default().to_string_lossy();
        let all = self.queue("scheduler").unwrap_or_default();
        let scheduler = all.split(['[', ']']).nth(1).unwrap_or(&all);
        let requests = self.queue("nr_requests").unwrap_or_default();
        let kind = match self.queue("rotational").as_deref() {
            Some("1") => ", rotational",
            _ => "",
        };
        format!("/dev/{name}{kind}, scheduler {scheduler}, {requests} requests")
    }

    fn queue(&self, attribute: &str) -> Option<String> {
        let path = self.sys.as_ref()?.join("queue").join(attribute);
        let text = fs::read_to_string(path).ok()?;
        Some(text.trim().to_owned())
    }
}

fn cannot(what: &str, dir: &Path, error: impl Display) -> anyhow::Error {
    Unavailable(format!("cannot {what} {}: {error}", dir.display())).into()
}

/// Checks that the file system reports an alignment for direct I/O: one in memory accepts
/// `O_DIRECT`, but reports none.
fn check_direct(file: &File, dir: &Path) -> Result<()> {
    buffer(file).map(drop).map_err(|error| {
        let dir = dir.display();
        Unavailable(format!(
            "{dir} cannot be measured past the page cache ({error}): name a directory on a disk by --dir"
        ))
        .into()
    })
}

/// Writes all blocks, unless `stop` is set meanwhile.
fn write(mut file: &File, blocks: u64, seed: u64, stop: &AtomicBool) -> io::Result<()> {
    let mut random = Rng::with_seed(seed);
    let mut bytes = vec![0; WRITE_BYTES];
    let mut block = 0;
    while block < blocks && !stop.load(Ordering::Relaxed) {
        let count = (blocks - block).min((WRITE_BYTES / BLOCK_BYTES) as u64);
        let part = &mut bytes[..count as usize * BLOCK_BYTES];
        for (bytes, block) in part.chunks_exact_mut(BLOCK_BYTES).zip(block..) {
            blocks::fill(block, &mut random, bytes);
        }
        file.write_all(part)?;
        block += count;
    }
    file.sync_all()?;
    // A direct read looks into the page cache first.
    Ok(fadvise(file, 0, None, Advice::DontNeed)?)
}

/// Reads of holes do not reach the disk.
fn check_whole(file: &File, dir: &Path) -> Result<()> {
    let metadata = file.metadata()?;
    if metadata.blocks() * SECTOR_BYTES >= metadata.len() {
        Ok(())
    } else {
        let reason = "the file system stores fewer bytes than were written";
        Err(cannot("measure", dir, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_has_numbered_blocks() {
        let file = tempfile::tempfile().unwrap();
        let stop = AtomicBool::new(false);
        // More than one write, and a part of one.
        let count = (WRITE_BYTES / BLOCK_BYTES) as u64 + 3;
        write(&file, count, 1, &stop).unwrap();
        let mut bytes = vec![0; BLOCK_BYTES];
        for block in 0..count {
            use std::os::unix::fs::FileExt;
            let read = file.read_at(&mut bytes, block * BLOCK_BYTES as u64);
            blocks::check(crate::walk::Request::Read(block), read, &bytes).unwrap();
        }
        assert_eq!(file.metadata().unwrap().len(), count * BLOCK_BYTES as u64);
        stop.store(true, Ordering::Relaxed);
        let unwritten = tempfile::tempfile().unwrap();
        write(&unwritten, count, 1, &stop).unwrap();
        assert_eq!(unwritten.metadata().unwrap().len(), 0);
    }

    #[test]
    fn a_hole_is_found() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MIB).unwrap();
        assert!(check_whole(&file, Path::new("here")).is_err());
    }
}
