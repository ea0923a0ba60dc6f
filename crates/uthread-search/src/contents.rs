//! Reading files: a small file by one submission, a large one ahead of the search.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Mode, OFlags};
use uthread::fs::{AlignedBuffer, Dir, File, OpenOptions};
use uthread::ring;
use uthread::sync::mpsc::{self, Receiver, SyncSender};

use crate::directory::FileEntry;
use crate::page::StreamPage;
use crate::search::Search;

/// The bytes read at once: most files of a source tree are shorter, and it stays in the cache of a
/// CPU until it is searched.
pub(crate) const CHUNK_BYTES: usize = 256 * 1024;
/// The bytes read ahead at once: waking another worker takes as long as copying a part of them.
const AHEAD_BYTES: usize = 1024 * 1024;
/// Chunks read ahead of the search. All of them fit into a cache that CPUs share.
const CHUNKS_AHEAD: usize = 4;
/// A stream is offered to another worker after so many chunks: it pays off for a large file.
const ALONE_CHUNKS: usize = 64;
/// The size of the searcher's buffer for lines.
const SEARCHER_BYTES: usize = 64 * 1024;
/// The size up to which a searcher may keep a buffer that has grown.
const KEPT_BYTES: usize = 1024 * 1024;
/// How far the times of a file may be behind the clock: the kernel's clock for them advances by up
/// to 10 ms at once.
const CLOCK_STEP: Duration = Duration::from_millis(20);

/// The beginning of a file.
pub(crate) enum Start {
    /// The buffer has this many bytes, which are the whole file.
    Whole(usize),
    /// The buffer has these bytes, and the file the rest.
    Longer(usize, File),
}

/// Reads a file found in a directory into the buffer, one of a disk by system calls of the calling
/// thread. `since` is a time before the call.
///
/// # Errors
///
/// The file cannot be opened or read.
pub(crate) fn start(entry: &FileEntry, since: SystemTime, buffer: &mut [u8]) -> io::Result<Start> {
    let folder = &entry.folder;
    let read = || folder.with_dir(|dir| read_here(dir, &entry.name, buffer));
    let reads_here = folder.has_whole_reads && !entry.is_link;
    let count = match reads_here.then(read) {
        Some(Ok(count)) => count,
        _ if entry.is_link => ring::read_file(entry.path(), buffer)?,
        _ => folder.with_dir(|dir| ring::read_file_beneath(dir, &entry.name, buffer))?,
    };
    if count < buffer.len() && folder.has_whole_reads {
        return Ok(Start::Whole(count));
    }
    let mut file = open(entry)?;
    // The bytes that were read may be of another file, which this one has replaced, or this one
    // has been written since.
    let count = if folder.has_whole_reads && is_older(&file.metadata()?, since) {
        count
    } else {
        0
    };
    file.seek(SeekFrom::Start(count as u64))?;
    Ok(Start::Longer(count, file))
}

/// Reads once. If this fails for whatever reason, the file is read in the usual way.
fn read_here(dir: &Dir, name: &OsStr, buffer: &mut [u8]) -> io::Result<usize> {
    // The name may have become that of a link or of a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    Ok(rustix::io::retry_on_intr(|| {
        rustix::io::read(&file, &mut *buffer)
    })?)
}

/// Opens a file found in a directory.
pub(crate) fn open(entry: &FileEntry) -> io::Result<File> {
    if entry.is_link {
        File::open(entry.path())
    } else {
        entry
            .folder
            .with_dir(|dir| dir.open_beneath(&entry.name, OpenOptions::new().read(true)))
    }
}

/// Returns `true` if neither the file nor its name has changed since.
fn is_older(metadata: &Metadata, time: SystemTime) -> bool {
    let seconds = u64::try_from(metadata.ctime()).unwrap_or(0);
    let changed = Duration::new(seconds, metadata.ctime_nsec() as u32);
    let time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    changed + CLOCK_STEP < time
}

/// The rest of a file as a stream. Its chunks are read ahead by another worker if one is idle.
///
/// Copying out of the page cache takes as long as searching, so one worker copies while another one
/// searches. Nobody knows beforehand whether a worker will be idle. With each chunk that the stream
/// reads itself it offers the others to a new fiber. An idle worker steals the fiber, which reads
/// from then on; if it starts on the stream's own worker, it ends at once.
pub(crate) struct Ahead<'a> {
    job: Arc<Job>,
    /// The chunk that the stream has read itself, or the beginning of the file.
    own: &'a mut [u8],
    /// The chunk that the other fiber has read; it replaces `own`.
    other: Option<Chunk>,
    /// The part of the chunk that has not been searched.
    rest: Range<usize>,
    full: Receiver<io::Result<Chunk>>,
    empty: SyncSender<AlignedBuffer>,
    /// Number of chunks that the stream has read itself.
    alone: usize,
    is_helped: bool,
    is_at_end: bool,
    /// `true` for a pipe, whose next bytes may not come for a while.
    is_endless: bool,
    /// An error after what has been returned.
    error: Option<io::Error>,
}

struct Chunk {
    buffer: AlignedBuffer,
    count: usize,
}

/// The file, shared by the stream and the fiber that reads ahead.
struct Job {
    /// Taken while a chunk is read, and for good by the fiber that reads ahead.
    source: Mutex<Option<Source>>,
    searched_on: ThreadId,
}

struct Source {
    file: File,
    full: SyncSender<io::Result<Chunk>>,
    empty: Receiver<AlignedBuffer>,
}

impl<'a> Ahead<'a> {
    /// Returns the stream of a file of which `buffer` has the first `count` bytes.
    pub(crate) fn new(
        file: File,
        buffer: &'a mut [u8],
        count: usize,
        is_endless: bool,
    ) -> Ahead<'a> {
        let (full_sender, full) = mpsc::sync_channel(CHUNKS_AHEAD);
        let (empty, empty_receiver) = mpsc::sync_channel(CHUNKS_AHEAD);
        let source = Source {
            file,
            full: full_sender,
            empty: empty_receiver,
        };
        Ahead {
            job: Arc::new(Job {
                source: Mutex::new(Some(source)),
                searched_on: thread::current().id(),
            }),
            own: buffer,
            other: None,
            rest: 0..count,
            full,
            empty,
            alone: 0,
            is_helped: false,
            is_at_end: false,
            is_endless,
            error: None,
        }
    }

    /// Starts a fiber that reads ahead, unless it starts on this worker.
    fn offer(&self) {
        let job = Arc::clone(&self.job);
        uthread::spawn(move || {
            if thread::current().id() != job.searched_on
                && let Some(source) = job.take()
            {
                source.read_ahead();
            }
        });
    }

    /// Replaces the chunk by the next one.
    fn advance(&mut self) -> io::Result<()> {
        if let Some(chunk) = self.other.take() {
            // The fiber that reads ahead may have ended.
            let _ = self.empty.send(chunk.buffer);
        }
        if !self.is_helped {
            match self.job.take() {
                Some(mut source) => {
                    let result = source.file.read(self.own);
                    self.job.put_back(source);
                    self.rest = 0..result?;
                    self.alone += 1;
                    if self.alone >= ALONE_CHUNKS {
                        self.offer();
                    }
                    return Ok(());
                }
                None => self.is_helped = true,
            }
        }
        // The fiber that reads ahead ends after the last chunk, which is empty, or after an error.
        match self.full.recv() {
            Ok(chunk) => {
                let chunk = chunk?;
                self.rest = 0..chunk.count;
                self.other = Some(chunk);
            }
            Err(_) => self.rest = 0..0,
        }
        Ok(())
    }
}

impl Read for Ahead<'_> {
    /// Fills the buffer, as a read from a file does: where a binary file is cut off depends on
    /// that. Less is returned at the end of the file, and after what a pipe has had.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < buffer.len() && !self.is_at_end {
            if self.rest.is_empty() {
                if count > 0 && (self.is_endless || self.rest.end < CHUNK_BYTES) {
                    break;
                }
                match self.error.take().map_or_else(|| self.advance(), Err) {
                    Ok(()) => self.is_at_end = self.rest.is_empty(),
                    Err(error) if count > 0 => {
                        self.error = Some(error);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            let chunk = match &self.other {
                Some(chunk) => &chunk.buffer[..],
                None => &self.own[..],
            };
            let (into, from) = (&mut buffer[count..], &chunk[self.rest.clone()]);
            let copied = into.len().min(from.len());
            into[..copied].copy_from_slice(&from[..copied]);
            self.rest.start += copied;
            count += copied;
        }
        Ok(count)
    }
}

impl Job {
    fn take(&self) -> Option<Source> {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.take()
    }

    fn put_back(&self, source: Source) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }
}

impl Source {
    /// Reads chunks until the end of the file, or until the stream is dropped.
    fn read_ahead(mut self) {
        let mut allocated = 0;
        loop {
            let buffer = if allocated < CHUNKS_AHEAD {
                allocated += 1;
                AlignedBuffer::of_pages(AHEAD_BYTES)
            } else {
                match self.empty.recv() {
                    Ok(buffer) => Ok(buffer),
                    Err(_) => return,
                }
            };
            let chunk = buffer.and_then(|mut buffer| {
                let count = self.file.read(&mut buffer)?;
                Ok(Chunk { buffer, count })
            });
            let is_last = chunk.as_ref().map_or(true, |chunk| chunk.count == 0);
            if self.full.send(chunk).is_err() || is_last {
                return;
            }
        }
    }
}

/// A stream that counts what is searched, prints what is found, and notices whether it has made the
/// searcher's buffer grow.
///
/// A searcher keeps a buffer that a long line has made grow. The next binary file would be cut off
/// elsewhere, and each reader would keep the memory.
pub(crate) struct Watched<'a, R> {
    stream: R,
    /// Where lines go that are printed as they are found.
    page: Option<&'a StreamPage<'a>>,
    search: &'a Search<'a>,
    bytes: usize,
    /// The largest part that the searcher had room for.
    room: usize,
}

impl<'a, R: Read> Watched<'a, R> {
    pub(crate) fn new(
        stream: R,
        page: Option<&'a StreamPage<'a>>,
        search: &'a Search<'a>,
    ) -> Watched<'a, R> {
        Watched {
            stream,
            page,
            search,
            bytes: 0,
            room: 0,
        }
    }

    /// Returns `true` if the searcher is to be replaced: after any growth if the next file may be
    /// binary, else if it would keep much memory. Long lines that are decoded are not noticed, so a
    /// long stream counts as one.
    pub(crate) fn has_worn_out(&self, may_be_binary: bool) -> bool {
        let kept = if may_be_binary {
            SEARCHER_BYTES
        } else {
            KEPT_BYTES
        };
        self.room > kept || self.bytes > 16 * kept
    }
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.room = self.room.max(buffer.len());
        let count = match self.page {
            Some(page) => page.print_before(|| self.stream.read(buffer)),
            None => self
                .search
                .output
                .unless_ending()
                .and_then(|()| self.stream.read(buffer)),
        }?;
        self.bytes += count;
        self.search.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
