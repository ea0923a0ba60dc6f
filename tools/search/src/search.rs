//! A search: what its readers share, how it begins and how it ends.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use grep_printer::Stats;
use serde_json::json;
use uthread::sync::Semaphore;
use uthread::thread::Scope;

use crate::descriptors::{Descriptors, is_shortage};
use crate::directory::{Directory, FileEntry, Lister, Part, Root};
use crate::filter::Filter;
use crate::order;
use crate::output::{Output, Place};
use crate::plan::{LINE_MAX, Mode, Plan, Totals, is_stdin};
use crate::printer::Found;
use crate::progress;
use crate::queue::Queue;
use crate::reader::Reader;

/// Number of readers that a worker runs while files are in memory: so many share a system call, and what they have read stays in
/// the cache of the CPU until it is searched.
const READERS_PER_WORKER: usize = 8;
/// Maximum number of readers that a worker runs, and so of files in flight: enough to keep a disk busy.
pub(crate) const READERS_PER_WORKER_MAX: usize = 64;

/// Maximum number of large files that a worker searches at a time, as each takes as much memory as its longest line.
const STREAMS_PER_WORKER: usize = 2;

/// How long to wait before a file is opened again that could not be for want of a descriptor: other processes do not notify
/// this one of descriptors that become free.
const SHORTAGE_STEP: Duration = Duration::from_millis(10);
/// Number of such waits after which the user is told, as the search may seem to hang.
const SHORTAGE_STEPS_SILENT: usize = 100;

/// The state that the readers share.
pub(crate) struct Search<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) queue: Queue<Directory, Task>,
    pub(crate) output: &'a Output,
    lister: Lister,
    has_reported_shortage: AtomicBool,
    pub(crate) streams: Semaphore,
    /// `true` while files have to be read from a disk.
    pub(crate) is_cold: AtomicBool,
    has_match: AtomicBool,
    pub(crate) files: AtomicU64,
    pub(crate) bytes: AtomicU64,
    totals: Mutex<Stats>,
    roots: Vec<Arc<Root>>,
    pub(crate) workers: usize,
    readers: Mutex<Readers>,
    start: Instant,
}

/// A file to be searched.
pub(crate) struct Task {
    pub(crate) target: Target,
    /// The place of its result in the output, if that is ordered.
    pub(crate) position: Option<u64>,
    /// The part of its reader's batch that has the whole file, if it has been read.
    pub(crate) text: Option<Range<usize>>,
}

impl Task {
    pub(crate) fn new(target: Target, position: Option<u64>) -> Task {
        Task {
            target,
            position,
            text: None,
        }
    }

    /// Returns `true` for a pipe and whatever else may never end.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(&self.target, Target::Named(root) if root.is_endless)
    }
}

pub(crate) enum Target {
    Found(FileEntry),
    /// A path that the user names.
    Named(Arc<Root>),
}

/// The readers that run.
struct Readers {
    count: usize,
    /// Grows up to `limit`.
    count_max: usize,
    /// [`READERS_PER_WORKER_MAX`] for each worker, or fewer if they could not open their files.
    limit: usize,
    on_worker: HashMap<ThreadId, usize>,
    started: u64,
}

/// How a search has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Something was found.
    Found,
    /// Nothing was found.
    NothingFound,
    /// Something could not be read or written, or the options are wrong.
    Failed,
}

impl<'a> Search<'a> {
    /// Prepares a search by this number of workers, with this limit of open files.
    ///
    /// # Errors
    ///
    /// Too few descriptors are left.
    pub(crate) fn new(
        plan: &'a Plan,
        workers: usize,
        limit: usize,
        output: &'a Output,
    ) -> anyhow::Result<Search<'a>> {
        let filters = Filter::of_each(&plan.paths, &plan.selection);
        let named = plan.paths.iter().cloned().zip(filters);
        let is_implicit = plan.is_path_implicit;
        let root = |(path, filter): (PathBuf, Filter)| {
            Arc::new(Root {
                is_endless: plan.mode != Mode::Path && is_endless(&path),
                path,
                filter,
                is_implicit,
            })
        };
        let roots = Vec::from_iter(named.map(root));
        // The fiber that walks in the order of the paths, and the readers of pipes.
        let others = roots.iter().filter(|root| root.is_endless).count();
        let others = others + usize::from(plan.is_sorted);
        let wanted = READERS_PER_WORKER_MAX * workers;
        let descriptors = Descriptors::new(limit, workers, wanted, others)?;
        let readers_max = descriptors.readers_max;
        Ok(Search {
            plan,
            queue: Queue::new(!plan.is_sorted),
            output,
            lister: Lister::new(plan.selection.follow, descriptors),
            has_reported_shortage: AtomicBool::new(false),
            streams: Semaphore::new(STREAMS_PER_WORKER * workers),
            is_cold: AtomicBool::new(false),
            has_match: AtomicBool::new(false),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            totals: Mutex::new(Stats::new()),
            roots,
            workers,
            readers: Mutex::new(Readers {
                count: 0,
                count_max: readers_max.min(READERS_PER_WORKER * workers),
                limit: readers_max,
                on_worker: HashMap::new(),
                started: 0,
            }),
            start: Instant::now(),
        })
    }

    /// Searches, and prints what is found.
    pub(crate) fn run(&self) -> Outcome {
        if self.plan.matcher.is_some() {
            uthread::scope(|scope| {
                let _progress = progress::show(scope, self);
                uthread::scope(|readers| self.begin(readers));
            });
            let has_searched = self.files.load(Ordering::Relaxed) > 0;
            if self.plan.is_path_implicit && self.plan.mode != Mode::Path && !has_searched {
                self.output
                    .fail("no file was searched: all are hidden or ignored; -uu searches them");
            }
        }
        if !self.output.is_interrupted() {
            self.print_totals();
        }
        match self.has_match.load(Ordering::Relaxed) {
            _ if self.output.has_failed() && !self.is_answered() => Outcome::Failed,
            // Whoever has closed stdout has seen enough.
            found if found || self.output.is_closed() => Outcome::Found,
            _ => Outcome::NothingFound,
        }
    }

    /// Returns `true` if a match was found and that is all the user wants to know.
    pub(crate) fn is_answered(&self) -> bool {
        self.plan.print.quiet && self.has_match.load(Ordering::Relaxed)
    }

    /// Returns `true` if nothing more has to be searched.
    pub(crate) fn is_over(&self) -> bool {
        self.output.is_ending() || self.is_answered() && self.plan.print.totals == Totals::None
    }

    /// Ends the search early: what is queued is dropped, and nobody waits any more.
    pub(crate) fn stop(&self) {
        self.queue.stop();
        if !self.output.is_interrupted() {
            self.output.stop();
        }
    }

    /// Counts what was found in a file.
    pub(crate) fn found(&self, found: &Found) {
        if found.has_match {
            self.has_match.store(true, Ordering::Relaxed);
        }
        if let Some(stats) = &found.stats {
            *self.totals() += stats;
        }
    }

    /// Reports what could not be read.
    pub(crate) fn fail(&self, path: &Path, error: &io::Error) {
        let path = path.display();
        let text = error.to_string();
        match text.contains("allocation limit") {
            // The words of the searcher.
            true => self.output.fail(format_args!(
                "{path}: a line is longer than {} MiB",
                LINE_MAX >> 20
            )),
            false => self.output.fail(format_args!("{path}: {text}")),
        }
    }

    /// Lists a part of a directory, and reports what cannot be read of it.
    pub(crate) fn list(&self, mut directory: Directory) -> Part {
        let opened = match directory.opened.take() {
            Some(opened) => Ok(opened),
            None => self.patiently(|| self.lister.open(&directory.path)),
        };
        let part = match opened {
            Ok(opened) => self.lister.list(directory, opened),
            Err(error) => {
                self.fail(&directory.path, &error);
                return Part::default();
            }
        };
        part.errors.iter().for_each(|error| self.output.fail(error));
        part
    }

    /// Calls `open`, and again whenever it fails for want of a descriptor, until it succeeds or the search is over. Other processes
    /// may have taken what was left.
    ///
    /// # Errors
    ///
    /// The other errors of `open`.
    pub(crate) fn patiently<T>(&self, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut steps = 0;
        loop {
            match open() {
                Err(error) if is_shortage(&error) && !self.is_over() => {
                    steps += 1;
                    if steps == SHORTAGE_STEPS_SILENT
                        && !self.has_reported_shortage.swap(true, Ordering::Relaxed)
                    {
                        self.output
                            .tell(format_args!("waiting for a free descriptor: {error}"));
                    }
                    uthread::thread::sleep(SHORTAGE_STEP);
                }
                result => return result,
            }
        }
    }

    /// Queues what the user names.
    fn begin<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        match self.plan.is_sorted {
            true => order::walk(self, &self.roots, |task| self.add_task(scope, task)),
            false => {
                let task = |root| Task::new(Target::Named(Arc::clone(root)), None);
                let (endless, others): (Vec<_>, Vec<_>) =
                    self.roots.iter().partition(|root| root.is_endless);
                for root in endless {
                    self.add_task(scope, task(root));
                }
                // The newest task is taken first.
                let tasks = others.into_iter().rev().map(task).collect();
                self.add(scope, Vec::new(), tasks);
            }
        }
        self.queue.leave();
    }

    /// Queues a file, or starts a reader of its own for a pipe: one of the others would search no other file until the pipe ends.
    fn add_task<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, task: Task) {
        if !task.is_endless() {
            return self.add(scope, Vec::new(), vec![task]);
        }
        let mut readers = self.readers();
        readers.started += 1;
        let number = readers.started;
        drop(readers);
        scope.spawn(move || {
            let _stop = StopOnPanic(self);
            Reader::new(self, Place::Any(number)).run_one(scope, task);
        });
    }

    /// Queues work, and starts readers for it.
    pub(crate) fn add<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        directories: Vec<Directory>,
        tasks: Vec<Task>,
    ) {
        let wanted = self.queue.add(directories, tasks);
        self.start_readers(scope, wanted);
    }

    fn start_readers<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, count: usize) {
        for _ in 0..count {
            let mut readers = self.readers();
            if readers.count == readers.count_max {
                return;
            }
            readers.count += 1;
            drop(readers);
            self.queue.join();
            scope.spawn(move || self.read(scope));
        }
    }

    /// Starts another reader, as one waits for the disk most of the time.
    pub(crate) fn grow<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let mut readers = self.readers();
        if readers.count_max < readers.limit {
            readers.count_max += 1;
            drop(readers);
            self.start_readers(scope, 1);
        }
    }

    /// Runs a reader, unless its worker has enough. Idle workers steal what follows instead.
    fn read<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let worker = thread::current().id();
        let mut readers = self.readers();
        let most = readers.count_max.div_ceil(self.workers);
        let here = readers.on_worker.entry(worker).or_default();
        if *here >= most {
            readers.count -= 1;
            drop(readers);
            return self.queue.leave();
        }
        *here += 1;
        readers.started += 1;
        let number = readers.started;
        drop(readers);
        let _stop = StopOnPanic(self);
        Reader::new(self, Place::Any(number)).run(scope);
    }

    fn print_totals(&self) {
        let totals = self.totals();
        let text = match self.plan.print.totals {
            Totals::None => return,
            Totals::Text => text_of(&totals, self.start),
            Totals::Json => json_of(&totals, self.start),
        };
        self.output.print_as_is(text.as_bytes());
    }

    fn totals(&self) -> MutexGuard<'_, Stats> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the search if a reader panics: the others would wait for its work.
struct StopOnPanic<'a>(&'a Search<'a>);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if uthread::thread::panicking() {
            self.0.stop();
        }
    }
}

/// Returns `true` for stdin, and for a file that is neither regular nor a directory: a pipe, a device.
fn is_endless(path: &Path) -> bool {
    let is_other = |found: fs::Metadata| !found.is_file() && !found.is_dir();
    is_stdin(path) || fs::metadata(path).is_ok_and(is_other)
}

/// Returns the totals in ripgrep's text form.
fn text_of(totals: &Stats, start: Instant) -> String {
    format!(
        "\n{} matches\n{} matched lines\n{} files contained matches\n{} files searched\n{} bytes printed\n\
         {} bytes searched\n{:.6} seconds spent searching\n{:.6} seconds total\n",
        totals.matches(),
        totals.matched_lines(),
        totals.searches_with_match(),
        totals.searches(),
        totals.bytes_printed(),
        totals.bytes_searched(),
        totals.elapsed().as_secs_f64(),
        start.elapsed().as_secs_f64(),
    )
}

/// Returns the totals in ripgrep's JSON form, which ends the lines of the results.
fn json_of(totals: &Stats, start: Instant) -> String {
    let elapsed = start.elapsed();
    let summary = json!({
        "type": "summary",
        "data": {
            "elapsed_total": {
                "secs": elapsed.as_secs(),
                "nanos": elapsed.subsec_nanos(),
                "human": format!("{:.6}s", elapsed.as_secs_f64()),
            },
            "stats": totals,
        },
    });
    format!("{summary}\n")
}
