//! What a program does outside of its world: noted with its place, or denied.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{MutexGuard, TryLockError};
use std::{fmt, io};

use rustix::fs::OFlags;
use rustix::io::Errno;
use uthread::interposition;
#[cfg(all(target_env = "gnu", target_arch = "x86_64"))]
use uthread_interpose::keep_thread;

use super::entries::{At, Change, Place, path_of};
use super::sockets::borrow;
use super::trace::Event;
use super::{Shared, now};
use crate::lock::lock;
use crate::place;

/// Number of ways to what leaves a world that are told apart. Those after these are not noted.
const WAYS_MAX: usize = 1000;

/// Devices that answer each program alike, and the names of files that are open.
const HARMLESS: [&str; 9] = [
    "/dev/fd",
    "/dev/full",
    "/dev/null",
    "/dev/stderr",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/tty",
    "/dev/zero",
    "/proc/self/fd",
];

const RANDOM: [&str; 2] = ["/dev/random", "/dev/urandom"];

/// What has left a world.
#[derive(Debug, Default)]
pub(super) struct Escapes {
    pub(super) is_denied: bool,
    /// What was done, and by which functions.
    ways: BTreeSet<(String, Vec<usize>)>,
    /// Once for each kind and place.
    found: Vec<Escape>,
}

#[derive(Debug)]
struct Escape {
    kind: String,
    place: String,
    is_harmless: bool,
    /// As it is shown.
    text: String,
}

/// What is about to happen: its kind, and to what.
#[derive(Debug, PartialEq, Eq)]
struct Act<'a> {
    kind: &'a str,
    object: Option<&'a Path>,
    /// A file that is only read: as long as it stays as it is, each run gets the same.
    is_harmless: bool,
}

impl<'a> Act<'a> {
    fn harmful(kind: &'a str, object: Option<&'a Path>) -> Act<'a> {
        Act {
            kind,
            object,
            is_harmless: false,
        }
    }
}

impl fmt::Display for Act<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.kind)?;
        match self.object {
            Some(path) => write!(formatter, " `{}`", path.display()),
            None => Ok(()),
        }
    }
}

impl Escapes {
    /// Notes what the caller is about to do. Returns its line, if neither its kind nor its place is known.
    fn note(&mut self, act: &Act<'_>, host: &str) -> Option<String> {
        let way = (act.kind.to_owned(), place::frames());
        if self.ways.len() == WAYS_MAX || self.ways.contains(&way) {
            return None;
        }
        let place = place::of(&way.1);
        self.ways.insert(way);
        let mut found = self.found.iter();
        if found.any(|known| known.kind == act.kind && known.place == place) {
            return None;
        }
        let text = format!("{host}: {act}, at {place}");
        self.found.push(Escape {
            kind: act.kind.to_owned(),
            place,
            is_harmless: act.is_harmless,
            text: text.clone(),
        });
        Some(text)
    }

    /// Returns a line for each that a seed does not decide.
    pub(super) fn text(&self) -> String {
        let harmful = self.found.iter().filter(|escape| !escape.is_harmless);
        harmful.map(|escape| escape.text.clone() + "\n").collect()
    }
}

impl Shared {
    /// Notes what the caller is about to do, which is outside of the world.
    ///
    /// # Errors
    ///
    /// `EPERM` if that is denied.
    pub(crate) fn leave(&self, kind: &str, object: Option<&Path>) -> io::Result<()> {
        self.note_act(&Act::harmful(kind, object))
    }

    /// Returns `true` if the code before this address, which is being called, is the program's.
    pub(crate) fn is_program(&self, address: usize) -> bool {
        // What the search for it does is not the program's.
        let locked = unless_locked(self.escapes.try_lock());
        locked.is_some_and(|_escapes| keep_thread(|| place::is_of_program(address)))
    }

    /// Makes a change to directories by `call`, whose result is negative if it fails; some may be outside of the
    /// world.
    ///
    /// # Errors
    ///
    /// `EPERM` if one is outside, and that is denied; those of a disk that fails.
    pub(crate) fn change(
        &self,
        change: &Change<'_>,
        call: impl FnOnce() -> isize,
    ) -> io::Result<isize> {
        for at in change.places() {
            self.reach(at, true)?;
        }
        let places: Option<Vec<_>> = change.places().map(Place::of).collect();
        let places = places.filter(|_| interposition::host().is_some());
        if let Some(places) = places
            && let Some(mut state) = unless_locked(self.state.try_lock())
            && let Some(disk) = state.disk(&places[0].path)
            && places
                .iter()
                .all(|place| place.path.starts_with(&disk.directory))
        {
            if let Change::Resize(_, size) = change {
                disk.resize_at(&places[0], *size)?;
            }
            return Ok(disk.entries.make(change, &places, call));
        }
        Ok(call())
    }

    /// Notes that the caller is about to open a file with these flags, which may be outside of the world, or be
    /// created or truncated.
    ///
    /// # Errors
    ///
    /// `EPERM` if it is outside and may be changed, and that is denied; those of a disk that fails.
    pub(super) fn reach_by_flags(&self, at: At<'_>, flags: u64) -> io::Result<()> {
        let flags = OFlags::from_bits_retain(flags as u32);
        let changes = OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
        self.reach(at, flags.intersects(changes))?;
        if flags.intersects(OFlags::CREATE | OFlags::TRUNC)
            && interposition::host().is_some()
            && let Some(place) = Place::of(at)
            && let Some(mut state) = unless_locked(self.state.try_lock())
            && let Some(disk) = state.disk(&place.path)
        {
            if flags.contains(OFlags::TRUNC) {
                disk.resize_at(&place, 0)?;
            }
            if flags.contains(OFlags::CREATE) {
                disk.entries.note_creation(place);
            }
        }
        Ok(())
    }

    /// Notes that the caller is about to use a Unix socket with this name, as if it opened a file there with these
    /// flags. Abstract names are the same for all worlds and hosts.
    ///
    /// # Errors
    ///
    /// As for [`reach_by_flags`](Shared::reach_by_flags).
    pub(crate) fn reach_unix_by(&self, name: &[u8], flags: OFlags) -> io::Result<()> {
        if let [0, name @ ..] = name {
            let name = Path::new(OsStr::from_bytes(name));
            return self.leave("uses an abstract name of a Unix socket,", Some(name));
        }
        let path = CString::new(name)?;
        self.reach_by_flags((None, &path), flags.bits().into())
    }

    fn reach(&self, at: At<'_>, changes: bool) -> io::Result<()> {
        let path = absolute(at);
        let own = interposition::host().and_then(|host| self.own_directory(host));
        let own = own.as_deref().unwrap_or(&self.directory);
        match outside(&path, changes, own, &self.directory) {
            // A panic reads the files of the program for its backtrace.
            Some(act) if act.is_harmless && std::thread::panicking() => Ok(()),
            Some(act) => self.note_act(&act),
            None => Ok(()),
        }
    }

    /// Returns why the test fails, if something was denied.
    pub(super) fn denied(&self) -> Option<String> {
        let escapes = lock(&self.escapes);
        let text = escapes.text();
        let is_denied = escapes.is_denied && !text.is_empty();
        is_denied.then(|| format!("something was to happen outside of the world:\n{text}"))
    }

    /// Returns what a failed test shows of what has left the world.
    pub(super) fn escapes_text(&self) -> String {
        let text = lock(&self.escapes).text();
        if text.is_empty() {
            return text;
        }
        format!("outside of the world, where no seed decides:\n{text}")
    }

    /// Notes that the test connects to an address or sends to it, which may be that of another computer. Hosts
    /// reach hosts only.
    ///
    /// # Errors
    ///
    /// `EPERM` if it is, and that is denied.
    pub(super) fn reach_address(&self, to: SocketAddr) -> io::Result<()> {
        if to.ip().to_canonical().is_loopback() || to.ip().is_unspecified() {
            return Ok(());
        }
        let to = to.to_string();
        self.leave(
            "uses an address outside of the world,",
            Some(Path::new(&to)),
        )
    }

    fn own_directory(&self, host: u32) -> Option<PathBuf> {
        let state = self.state.try_lock().ok()?;
        Some(self.directory.join(state.name(host)))
    }

    fn note_act(&self, act: &Act<'_>) -> io::Result<()> {
        // Another world may look for a place, which takes a lock of the process: suspending the fiber would let
        // others run, which is nothing that the seed decides.
        keep_thread(|| self.note_act_of_thread(act))
    }

    fn note_act_of_thread(&self, act: &Act<'_>) -> io::Result<()> {
        let Some(mut escapes) = unless_locked(self.escapes.try_lock()) else {
            // The search for a place reads the files of the program.
            return Ok(());
        };
        // The world itself may be the caller.
        let Some(mut state) = unless_locked(self.state.try_lock()) else {
            return Ok(());
        };
        let host = interposition::host().map_or("the test", |host| state.name(host));
        if let Some(text) = escapes.note(act, host) {
            state.trace.add(now(), Event::Done(text));
        }
        if escapes.is_denied && !act.is_harmless {
            return Err(Errno::PERM.into());
        }
        Ok(())
    }
}

/// Elsewhere, there are no worlds.
#[cfg(not(all(target_env = "gnu", target_arch = "x86_64")))]
fn keep_thread<R>(action: impl FnOnce() -> R) -> R {
    action()
}

fn unless_locked<'a, T>(
    locked: Result<MutexGuard<'a, T>, TryLockError<MutexGuard<'a, T>>>,
) -> Option<MutexGuard<'a, T>> {
    match locked {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns the path from the root, without `.` and `..`; links are not followed.
fn absolute((directory, path): At<'_>) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let mut whole = match directory {
        _ if path.is_absolute() => PathBuf::new(),
        Some(fd) => std::fs::read_link(path_of(borrow(fd))).unwrap_or_default(),
        None => std::env::current_dir().unwrap_or_default(),
    };
    for component in path.components() {
        match component {
            Component::ParentDir => _ = whole.pop(),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                whole.push(component);
            }
        }
    }
    whole
}

/// Returns what it is to open or to change this file, unless it is in the world: in the directory `own` of the
/// host, or a device that answers each program alike.
fn outside<'a>(path: &'a Path, changes: bool, own: &Path, world: &Path) -> Option<Act<'a>> {
    let is_any = |paths: &[&str]| paths.iter().any(|of_list| path.starts_with(of_list));
    if path.starts_with(own) || is_any(&HARMLESS) {
        return None;
    }
    if path.starts_with(world) {
        let kind = "uses a file of another host,";
        return Some(Act::harmful(kind, Some(path)));
    }
    if is_any(&RANDOM) {
        return Some(Act::harmful("takes random bytes from", Some(path)));
    }
    if changes {
        return Some(Act::harmful(
            "changes a file outside of the world,",
            Some(path),
        ));
    }
    Some(Act {
        kind: "reads a file outside of the world,",
        object: Some(path),
        is_harmless: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_in_the_world_or_outside() {
        let kind = |path: &str, changes| {
            let path = Path::new(path);
            outside(path, changes, Path::new("/w/a"), Path::new("/w")).map(|act| {
                (
                    act.kind.split(' ').next().unwrap().to_owned(),
                    act.is_harmless,
                )
            })
        };
        let of = |kind: &str, is_harmless| Some((kind.to_owned(), is_harmless));
        assert_eq!(kind("/w/a/log", true), None);
        assert_eq!(kind("/dev/null", true), None);
        assert_eq!(kind("/proc/self/fd/3", true), None);
        assert_eq!(kind("/w/b/log", false), of("uses", false));
        assert_eq!(kind("/dev/urandom", false), of("takes", false));
        assert_eq!(kind("/tmp/file", true), of("changes", false));
        assert_eq!(kind("/etc/hosts", false), of("reads", true));
    }

    #[test]
    fn a_path_is_made_absolute() {
        assert_eq!(absolute((None, c"/a/./b/../c")), Path::new("/a/c"));
        let here = std::env::current_dir().unwrap();
        assert_eq!(absolute((None, c"x")), here.join("x"));
        assert_eq!(absolute((Some(-1), c"/x")), Path::new("/x"));
    }
}
