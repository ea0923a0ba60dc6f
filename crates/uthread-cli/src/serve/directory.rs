//! The directory that the root's path leads to, opened anew when that becomes another one: a
//! symbolic link to a release is switched, or a build removes the directory and creates it again.

use std::io;
use std::os::fd::AsFd;
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::path::Arg;
use uthread::fs::Dir;

#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    dir: Arc<Dir>,
    id: Id,
    /// When the last comparison that found this directory at the path began.
    compared_at: Instant,
}

/// Major and minor device number, and inode number. It belongs to no other directory while this one
/// is open.
type Id = (u32, u32, u64);

impl Directory {
    pub(crate) fn open(path: &Path) -> io::Result<Directory> {
        let compared_at = Instant::now();
        let dir = Dir::open(path)?;
        let id = id(&dir, "", AtFlags::EMPTY_PATH)?;
        // An absolute path also leads to a directory that replaces the current one of this process.
        // Its parents may forbid this user the way.
        let absolute = path::absolute(path).ok();
        let absolute = absolute.filter(|path| id_at(path).is_ok_and(|found| found == id));
        Ok(Directory {
            path: absolute.unwrap_or_else(|| path.to_owned()),
            known: Mutex::new(Known {
                dir: Arc::new(dir),
                id,
                compared_at,
            }),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory that the path led to at `asked` or later. One comparison serves all
    /// requests that were received before it began.
    pub(crate) fn get(&self, asked: Instant) -> io::Result<Arc<Dir>> {
        if let Some(dir) = self.compared_since(asked) {
            return Ok(dir);
        }
        let compared_at = Instant::now();
        let found = id_at(&self.path)?;
        if let Some(dir) = self.confirm(found, compared_at) {
            return Ok(dir);
        }
        let dir = Arc::new(Dir::open(&self.path)?);
        *self.lock() = Known {
            dir: Arc::clone(&dir),
            id: id(&dir, "", AtFlags::EMPTY_PATH)?,
            compared_at,
        };
        Ok(dir)
    }

    fn compared_since(&self, asked: Instant) -> Option<Arc<Dir>> {
        let known = self.lock();
        (known.compared_at >= asked).then(|| Arc::clone(&known.dir))
    }

    /// Returns the known directory if it was found.
    fn confirm(&self, found: Id, compared_at: Instant) -> Option<Arc<Dir>> {
        let mut known = self.lock();
        (known.id == found).then(|| {
            known.compared_at = known.compared_at.max(compared_at);
            Arc::clone(&known.dir)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn id_at(path: &Path) -> rustix::io::Result<Id> {
    id(CWD, path, AtFlags::empty())
}

/// Identifies a directory. Does not wait for the file system of another machine, as the comparisons
/// of the cache.
fn id(dir: impl AsFd, path: impl Arg, flags: AtFlags) -> rustix::io::Result<Id> {
    let flags = flags | AtFlags::STATX_DONT_SYNC;
    let found = statx(dir, path, flags, StatxFlags::INO)?;
    Ok((found.stx_dev_major, found.stx_dev_minor, found.stx_ino))
}
