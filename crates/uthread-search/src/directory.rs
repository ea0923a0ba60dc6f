//! Listing directories.
//!
//! A directory in memory is listed on the worker, as a thread pool would take longer to be reached
//! than the list. While the last lists had to wait for a disk, the next ones go to the pool, so
//! that the worker and its files in flight go on.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use uthread::fs::Dir;

use crate::descriptors::{Descriptors, DirectoryPermit};
use crate::entries::{Entries, Listed};
use crate::filter::{self, Filter};
use crate::plan::Selection;

/// A list that takes longer may have waited for a disk: one from memory takes about 10 us.
const WAIT_MIN: Duration = Duration::from_micros(200);
/// Number of such lists in a row that are due to a disk: a single one may as well have been
/// preempted.
const WAITS_MIN: u32 = 3;

/// One of the paths that the user names.
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    pub(crate) filter: Filter,
    /// `true` for a pipe and whatever else may never end.
    pub(crate) is_endless: bool,
    /// `true` if the user has named no path. Then its name is not printed.
    pub(crate) is_implicit: bool,
}

impl Root {
    /// Returns the part of a path that is printed.
    fn printed<'a>(&self, path: &'a Path) -> &'a Path {
        if self.is_implicit {
            path.strip_prefix("./").unwrap_or(path)
        } else {
            path
        }
    }

    /// Returns the part of a path beneath this one that ignore files see.
    fn relative<'a>(&self, path: &'a Path) -> &'a Path {
        let path = path.as_os_str().as_bytes();
        let rest = &path[self.path.as_os_str().len()..];
        Path::new(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest)))
    }
}

/// A directory to be searched.
pub(crate) struct Directory {
    pub(crate) root: Arc<Root>,
    pub(crate) path: PathBuf,
    /// The directories above, if symbolic links are followed.
    above: Option<Arc<Above>>,
    /// The directory that this one is in, if that is open: a long path takes long to be resolved.
    parent: Option<Arc<Opened>>,
    /// `true` unless an ignore file above may have a rule for this directory.
    is_plain: bool,
    /// Set once a part of it has been listed.
    pub(crate) opened: Option<Arc<Opened>>,
}

/// An open directory.
pub(crate) struct Opened {
    dir: Dir,
    /// `None` if it is closed once it has been listed.
    kept: Option<DirectoryPermit>,
}

/// A directory with files to be searched.
pub(crate) struct Folder {
    root: Arc<Root>,
    path: PathBuf,
    /// The path that is printed.
    pub(crate) printed: PathBuf,
    /// `None` if the directory is opened again for its files, as too many are open.
    kept: Option<Arc<Opened>>,
    /// `true` if a read from a file of this file system returns fewer bytes than wanted only at the
    /// end of the file.
    pub(crate) has_whole_reads: bool,
}

/// A file to be searched.
pub(crate) struct FileEntry {
    pub(crate) folder: Arc<Folder>,
    pub(crate) name: OsString,
    inode: u64,
    /// `true` for a symbolic link, which may lead out of the folder.
    pub(crate) is_link: bool,
}

/// A directory on the way to another one, which a link must not lead back to.
struct Above {
    device: u64,
    inode: u64,
    path: PathBuf,
    above: Option<Arc<Above>>,
}

/// A part of a directory.
#[derive(Default)]
pub(crate) struct Part {
    pub(crate) files: Vec<FileEntry>,
    pub(crate) directories: Vec<Directory>,
    /// The rest of the directory.
    pub(crate) rest: Option<Directory>,
    pub(crate) errors: Vec<String>,
    pub(crate) ignore_errors: Vec<ignore::Error>,
}

/// Lists directories for all readers.
pub(crate) struct Lister {
    follow: bool,
    one_file_system: bool,
    descriptors: Descriptors,
    /// Device and inode of the file that stdout writes to, which is not searched: it would never
    /// end.
    output: Option<(u64, u64)>,
    /// Number of lists in a row that may have waited for a disk.
    waits: AtomicU32,
    /// The file systems seen so far, by their devices, and whether their reads are whole.
    file_systems: Mutex<Vec<(u64, bool)>>,
}

impl FileEntry {
    /// Returns a path of the file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.printed.join(&self.name)
    }
}

impl Folder {
    /// Calls `read` with the open directory.
    ///
    /// # Errors
    ///
    /// The directory cannot be opened again; the errors of `read`.
    pub(crate) fn with_dir<R>(&self, read: impl FnOnce(&Dir) -> io::Result<R>) -> io::Result<R> {
        match &self.kept {
            Some(opened) => read(&opened.dir),
            None => read(&Dir::open(&self.path)?),
        }
    }
}

impl Directory {
    /// Creates the directory of a root, which the user names.
    pub(crate) fn of(root: &Arc<Root>) -> Directory {
        Directory {
            root: Arc::clone(root),
            path: root.path.clone(),
            above: None,
            parent: None,
            is_plain: root.filter.is_plain,
            opened: None,
        }
    }

    /// Returns the part of this directory that has not been listed.
    fn rest(self, is_plain: bool, opened: &Arc<Opened>) -> Directory {
        Directory {
            is_plain,
            opened: Some(Arc::clone(opened)),
            ..self
        }
    }

    /// Returns the entry for this directory in the chain of those above its own.
    fn as_above(&self, status: &Stat) -> Above {
        Above {
            device: status.st_dev,
            inode: status.st_ino,
            path: self.path.clone(),
            above: self.above.clone(),
        }
    }
}

impl Lister {
    /// Returns a lister for this selection.
    pub(crate) fn new(selection: &Selection, descriptors: Descriptors) -> Lister {
        let output = rustix::fs::fstat(rustix::stdio::stdout()).ok();
        let output = output.filter(|output| kind_of(output) == FileType::RegularFile);
        Lister {
            follow: selection.follow,
            one_file_system: selection.one_file_system,
            descriptors,
            output: output.map(|output| (output.st_dev, output.st_ino)),
            waits: AtomicU32::new(0),
            file_systems: Mutex::default(),
        }
    }

    /// Opens a directory.
    ///
    /// # Errors
    ///
    /// The errors of `openat(2)`.
    pub(crate) fn open(&self, directory: &Directory) -> io::Result<Arc<Opened>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || match (&directory.parent, directory.path.file_name()) {
            (Some(parent), Some(name)) => {
                rustix::fs::openat(&parent.dir, name, flags, Mode::empty())
            }
            _ => rustix::fs::open(&directory.path, flags, Mode::empty()),
        };
        let dir = Dir::from(if self.waits() {
            uthread::blocking(open)?
        } else {
            open()?
        });
        let kept = self.descriptors.keep();
        Ok(Arc::new(Opened { dir, kept }))
    }

    /// Lists a part of the directory, or the rest of it if it cannot be kept open.
    pub(crate) fn list(&self, mut directory: Directory, opened: Arc<Opened>) -> Part {
        directory.parent = None;
        let list = || {
            let start = Instant::now();
            let part = self.list_here(directory, opened);
            if start.elapsed() > WAIT_MIN {
                self.waits.fetch_add(1, Ordering::Relaxed);
            } else if self.waits.load(Ordering::Relaxed) > 0 {
                // Written only if it changes: all workers read it.
                self.waits.store(0, Ordering::Relaxed);
            }
            part
        };
        if self.waits() {
            uthread::blocking(list)
        } else {
            list()
        }
    }

    /// Returns `true` while directories have to be read from a disk.
    fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed) >= WAITS_MIN
    }

    /// Returns `true` if a read from a file of this directory returns fewer bytes than wanted only
    /// at the end of the file.
    fn has_whole_reads(&self, dir: &Dir, status: &Stat) -> bool {
        let mut known = self
            .file_systems
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let of_device = known.iter().find(|(device, _)| *device == status.st_dev);
        if let Some((_, is_whole)) = of_device {
            return *is_whole;
        }
        let is_whole = is_with_whole_reads(dir);
        known.push((status.st_dev, is_whole));
        is_whole
    }

    /// Lists on the calling thread.
    fn list_here(&self, directory: Directory, opened: Arc<Opened>) -> Part {
        let mut part = Part::default();
        let Opened { dir, kept } = &*opened;
        let status = rustix::fs::fstat(dir).ok();
        let above = status.filter(|_| self.follow);
        let above = above.map(|status| Arc::new(directory.as_above(&status)));
        let root = Arc::clone(&directory.root);
        let folder = Arc::new(Folder {
            printed: root.printed(&directory.path).to_owned(),
            // Needed only to open it again.
            path: match kept {
                Some(_) => PathBuf::new(),
                None => directory.path.clone(),
            },
            root: Arc::clone(&root),
            has_whole_reads: status.is_some_and(|status| self.has_whole_reads(dir, &status)),
            kept: kept.as_ref().map(|_| Arc::clone(&opened)),
        });
        let device = status.filter(|_| self.one_file_system);
        let device = device.map(|status| status.st_dev);
        let entries = Entries::read(dir, kept.is_some());
        if let Some(error) = &entries.error {
            let path = directory.path.display();
            part.errors.push(format!("{path}: {error}"));
        }
        // The first part has been looked at for all of them.
        let is_plain = directory.is_plain
            && (directory.opened.is_some()
                || !filter::has_rules(&directory.path, |name| entries.may_contain(dir, name)));
        let parent = ListedDirectory {
            is_plain,
            folder,
            dir,
            above,
            device,
        };
        let (_, errors) = root.filter.with(is_plain, |is_searched| {
            // With a separator at its end, and as the user wrote it.
            let mut path = directory.path.join("").into_os_string().into_vec();
            let prefix = path.len();
            for listed in entries.iter() {
                path.truncate(prefix);
                path.extend_from_slice(listed.name.to_bytes());
                let path = Path::new(OsStr::from_bytes(&path));
                self.add(listed, &parent, path, is_searched, &mut part);
            }
        });
        let has_rest = !entries.is_end && entries.error.is_none();
        part.rest = has_rest.then(|| directory.rest(is_plain, &opened));
        part.ignore_errors = errors;
        // Neighbours on the disk, usually. The order of a hashed directory is random.
        part.files.sort_unstable_by_key(|file| file.inode);
        part
    }

    fn add(
        &self,
        entry: Listed<'_>,
        parent: &ListedDirectory<'_>,
        path: &Path,
        is_searched: &mut dyn FnMut(&Path, bool) -> bool,
        part: &mut Part,
    ) {
        let folder = &parent.folder;
        let is_link = entry.kind == FileType::Symlink;
        if is_link && !self.follow {
            return;
        }
        let mut kind = entry.kind;
        let mut status = None;
        let needs_device = parent.device.is_some() && kind == FileType::Directory;
        if is_link || kind == FileType::Unknown || needs_device {
            let flags = if self.follow {
                AtFlags::empty()
            } else {
                AtFlags::SYMLINK_NOFOLLOW
            };
            match rustix::fs::statat(parent.dir, entry.name, flags) {
                Ok(found) => {
                    kind = kind_of(&found);
                    status = Some(found);
                }
                Err(error) => {
                    let error = io::Error::from(error);
                    return part.errors.push(format!("{}: {error}", path.display()));
                }
            }
        }
        // Like a link that leads nowhere, it is an error whether or not what it leads to is
        // ignored.
        if let Some(found) = status.filter(|_| is_link)
            && let Some(seen) = parent.above.as_ref().and_then(|above| above.find(&found))
        {
            let (path, seen) = (path.display(), seen.display());
            let text = format!("File system loop found: {path} points to an ancestor {seen}");
            return part.errors.push(text);
        }
        let relative = folder.root.relative(path);
        let is_elsewhere = |found: Stat| parent.device.is_some_and(|own| own != found.st_dev);
        match kind {
            FileType::Directory if status.is_some_and(is_elsewhere) => {}
            FileType::Directory if is_searched(relative, true) => {
                part.directories.push(Directory {
                    root: Arc::clone(&folder.root),
                    path: path.to_owned(),
                    above: parent.above.clone(),
                    parent: folder.kept.clone(),
                    is_plain: parent.is_plain,
                    opened: None,
                });
            }
            FileType::RegularFile if is_searched(relative, false) => {
                if self.is_output(&entry, parent.dir) {
                    return;
                }
                part.files.push(FileEntry {
                    folder: Arc::clone(folder),
                    inode: entry.inode,
                    name: OsStr::from_bytes(entry.name.to_bytes()).to_owned(),
                    is_link,
                });
            }
            _ => {}
        }
    }

    /// Returns `true` for the file that stdout writes to.
    fn is_output(&self, entry: &Listed<'_>, dir: &Dir) -> bool {
        let is_candidate = |(_, inode)| self.follow || inode == entry.inode;
        self.output
            .filter(|output| is_candidate(*output))
            .is_some_and(|output| {
                let found = rustix::fs::statat(dir, entry.name, AtFlags::empty());
                found.is_ok_and(|found| (found.st_dev, found.st_ino) == output)
            })
    }
}

/// The directory that is listed.
struct ListedDirectory<'a> {
    folder: Arc<Folder>,
    dir: &'a Dir,
    is_plain: bool,
    above: Option<Arc<Above>>,
    /// The device of the directory, unless those on others are searched, too.
    device: Option<u64>,
}

impl Above {
    /// Returns the path of the directory among these that is `found`.
    fn find(&self, found: &Stat) -> Option<&Path> {
        let mut next = Some(self);
        while let Some(above) = next {
            if (above.device, above.inode) == (found.st_dev, found.st_ino) {
                return Some(&above.path);
            }
            next = above.above.as_deref();
        }
        None
    }
}

fn kind_of(status: &Stat) -> FileType {
    FileType::from_raw_mode(status.st_mode)
}

/// Returns `true` on file systems of disks and of memory. Those of networks, of other programs and
/// of the kernel may return a part of what is wanted.
fn is_with_whole_reads(dir: &Dir) -> bool {
    const BTRFS: u32 = 0x9123_683e;
    const EXT: u32 = 0xef53;
    const F2FS: u32 = 0xf2f5_2010;
    const OVERLAY: u32 = 0x794c_7630;
    const TMPFS: u32 = 0x0102_1994;
    const XFS: u32 = 0x5846_5342;
    let found = rustix::fs::fstatfs(dir);
    found.is_ok_and(|found| {
        let kind = found.f_type as u32;
        [BTRFS, EXT, F2FS, OVERLAY, TMPFS, XFS].contains(&kind)
    })
}
