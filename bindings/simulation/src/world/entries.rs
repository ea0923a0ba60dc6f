//! The directories of a disk: changes to them that were not synced, of which a crash loses the last ones.
//!
//! A change is made at once, and can be undone until each directory that it concerns was synced. POSIX promises
//! no more: syncing a file does not make its name durable.
//!
//! ```text
//!   create tmp  rename tmp, log  | create other     sync of the directory: nothing is left to undo
//!   kept by a crash              | undone, the last one first
//! ```

use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::chance;

/// Number of changes that can be undone. The oldest of more are durable: file systems write their journals by
/// themselves.
const CHANGES_MAX: usize = 1000;

/// A file by its device and its number on that.
pub(super) type Id = (u64, u64);

/// A path that starts at a directory, or at the working directory.
pub(crate) type At<'a> = (Option<i32>, &'a CStr);

/// A change to directories that a program asks for.
#[derive(Debug)]
pub(crate) enum Change<'a> {
    Create(At<'a>),
    /// Of a directory if that is `true`.
    Remove(At<'a>, bool),
    Rename(At<'a>, At<'a>, RenameFlags),
    /// Of the size of a file, and no directory.
    Resize(At<'a>, u64),
}

/// A name in a directory.
#[derive(Debug, Clone)]
pub(super) struct Place {
    directory: Arc<OwnedFd>,
    id: Id,
    /// Of the directory.
    pub(super) path: PathBuf,
    name: CString,
}

#[derive(Debug)]
pub(super) struct Entries {
    changes: VecDeque<Made>,
    /// The directory for files that are removed as long as that can be undone.
    removed: PathBuf,
    next: u64,
}

/// A change that was made.
#[derive(Debug)]
struct Made {
    /// The directories that have to be synced.
    unsynced: Vec<Id>,
    undo: Undo,
}

#[derive(Debug)]
enum Undo {
    Create(Place),
    /// The file is there.
    Remove(Place, Place),
    /// The last is where the file is that was replaced.
    Rename(Place, Place, Option<Place>),
    Exchange(Place, Place),
}

impl<'a> Change<'a> {
    pub(super) fn places(&self) -> impl Iterator<Item = At<'a>> {
        let (first, second) = match *self {
            Change::Create(at) | Change::Remove(at, _) | Change::Resize(at, _) => (at, None),
            Change::Rename(from, to, _) => (from, Some(to)),
        };
        [first].into_iter().chain(second)
    }
}

impl Place {
    /// Returns the place of a path whose directory exists.
    pub(super) fn of((start, path): At<'_>) -> Option<Place> {
        let bytes = path.to_bytes();
        let length = bytes.iter().rposition(|byte| *byte != b'/')? + 1;
        let (above, name) = match bytes[..length].iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&bytes[..=at], &bytes[at + 1..length]),
            None => (&b"."[..], &bytes[..length]),
        };
        if [&b"."[..], b".."].contains(&name) {
            return None;
        }
        let start = start.map_or(fs::CWD, super::sockets::borrow);
        Place::open(start, above, name).ok()
    }

    fn open(start: impl AsFd, above: &[u8], name: &[u8]) -> std::io::Result<Place> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::openat(start, above, flags, Mode::empty())?;
        Ok(Place {
            id: id(&fs::fstat(&directory)?),
            path: std::fs::read_link(path_of(directory.as_fd()))?,
            name: CString::new(name)?,
            directory: Arc::new(directory),
        })
    }

    /// Opens what has this name, to read and to change it.
    pub(super) fn open_file(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        fs::openat(&self.directory, &self.name, flags, Mode::empty())
    }

    /// Returns the status of what has this name.
    fn status(&self) -> rustix::io::Result<Stat> {
        fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn rename(&self, to: &Place, flags: RenameFlags) -> rustix::io::Result<()> {
        let (from, new) = (&self.directory, &to.directory);
        fs::renameat_with(from, &self.name, new, &to.name, flags)
    }

    /// Gives the file another name, which is free.
    fn move_to(&self, to: &Place) -> rustix::io::Result<()> {
        self.rename(to, RenameFlags::NOREPLACE)
    }

    /// Removes a file, or an empty directory.
    fn remove(&self) {
        for flags in [AtFlags::empty(), AtFlags::REMOVEDIR] {
            // What is left is removed with the world.
            let _ = fs::unlinkat(&self.directory, &self.name, flags);
        }
    }
}

impl Entries {
    /// `removed` is a directory on the same file system.
    pub(super) fn new(removed: PathBuf) -> Entries {
        Entries {
            changes: VecDeque::new(),
            removed,
            next: 0,
        }
    }

    /// Notes that a file is about to be created, unless it exists.
    pub(super) fn note_creation(&mut self, place: Place) {
        if place.status().is_err_and(|errno| errno == Errno::NOENT) {
            self.note(vec![place.id], Undo::Create(place));
        }
    }

    /// Makes a change at these places, by `call`, whose result is negative if it fails.
    pub(super) fn make(
        &mut self,
        change: &Change<'_>,
        places: &[Place],
        call: impl FnOnce() -> isize,
    ) -> isize {
        match (change, places) {
            (Change::Create(_), [place]) => {
                self.note_creation(place.clone());
                call()
            }
            (Change::Remove(_, is_directory), [place]) => self.remove(place, *is_directory, call),
            (Change::Rename(.., flags), [from, to]) => self.rename(from, to, *flags, call),
            _ => call(),
        }
    }

    fn remove(&mut self, place: &Place, is_directory: bool, call: impl FnOnce() -> isize) -> isize {
        let Some(saved) = self.free_place() else {
            return call();
        };
        // An empty directory is moved: what was removed from it before may come back as well.
        if is_directory {
            if !is_empty(place) || place.move_to(&saved).is_err() {
                return call();
            }
            self.note(vec![place.id], Undo::Remove(place.clone(), saved));
            return 0;
        }
        let is_saved = save(place, &saved);
        let result = call();
        if result < 0 {
            saved.remove();
        } else if is_saved {
            self.note(vec![place.id], Undo::Remove(place.clone(), saved));
        }
        result
    }

    fn rename(
        &mut self,
        from: &Place,
        to: &Place,
        flags: RenameFlags,
        call: impl FnOnce() -> isize,
    ) -> isize {
        let ids = [from, to].map(|place| place.status().map(|status| id(&status)));
        let is_one = ids[0].is_ok() && ids[0] == ids[1];
        let is_exchange = flags.contains(RenameFlags::EXCHANGE);
        let saved = self
            .free_place()
            .filter(|saved| !is_exchange && !is_one && save(to, saved));
        let result = call();
        if result < 0 || is_one {
            saved.inspect(Place::remove);
            return result;
        }
        let mut unsynced = vec![from.id, to.id];
        unsynced.dedup();
        let (from, to) = (from.clone(), to.clone());
        let undo = if is_exchange {
            Undo::Exchange(from, to)
        } else {
            Undo::Rename(from, to, saved)
        };
        self.note(unsynced, undo);
        result
    }

    /// Makes the changes to a directory durable.
    pub(super) fn sync(&mut self, directory: Id) {
        for made in &mut self.changes {
            made.unsynced.retain(|unsynced| *unsynced != directory);
        }
        self.changes.retain(|made| {
            let can_be_undone = !made.unsynced.is_empty();
            if !can_be_undone {
                made.forget();
            }
            can_be_undone
        });
    }

    /// Chooses how many of the changes a crash keeps. Returns how many it loses.
    pub(super) fn choose_lost(&self) -> usize {
        match self.changes.len() {
            0 => 0,
            count => count - chance::up_to(count),
        }
    }

    /// Undoes so many of the last changes, and makes the others durable. Returns what is undone, the last one
    /// first, with paths from this directory.
    pub(super) fn crash(&mut self, lost: usize, directory: &Path) -> Vec<String> {
        let mut changes: Vec<_> = std::mem::take(&mut self.changes).into();
        let lost = changes.split_off(changes.len() - lost);
        changes.iter().for_each(Made::forget);
        let mut texts = Vec::new();
        for Made { undo, .. } in lost.iter().rev() {
            if self.undo(undo) {
                texts.push(undo.text(directory));
            }
        }
        texts
    }

    /// Returns `false` if the change was not made, or something else has taken its place.
    fn undo(&mut self, undo: &Undo) -> bool {
        match undo {
            Undo::Create(place) => {
                let lost = self.free_place();
                lost.is_some_and(|lost| place.move_to(&lost).is_ok())
            }
            Undo::Remove(place, saved) => saved.move_to(place).is_ok(),
            Undo::Rename(from, to, replaced) => {
                let is_undone = to.move_to(from).is_ok();
                if is_undone && let Some(replaced) = replaced {
                    let _ = replaced.move_to(to);
                }
                is_undone
            }
            Undo::Exchange(from, to) => from.rename(to, RenameFlags::EXCHANGE).is_ok(),
        }
    }

    fn note(&mut self, unsynced: Vec<Id>, mut undo: Undo) {
        for place in undo.places() {
            // One descriptor for each directory.
            let mut known = self.changes.iter_mut().flat_map(|made| made.undo.places());
            if let Some(known) = known.find(|known| known.id == place.id) {
                place.directory = Arc::clone(&known.directory);
            }
        }
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front().inspect(Made::forget);
        }
        self.changes.push_back(Made { unsynced, undo });
    }

    /// Returns a name for a file that is removed.
    fn free_place(&mut self) -> Option<Place> {
        // It may be there.
        let _ = fs::mkdir(&self.removed, Mode::RWXU);
        self.next += 1;
        let name = self.next.to_string();
        let removed = self.removed.as_os_str().as_bytes();
        Place::open(fs::CWD, removed, name.as_bytes()).ok()
    }
}

impl Made {
    /// Frees what was kept to undo it.
    fn forget(&self) {
        if let Undo::Remove(_, saved) | Undo::Rename(.., Some(saved)) = &self.undo {
            saved.remove();
        }
    }
}

impl Undo {
    fn places(&mut self) -> impl Iterator<Item = &mut Place> {
        let (first, second, third) = match self {
            Undo::Create(place) => (place, None, None),
            Undo::Remove(place, other) | Undo::Exchange(place, other) => (place, Some(other), None),
            Undo::Rename(from, to, replaced) => (from, Some(to), replaced.as_mut()),
        };
        [first].into_iter().chain(second).chain(third)
    }

    fn text(&self, directory: &Path) -> String {
        let name = |place: &Place| {
            let path = place.path.join(OsStr::from_bytes(place.name.to_bytes()));
            let short = path.strip_prefix(directory).unwrap_or(&path);
            format!("`{}`", short.display())
        };
        match self {
            Undo::Create(place) => format!("{} created", name(place)),
            Undo::Remove(place, _) => format!("{} removed", name(place)),
            Undo::Rename(from, to, _) => format!("{} renamed to {}", name(from), name(to)),
            Undo::Exchange(from, to) => format!("{} and {} exchanged", name(from), name(to)),
        }
    }
}

/// Gives a file another name as well. Returns `false` if there is none, or if it is a directory.
fn save(place: &Place, saved: &Place) -> bool {
    let (from, to) = (&place.directory, &saved.directory);
    fs::linkat(from, &place.name, to, &saved.name, AtFlags::empty()).is_ok()
}

fn is_empty(place: &Place) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = fs::openat(&place.directory, &place.name, flags, Mode::empty());
    let Ok(mut entries) = opened.and_then(Dir::new) else {
        return false;
    };
    let is_own = |name: &CStr| [c".", c".."].contains(&name);
    entries.all(|entry| entry.is_ok_and(|entry| is_own(entry.file_name())))
}

pub(super) fn id(status: &Stat) -> Id {
    (status.st_dev, status.st_ino)
}

/// Returns the path by which an open file can be opened again.
pub(super) fn path_of(fd: BorrowedFd<'_>) -> PathBuf {
    Path::new("/proc/self/fd").join(fd.as_raw_fd().to_string())
}
