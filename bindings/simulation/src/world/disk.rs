//! The disks of a world: the files below the directory of a host, of which a crash loses what was not
//! synced.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::entries::{Entries, Id, Place, id, path_of};
use crate::chance;

/// The disk of a host.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) directory: PathBuf,
    pub(super) entries: Entries,
    /// Those with writes that were not synced.
    files: BTreeMap<Id, Unsynced>,
    next: u64,
    /// Number of bytes that can still be written.
    pub(super) free_bytes: Option<u64>,
    pub(super) fails: bool,
}

#[derive(Debug)]
struct Unsynced {
    /// In which order they are: their ids are the kernel's choice.
    number: u64,
    file: File,
    writes: Vec<Write>,
}

/// A write, or a change of the size, which is one of the bytes in between; and what was there before.
#[derive(Debug)]
struct Write {
    offset: u64,
    length: usize,
    before: Vec<u8>,
    /// The size of the file before.
    size: u64,
}

impl Disk {
    /// Creates the disk with this directory. Files that are removed are in another one.
    pub(super) fn new(directory: PathBuf, removed: PathBuf) -> Disk {
        Disk {
            directory,
            entries: Entries::new(removed),
            files: BTreeMap::new(),
            next: 0,
            free_bytes: None,
            fails: false,
        }
    }

    /// Notes a write that is about to be made.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the disk is full, `EIO` if it fails.
    pub(super) fn write(
        &mut self,
        fd: BorrowedFd<'_>,
        status: &Stat,
        offset: Option<u64>,
        length: usize,
    ) -> io::Result<()> {
        if self.fails {
            return Err(Errno::IO.into());
        }
        let size = status.st_size.cast_unsigned();
        let offset = match offset {
            Some(offset) => offset,
            None if rustix::fs::fcntl_getfl(fd)?.contains(OFlags::APPEND) => size,
            None => rustix::fs::seek(fd, SeekFrom::Current(0))?,
        };
        let present = self.files.get(&id(status));
        let last = present.and_then(|unsynced| unsynced.writes.last());
        if last.is_some_and(|last| (last.offset, last.length, last.size) == (offset, length, size))
        {
            // The same write, which goes on in another way.
            return Ok(());
        }
        if let Some(free_bytes) = &mut self.free_bytes {
            let left = free_bytes.checked_sub(length as u64);
            *free_bytes = left.ok_or(Errno::NOSPC)?;
        }
        self.note(fd, status, offset, length)
    }

    /// Notes that a file is about to get this size.
    ///
    /// # Errors
    ///
    /// `EIO` if the disk fails; those of opening the file.
    pub(super) fn resize(
        &mut self,
        fd: BorrowedFd<'_>,
        status: &Stat,
        size: u64,
    ) -> io::Result<()> {
        let before = status.st_size.cast_unsigned();
        if before == size {
            return Ok(());
        }
        if self.fails {
            return Err(Errno::IO.into());
        }
        self.note(fd, status, before.min(size), before.abs_diff(size) as usize)
    }

    /// Notes that the file at a place is about to get this size, if there is one.
    ///
    /// # Errors
    ///
    /// As [`resize`](Disk::resize).
    pub(super) fn resize_at(&mut self, place: &Place, size: u64) -> io::Result<()> {
        let Ok(file) = place.open_file() else {
            return Ok(());
        };
        match of_type(file.as_fd(), &[FileType::RegularFile]) {
            Some((status, path)) if path.starts_with(&self.directory) => {
                self.resize(file.as_fd(), &status, size)
            }
            _ => Ok(()),
        }
    }

    /// Notes what is about to be changed.
    fn note(
        &mut self,
        fd: BorrowedFd<'_>,
        status: &Stat,
        offset: u64,
        length: usize,
    ) -> io::Result<()> {
        let size = status.st_size.cast_unsigned();
        let unsynced = match self.files.entry(id(status)) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                // The program's descriptor may be closed before the crash, or only be for writes.
                let flags = OFlags::RDWR | OFlags::CLOEXEC;
                let file = rustix::fs::open(path_of(fd), flags, Mode::empty())?.into();
                self.next += 1;
                entry.insert(Unsynced {
                    number: self.next,
                    file,
                    writes: Vec::new(),
                })
            }
        };
        let there = size.saturating_sub(offset).min(length as u64);
        let before = read(&unsynced.file, offset, there as usize)?;
        unsynced.writes.push(Write {
            offset,
            length,
            before,
            size,
        });
        Ok(())
    }

    /// Keeps what was written to a file, or the changes to a directory. The disk of the machine is not asked,
    /// which would take long.
    ///
    /// # Errors
    ///
    /// `EIO` if the disk fails.
    pub(super) fn sync(&mut self, status: &Stat) -> io::Result<()> {
        if self.fails {
            return Err(Errno::IO.into());
        }
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => self.entries.sync(id(status)),
            _ => _ = self.files.remove(&id(status)),
        }
        Ok(())
    }

    /// Loses what was not synced: of each file, the writes from a random one on, of which a part may have
    /// reached the disk.
    ///
    /// # Errors
    ///
    /// Those of the files.
    pub(super) fn crash(&mut self) -> io::Result<()> {
        let files = std::mem::take(&mut self.files).into_values();
        let mut files: Vec<_> = files.collect();
        files.sort_by_key(|unsynced| unsynced.number);
        for Unsynced { file, writes, .. } in files {
            let kept = chance::up_to(writes.len());
            for write in writes[kept..].iter().skip(1).rev() {
                write.undo(&file)?;
            }
            if let Some(torn) = writes.get(kept) {
                let end = rustix::fs::fstat(&file)?.st_size.cast_unsigned();
                let written = (end.saturating_sub(torn.offset) as usize).min(torn.length);
                let reached = read(&file, torn.offset, chance::up_to(written))?;
                torn.undo(&file)?;
                write_all(&file, &reached, torn.offset)?;
            }
        }
        Ok(())
    }
}

impl Write {
    fn undo(&self, file: &File) -> io::Result<()> {
        write_all(file, &self.before, self.offset)?;
        Ok(rustix::fs::ftruncate(file, self.size)?)
    }
}

/// Writes all bytes. By a system call, as functions of the C library would come back to the world.
fn write_all(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = rustix::io::pwrite(file, bytes, offset)?;
        bytes = &bytes[count..];
        offset += count as u64;
    }
    Ok(())
}

/// Reads at most so many bytes: fewer at the end of the file.
fn read(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut count = 0;
    while count < length {
        match rustix::io::pread(file, &mut bytes[count..], offset + count as u64)? {
            0 => break,
            more => count += more,
        }
    }
    bytes.truncate(count);
    Ok(bytes)
}

/// Returns the status and the path of a file of this type, if it is one.
pub(super) fn of_type(fd: BorrowedFd<'_>, types: &[FileType]) -> Option<(Stat, PathBuf)> {
    let status = rustix::fs::fstat(fd).ok()?;
    if !types.contains(&FileType::from_raw_mode(status.st_mode)) {
        return None;
    }
    let path = std::fs::read_link(path_of(fd)).ok()?;
    Some((status, path))
}
