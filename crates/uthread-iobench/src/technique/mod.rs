//! The techniques: each performs all requests of a walk.

mod engine;
mod slots;

mod blocking;
mod fibers;
mod linux_aio;
mod pool;
mod posix_aio;
mod ring;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use serde::{Deserialize, Serialize};

use crate::blocks::BLOCK_BYTES;
use crate::load::Load;
use crate::tally::Tally;
use crate::test_files::open_direct;
use crate::walk::{Request, Walk};
use engine::drive;
use fibers::Fibers;
use linux_aio::LinuxAio;
use pool::Pool;
use posix_aio::PosixAio;
use ring::{Kind, Ring};

/// A way to perform requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Technique {
    /// Blocking calls, one at a time whatever the depth.
    Pread,
    /// A pool of threads with blocking calls.
    Pool,
    /// POSIX AIO, by glibc's threads.
    PosixAio,
    /// Linux AIO.
    LinuxAio,
    /// A ring.
    Ring,
    /// A ring with registered file and buffers.
    RingRegistered,
    /// A ring that polls the device for completions.
    RingPolled,
    /// Fibers on a ring.
    Fibers,
    /// Fibers on a ring, with registered file and buffers.
    FibersRegistered,
    /// Fibers on a ring that polls the device for completions.
    FibersPolled,
    /// Fibers on epoll, which leaves files to a pool of threads.
    FibersEpoll,
    /// A thread for each fiber.
    FibersThreads,
}

impl Technique {
    /// All techniques in the order of the tables; the others are compared with the first.
    pub const ALL: [Technique; 12] = [
        Technique::Pread,
        Technique::Pool,
        Technique::PosixAio,
        Technique::LinuxAio,
        Technique::Ring,
        Technique::RingRegistered,
        Technique::RingPolled,
        Technique::Fibers,
        Technique::FibersRegistered,
        Technique::FibersPolled,
        Technique::FibersEpoll,
        Technique::FibersThreads,
    ];

    /// Returns the name in the tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Technique::Pread => "pread",
            Technique::Pool => "thread pool",
            Technique::PosixAio => "POSIX AIO",
            Technique::LinuxAio => "Linux AIO",
            Technique::Ring => "ring",
            Technique::RingRegistered => "ring registered",
            Technique::RingPolled => "ring polled",
            Technique::Fibers => "uthread",
            Technique::FibersRegistered => "uthread registered",
            Technique::FibersPolled => "uthread polled",
            Technique::FibersEpoll => "uthread epoll",
            Technique::FibersThreads => "uthread threads",
        }
    }

    /// Returns `true` for fibers.
    #[must_use]
    pub fn is_ours(self) -> bool {
        self.fibers().is_some()
    }

    /// Returns whether the technique needs a device that can be polled for completions.
    pub(crate) fn polls(self) -> bool {
        matches!(self, Technique::RingPolled | Technique::FibersPolled)
    }

    fn fibers(self) -> Option<Fibers> {
        match self {
            Technique::Fibers => Some(Fibers::Plain),
            Technique::FibersRegistered => Some(Fibers::Registered),
            Technique::FibersPolled => Some(Fibers::Polled),
            Technique::FibersEpoll => Some(Fibers::Epoll),
            Technique::FibersThreads => Some(Fibers::Threads),
            _ => None,
        }
    }
}

/// The requests to one file.
struct Work {
    file: File,
    walk: Walk,
    /// Number of requests at a time.
    depth: usize,
    is_batched: bool,
}

/// Performs all requests of a load, on a thread for each file.
///
/// # Errors
///
/// The errors of setting up the technique and of its requests, and any other if a block was
/// corrupted.
pub(crate) fn perform(technique: Technique, load: &Load) -> io::Result<Tally> {
    if let Some(fibers) = technique.fibers() {
        return fibers::perform(load, fibers);
    }
    let works = load.files.iter().map(|path| work(load, path));
    let works: Vec<Work> = works.collect::<io::Result<_>>()?;
    let mut works = works.into_iter();
    let first = works.next().ok_or(io::ErrorKind::InvalidInput)?;
    thread::scope(|scope| {
        let start = |work: Work| scope.spawn(move || on_this_thread(technique, &work));
        let others: Vec<_> = works.map(start).collect();
        let mut tally = on_this_thread(technique, &first)?;
        for other in others {
            tally.add(&other.join().expect("the thread does not panic")?);
        }
        Ok(tally)
    })
}

fn work(load: &Load, path: &Path) -> io::Result<Work> {
    let file = open_direct(path)?;
    let walk = walk(load, file.metadata()?.len())?;
    Ok(Work {
        file,
        walk,
        depth: load.depth,
        is_batched: load.is_batched,
    })
}

/// Returns the requests of a load to a file of this size.
fn walk(load: &Load, bytes: u64) -> io::Result<Walk> {
    let blocks = bytes / BLOCK_BYTES as u64;
    if blocks == 0 || load.depth == 0 {
        return Err(io::Error::other("a load without blocks or requests"));
    }
    Ok(Walk::new(load, blocks))
}

fn on_this_thread(technique: Technique, work: &Work) -> io::Result<Tally> {
    let ring = |kind| Ring::new(&work.file, work.depth, kind);
    match technique {
        Technique::Pread => blocking::perform(work),
        Technique::Pool => drive(Pool::new(&work.file, work.depth)?, work),
        Technique::PosixAio => drive(PosixAio::new(&work.file, work.depth)?, work),
        Technique::LinuxAio => drive(LinuxAio::new(&work.file, work.depth)?, work),
        Technique::Ring => drive(ring(Kind::Plain)?, work),
        Technique::RingRegistered => drive(ring(Kind::Registered)?, work),
        Technique::RingPolled => drive(ring(Kind::Polled)?, work),
        Technique::Fibers
        | Technique::FibersRegistered
        | Technique::FibersPolled
        | Technique::FibersEpoll
        | Technique::FibersThreads => unreachable!("fibers have threads of their own"),
    }
}

/// A file whose blocks are read and written by calls that wait.
trait BlockFile: FileExt {
    fn sync(&self) -> io::Result<()>;
}

impl BlockFile for File {
    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

impl BlockFile for uthread::fs::File {
    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Performs a request by one call. Returns the number of bytes.
fn call(file: &impl BlockFile, request: Request, bytes: &mut [u8]) -> io::Result<usize> {
    match request {
        Request::Read(block) => file.read_at(bytes, offset(block)),
        Request::Write(block) => file.write_at(bytes, offset(block)),
        Request::Sync => file.sync().map(|()| 0),
    }
}

fn offset(block: u64) -> u64 {
    block * BLOCK_BYTES as u64
}

/// Returns the result of a request as the kernel reports it: a number of bytes or a negated errno.
fn to_result(result: i64) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result as i32))
}

#[cfg(test)]
mod tests;
