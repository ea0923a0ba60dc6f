//! Reads blocks of a file past the page cache, several at a time, as `fio` does.
//!
//! It is a closed loop: each fiber reads one block after the other. A block begins with its own number, so that every read is
//! checked by one comparison.

use std::fmt;
use std::io;
use std::ops::DerefMut;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::Serialize;
use uthread::fs::{AlignedBuffer, DirectAlignment, File, OpenOptions};
use uthread::ring::{RegisteredBuffer, RegisteredFile};
use uthread::{Runtime, try_scope};

use uthread_load::SplitMix;

use crate::requests::cpu_ns;

/// The block size that databases read, and that disks are compared by.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Size of its number, at the beginning of a block.
pub(super) const NUMBER_BYTES: usize = 8;

/// Number of slots for registered buffers in a ring, which is more than a disk processes at a time.
const DEPTH_MAX: u64 = 256;

/// A read that takes a minute has failed in all but name.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// A thousandth is finer than any two rounds agree.
const SIGNIFICANT_DIGITS: u8 = 3;

#[derive(clap::Args, Clone, Debug)]
pub(super) struct Reads {
    /// A file of numbered blocks
    file: PathBuf,
    /// Order of the blocks
    #[arg(value_enum)]
    pattern: Pattern,
    /// Number of fibers that read
    #[arg(value_parser = clap::value_parser!(u64).range(1..=DEPTH_MAX))]
    depth: u64,
    /// Duration in seconds
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Register the file and the buffers with the ring
    #[arg(long)]
    registered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(super) enum Pattern {
    Random,
    Sequential,
}

/// The result.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) reads: u64,
    pub(super) per_second: f64,
    /// Time from the call to its return.
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    /// CPU time of all threads for each read, those in the kernel included.
    pub(super) cpu_us: f64,
}

impl Reads {
    /// Prints the report as a line of JSON.
    pub(super) fn run(&self, runtime: &Runtime) -> Result<()> {
        let report = runtime.run(|| self.measure())?;
        println!("{}", serde_json::to_string(&report)?);
        Ok(())
    }

    fn measure(&self) -> Result<Report> {
        let (file, alignment) = open(&self.file)?;
        let blocks = file.metadata()?.len() / BLOCK_BYTES as u64;
        ensure!(blocks > 0, "{}: not one block", self.file.display());
        let choice = match self.pattern {
            Pattern::Random => Choice::Random(blocks),
            Pattern::Sequential => Choice::Sequential(blocks, AtomicU64::new(0)),
        };
        if !self.registered {
            return self.read_by_fibers(&file, &choice, || {
                AlignedBuffer::new(alignment, BLOCK_BYTES)
            });
        }
        let file = RegisteredFile::new(file);
        ensure!(file.is_registered(), "the driver has registered no file");
        self.read_by_fibers(&file, &choice, || {
            let buffer = RegisteredBuffer::new(BLOCK_BYTES)?;
            match buffer.is_registered() {
                true => Ok(buffer),
                false => Err(io::Error::other("not registered: raise ulimit -l")),
            }
        })
    }

    fn read_by_fibers<B: DerefMut<Target = [u8]>>(
        &self,
        file: &File,
        choice: &Choice,
        buffer: impl Fn() -> io::Result<B> + Sync,
    ) -> Result<Report> {
        let (begin, cpu_ns_before) = (Instant::now(), cpu_ns());
        let end = begin + Duration::from_secs(self.seconds);
        let buffer = &buffer;
        let latencies_ns = try_scope(|scope| {
            let read = |seed| move || read_until(end, file, &mut buffer()?, choice.of_fiber(seed));
            let fibers: Vec<_> = (0..self.depth)
                .map(|seed| scope.spawn(read(seed)))
                .collect();
            let mut all = empty_histogram()?;
            for fiber in fibers {
                // The scope returns the reason of a failure.
                if let Ok(latencies_ns) = fiber.join() {
                    all.add(latencies_ns).map_err(io::Error::other)?;
                }
            }
            Ok::<_, io::Error>(all)
        })?;
        let seconds = begin.elapsed().as_secs_f64();
        let reads = latencies_ns.len();
        let at_us = |quantile| latencies_ns.value_at_quantile(quantile) as f64 / 1e3;
        Ok(Report {
            reads,
            per_second: reads as f64 / seconds,
            p50_us: at_us(0.50),
            p99_us: at_us(0.99),
            p999_us: at_us(0.999),
            cpu_us: (cpu_ns() - cpu_ns_before) / 1e3 / reads as f64,
        })
    }
}

/// The file cannot be read past the page cache.
#[derive(Debug)]
pub(super) struct Unavailable(String);

impl fmt::Display for Unavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// Opens a file past the page cache.
///
/// # Errors
///
/// [`Unavailable`] if its file system does not support that, or is in memory.
fn open(path: &Path) -> Result<(File, DirectAlignment)> {
    let explain = |error: io::Error| {
        let path = path.display();
        Unavailable(format!(
            "{path} cannot be read past the page cache ({error}): it has to be on a disk, in the study by --folder"
        ))
    };
    let file = OpenOptions::new().read(true).direct(true).open(path);
    let file = file.map_err(explain)?;
    let alignment = file.direct_alignment().map_err(explain)?;
    Ok((file, alignment))
}

/// Which block comes next.
enum Choice {
    /// Random positions among this number of blocks.
    Random(u64),
    /// Sequential positions among this number of blocks, and the number of reads: all fibers share one walk
    /// through the file.
    Sequential(u64, AtomicU64),
}

impl Choice {
    /// Returns the blocks of one fiber, the same in each run.
    fn of_fiber(&self, seed: u64) -> impl FnMut() -> u64 {
        let mut random = SplitMix::new(seed);
        move || match self {
            Choice::Random(blocks) => random.next() % blocks,
            Choice::Sequential(blocks, read) => read.fetch_add(1, Ordering::Relaxed) % blocks,
        }
    }
}

/// Reads until `end`, at least once. Returns the duration of each read.
fn read_until(
    end: Instant,
    file: &File,
    buffer: &mut [u8],
    mut next: impl FnMut() -> u64,
) -> io::Result<Histogram<u64>> {
    let mut latencies_ns = empty_histogram()?;
    let mut begin = Instant::now();
    loop {
        read(file, buffer, next())?;
        let now = Instant::now();
        latencies_ns.saturating_record((now - begin).as_nanos() as u64);
        if now >= end {
            return Ok(latencies_ns);
        }
        begin = now;
    }
}

fn read(file: &File, buffer: &mut [u8], block: u64) -> io::Result<()> {
    // After a read of nothing, the number of the block before must not be taken for this one's.
    buffer[..NUMBER_BYTES].fill(u8::MAX);
    let count = file.read_at(buffer, block * BLOCK_BYTES as u64)?;
    if count == BLOCK_BYTES && buffer[..NUMBER_BYTES] == block.to_le_bytes() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "block {block}: {count} bytes, which begin with {:?}",
        &buffer[..NUMBER_BYTES]
    )))
}

fn empty_histogram() -> io::Result<Histogram<u64>> {
    Histogram::new_with_max(LATENCY_NS_MAX, SIGNIFICANT_DIGITS).map_err(io::Error::other)
}
