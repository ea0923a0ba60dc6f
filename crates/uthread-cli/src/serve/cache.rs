//! Small files in memory, so that a request for one neither opens nor reads it.
//!
//! Each lookup compares the file with its copy by one `statx`, which is made after the request has
//! been received: a change that was made before the request is seen. What `statx` cannot show (a
//! store to a mapped page, a directory that was moved away and replaced by a link to it) is seen
//! after [`AGE_MAX`], when the file is opened and read again.

use std::collections::{HashMap, VecDeque};
use std::fs::Metadata;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, StatxFlags, StatxTimestamp, makedev, statx};

use super::scratch::Scratch;
use crate::http::negotiate::Coding;

/// Largest file to keep. Copying a larger one into the socket costs more than `sendfile`.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Memory for all copies: 512 files of the largest size, which is many times what a site's pages
/// and styles take.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// Memory of an entry besides the file: its head, its path, and its place in the tables. It also
/// bounds the number of entries.
const ENTRY_BYTES: usize = 1024;
/// Parts with a lock each, so that workers seldom wait for each other.
const SHARDS: usize = 16;
/// Age at which a copy is read again. Only frequent requests profit from a copy, and they do not
/// notice one read a second.
const AGE_MAX: Duration = Duration::from_secs(1);
/// Time since the last change after which a file may be kept. Two changes within one tick of a file
/// system's clock (2 s for FAT) can leave the same times.
const SETTLED: Duration = Duration::from_secs(3);

/// Identity of a file and its content: device, inode, size, and the times of modification and
/// change, each in seconds, and nanoseconds beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) modified: (i64, i64),
    pub(crate) changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Queries the file at `path` beneath `root`, which is resolved anew. Does not wait for a file
    /// system of another machine: it knows the attributes since it opened the file.
    fn at(root: &Path, path: &[u8]) -> Option<Stamp> {
        let mut full_path = Scratch::take();
        for piece in [root.as_os_str().as_bytes(), b"/", path] {
            full_path.extend_from_slice(piece);
        }
        let flags = AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::INO | StatxFlags::SIZE | StatxFlags::MTIME | StatxFlags::CTIME;
        let found = statx(CWD, &full_path[..], flags, wanted).ok()?;
        let time = |time: StatxTimestamp| (time.tv_sec, i64::from(time.tv_nsec));
        Some(Stamp {
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            bytes: found.stx_size,
            modified: time(found.stx_mtime),
            changed: time(found.stx_ctime),
        })
    }
}

/// A file in memory.
#[derive(Debug)]
pub(crate) struct CachedFile {
    stamp: Stamp,
    read_at: Instant,
    /// When the last comparison that found no change began, in nanoseconds since the cache was
    /// created.
    compared_ns: AtomicU64,
    /// Set by every use; an entry that was used since the last search for room stays.
    used: AtomicBool,
    image: Mutex<Arc<Image>>,
}

/// A file in memory, after the head of the response that sends all of it.
#[derive(Debug)]
pub(crate) struct Image {
    bytes: Vec<u8>,
    head_bytes: usize,
    /// `None` while there is no head.
    head: Option<HeadKey>,
}

/// State that a head of one file depends on: the second of its date, and how the content is
/// encoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct HeadKey {
    pub(crate) second: i64,
    pub(crate) coding: Coding,
}

impl Image {
    /// Returns the whole response.
    pub(crate) fn response(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn content(&self) -> &[u8] {
        &self.bytes[self.head_bytes..]
    }
}

impl CachedFile {
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) fn image(&self) -> Arc<Image> {
        Arc::clone(&lock(&self.image))
    }

    /// Returns the image with the head for `key`. Writes the head if the last one differs, which is
    /// once a second.
    pub(crate) fn image_with_head(
        &self,
        key: HeadKey,
        write_head: impl FnOnce(&mut Vec<u8>),
    ) -> Arc<Image> {
        let mut image = lock(&self.image);
        if image.head != Some(key) {
            let mut bytes = Vec::with_capacity(image.content().len() + ENTRY_BYTES / 2);
            write_head(&mut bytes);
            let head_bytes = bytes.len();
            bytes.extend_from_slice(image.content());
            *image = Arc::new(Image {
                bytes,
                head_bytes,
                head: Some(key),
            });
        }
        Arc::clone(&image)
    }
}

#[derive(Debug)]
pub(crate) struct Cache {
    hasher: RandomState,
    created: Instant,
    shards: [Mutex<Shard>; SHARDS],
    settled: Duration,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Arc<[u8]>, Arc<CachedFile>>,
    /// The paths of the entries; the first is the next to be examined when room is needed.
    order: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

impl Cache {
    pub(crate) fn new() -> Cache {
        Cache::with_settled(SETTLED)
    }

    /// Creates a cache that keeps files that did not change for this long.
    pub(crate) fn with_settled(settled: Duration) -> Cache {
        Cache {
            hasher: RandomState::new(),
            created: Instant::now(),
            shards: Default::default(),
            settled,
        }
    }

    /// Returns the file at `path` beneath `root`, if it is in memory and has not changed before
    /// `asked`.
    pub(crate) fn get(&self, root: &Path, path: &[u8], asked: Instant) -> Option<Arc<CachedFile>> {
        let kept = self.shard(path).entries.get(path).map(Arc::clone)?;
        if asked.saturating_duration_since(kept.read_at) >= AGE_MAX {
            return None;
        }
        // One comparison serves all requests that were received before it began.
        if kept.compared_ns.load(Ordering::Relaxed) < self.ns_at(asked) {
            let begin = Instant::now();
            if Stamp::at(root, path) != Some(kept.stamp) {
                return None;
            }
            kept.compared_ns
                .fetch_max(self.ns_at(begin), Ordering::Relaxed);
        }
        kept.used.store(true, Ordering::Relaxed);
        Some(kept)
    }

    fn ns_at(&self, time: Instant) -> u64 {
        let since = time.saturating_duration_since(self.created);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns true for files that may be kept: small ones that have not changed lately.
    pub(crate) fn admits(&self, metadata: &Metadata) -> bool {
        let changed_s = u64::try_from(metadata.ctime()).unwrap_or(0);
        let changed = UNIX_EPOCH
            .checked_add(Duration::from_secs(changed_s))
            .and_then(|second| {
                second.checked_add(Duration::from_nanos(metadata.ctime_nsec().unsigned_abs()))
            });
        metadata.is_file()
            && (1..=FILE_BYTES_MAX).contains(&metadata.len())
            && changed.is_some_and(|changed| {
                SystemTime::now()
                    .duration_since(changed)
                    .is_ok_and(|age| age >= self.settled)
            })
    }

    /// Keeps a file that was read after its metadata was queried.
    pub(crate) fn keep(
        &self,
        path: &[u8],
        metadata: &Metadata,
        content: Vec<u8>,
    ) -> Arc<CachedFile> {
        let kept = Arc::new(CachedFile {
            stamp: Stamp::of(metadata),
            read_at: Instant::now(),
            compared_ns: AtomicU64::new(0),
            used: AtomicBool::new(true),
            image: Mutex::new(Arc::new(Image {
                bytes: content,
                head_bytes: 0,
                head: None,
            })),
        });
        self.shard(path).insert(path, Arc::clone(&kept));
        kept
    }

    fn shard(&self, path: &[u8]) -> MutexGuard<'_, Shard> {
        let index = self.hasher.hash_one(path) % SHARDS as u64;
        lock(&self.shards[index as usize])
    }
}

impl Shard {
    fn insert(&mut self, path: &[u8], kept: Arc<CachedFile>) {
        let path: Arc<[u8]> = path.into();
        self.bytes += cost(&kept);
        match self.entries.insert(Arc::clone(&path), kept) {
            Some(old) => self.bytes -= cost(&old),
            None => self.order.push_back(path),
        }
        // Ends: each step removes an entry, or clears a mark that nobody can set while the shard is
        // locked for a lookup.
        while self.bytes > BYTES_MAX / SHARDS {
            let Some(path) = self.order.pop_front() else {
                break;
            };
            match self.entries.get(&path) {
                Some(kept) if kept.used.swap(false, Ordering::Relaxed) => {
                    self.order.push_back(path);
                }
                _ => {
                    if let Some(old) = self.entries.remove(&path) {
                        self.bytes -= cost(&old);
                    }
                }
            }
        }
    }
}

fn cost(kept: &CachedFile) -> usize {
    kept.stamp.bytes as usize + ENTRY_BYTES
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    fn keep(cache: &Cache, path: &Path, name: &str) {
        let metadata = fs::metadata(path.join(name)).unwrap();
        assert!(cache.admits(&metadata), "{name}");
        let content = fs::read(path.join(name)).unwrap();
        cache.keep(name.as_bytes(), &metadata, content);
    }

    /// Returns a folder with a file `a`, and a cache that keeps it.
    fn with_kept_file() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::with_settled(Duration::ZERO);
        fs::write(folder.path().join("a"), "first").unwrap();
        keep(&cache, folder.path(), "a");
        (folder, cache)
    }

    #[test]
    fn a_changed_file_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let cache = Cache::with_settled(Duration::ZERO);
        let changes: [(&str, &dyn Fn()); 6] = [
            ("grown", &|| fs::write(path.join("a"), "longer").unwrap()),
            ("replaced", &|| {
                fs::write(path.join("b"), "other").unwrap();
                fs::rename(path.join("b"), path.join("a")).unwrap();
            }),
            ("removed", &|| fs::remove_file(path.join("a")).unwrap()),
            ("a directory", &|| {
                fs::remove_file(path.join("a")).unwrap();
                fs::create_dir(path.join("a")).unwrap();
            }),
            ("a link", &|| {
                fs::write(path.join("b"), "first").unwrap();
                fs::remove_file(path.join("a")).unwrap();
                symlink("b", path.join("a")).unwrap();
            }),
            ("older", &|| {
                let file = File::options().write(true).open(path.join("a")).unwrap();
                file.set_modified(UNIX_EPOCH).unwrap();
            }),
        ];
        for (what, change) in changes {
            let _ = fs::remove_dir(path.join("a"));
            let _ = fs::remove_file(path.join("a"));
            fs::write(path.join("a"), "first").unwrap();
            keep(&cache, path, "a");
            let kept = cache.get(path, b"a", Instant::now()).unwrap();
            assert_eq!(kept.image().content(), b"first", "{what}");
            change();
            assert!(cache.get(path, b"a", Instant::now()).is_none(), "{what}");
        }
    }

    #[test]
    fn one_comparison_serves_the_requests_received_before_it() {
        let (folder, cache) = with_kept_file();
        let early = Instant::now();
        assert!(cache.get(folder.path(), b"a", Instant::now()).is_some());
        fs::remove_file(folder.path().join("a")).unwrap();
        assert!(cache.get(folder.path(), b"a", early).is_some());
        assert!(cache.get(folder.path(), b"a", Instant::now()).is_none());
    }

    #[test]
    fn a_copy_is_read_again_when_it_is_old() {
        let (folder, cache) = with_kept_file();
        let later = Instant::now() + AGE_MAX;
        assert!(cache.get(folder.path(), b"a", later).is_none());
    }

    #[test]
    fn a_file_that_may_be_changing_is_not_admitted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let admits = |cache: &Cache| cache.admits(&fs::metadata(&path).unwrap());
        let at_once = Cache::with_settled(Duration::ZERO);
        fs::write(&path, "now").unwrap();
        assert!(admits(&at_once) && !admits(&Cache::with_settled(Duration::from_secs(3600))));
        fs::write(&path, "").unwrap();
        assert!(!admits(&at_once));
        fs::write(&path, vec![0; FILE_BYTES_MAX as usize + 1]).unwrap();
        assert!(!admits(&at_once));
    }

    #[test]
    fn a_head_is_written_once_for_its_second_and_coding() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), "body").unwrap();
        let cache = Cache::with_settled(Duration::ZERO);
        keep(&cache, folder.path(), "a");
        let kept = cache.get(folder.path(), b"a", Instant::now()).unwrap();
        let image = |second, coding, head: &str| {
            let image = kept.image_with_head(HeadKey { second, coding }, |out| {
                out.extend_from_slice(head.as_bytes());
            });
            assert_eq!(image.content(), b"body");
            String::from_utf8(image.response().to_vec()).unwrap()
        };
        assert_eq!(image(1, Coding::Identity, "one "), "one body");
        assert_eq!(image(1, Coding::Identity, "two "), "one body");
        assert_eq!(image(2, Coding::Identity, "three "), "three body");
        assert_eq!(image(2, Coding::Gzip, ""), "body");
    }

    #[test]
    fn the_memory_is_bounded_and_what_is_used_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, vec![7; FILE_BYTES_MAX as usize]).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let mut shard = Shard::default();
        let cache = Cache::with_settled(Duration::ZERO);
        let kept = |used| {
            let kept = cache.keep(b"a", &metadata, Vec::new());
            kept.used.store(used, Ordering::Relaxed);
            kept
        };
        for name in 0_u32..1000 {
            shard.insert(&name.to_ne_bytes(), kept(false));
            if let Some(first) = shard.entries.get(&0_u32.to_ne_bytes()[..]) {
                first.used.store(true, Ordering::Relaxed);
            }
            assert!(shard.bytes <= BYTES_MAX / SHARDS);
            assert_eq!(shard.entries.len(), shard.order.len());
        }
        assert!(shard.entries.contains_key(&0_u32.to_ne_bytes()[..]));
        assert!(!shard.entries.contains_key(&1_u32.to_ne_bytes()[..]));
        let costs = shard.entries.values().map(|kept| cost(kept));
        assert_eq!(costs.sum::<usize>(), shard.bytes);
    }
}
