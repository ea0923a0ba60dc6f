//! A search: what its readers share.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use grep_printer::Stats;
use uthread::sync::Semaphore;

use crate::descriptors::{Descriptors, is_shortage};
use crate::directory::{Directory, Lister, Part, Root};
use crate::filter::Filter;
use crate::output::Output;
use crate::plan::{LINE_MAX, Mode, Plan, Totals, is_stdin};
use crate::printer::Found;
use crate::queue::Queue;
use crate::readers::{READERS_PER_WORKER_MAX, Readers};
use crate::task::Task;

/// Maximum number of large files that a worker searches at a time, as each takes as much memory as
/// its longest line.
const STREAMS_PER_WORKER: usize = 2;

/// How long to wait before a file is opened again that could not be for want of a descriptor: other
/// processes do not notify this one of descriptors that become free.
const SHORTAGE_STEP: Duration = Duration::from_millis(10);
/// Number of such waits after which the user is told, as the search may seem to hang.
const SHORTAGE_STEPS_SILENT: usize = 100;

/// The state that the readers share.
pub(crate) struct Search<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) queue: Queue<Directory, Task>,
    pub(crate) output: &'a Output,
    lister: Lister,
    /// Messages about ignore files, each of which is printed once, although every reader may read
    /// the file.
    ignore_messages: Mutex<HashSet<String>>,
    has_reported_shortage: AtomicBool,
    pub(crate) streams: Semaphore,
    pub(crate) has_match: AtomicBool,
    pub(crate) files: AtomicU64,
    pub(crate) bytes: AtomicU64,
    totals: Mutex<Stats>,
    pub(crate) roots: Vec<Arc<Root>>,
    pub(crate) workers: usize,
    readers: Mutex<Readers>,
    pub(crate) start: Instant,
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
        let (filters, errors) = Filter::of_each(&plan.paths, &plan.selection);
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
        let others = others + usize::from(plan.is_sorted());
        let wanted = READERS_PER_WORKER_MAX * workers;
        let descriptors = Descriptors::new(limit, workers, wanted, others)?;
        let readers_max = descriptors.readers_max;
        let search = Search {
            plan,
            queue: Queue::new(!plan.is_sorted()),
            output,
            lister: Lister::new(&plan.selection, descriptors),
            ignore_messages: Mutex::default(),
            has_reported_shortage: AtomicBool::new(false),
            streams: Semaphore::new(STREAMS_PER_WORKER * workers),
            has_match: AtomicBool::new(false),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            totals: Mutex::new(Stats::new()),
            roots,
            workers,
            readers: Mutex::new(Readers::new(workers, readers_max, plan.matcher.clone())),
            start: Instant::now(),
        };
        search.tell_of_ignore_files(&errors);
        Ok(search)
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
        if text.contains("allocation limit") {
            // The words of the searcher.
            let what = if self.plan.is_multiline {
                "it is larger"
            } else {
                "a line is longer"
            };
            let limit = LINE_MAX >> 20;
            self.output
                .fail(format_args!("{path}: {what} than {limit} MiB"));
        } else {
            self.output.fail(format_args!("{path}: {text}"));
        }
    }

    /// Lists a part of a directory, and reports what cannot be read of it.
    pub(crate) fn list(&self, directory: Directory) -> Part {
        let opened = match &directory.opened {
            Some(opened) => Ok(Arc::clone(opened)),
            None => self.patiently(|| self.lister.open(&directory)),
        };
        let part = match opened {
            Ok(opened) => self.lister.list(directory, opened),
            Err(error) => {
                self.fail(&directory.path, &error);
                return Part::default();
            }
        };
        part.errors.iter().for_each(|error| self.output.fail(error));
        self.tell_of_ignore_files(&part.ignore_errors);
        part
    }

    /// Prints errors in ignore files. The search goes on without the globs that are wrong.
    fn tell_of_ignore_files(&self, errors: &[ignore::Error]) {
        if errors.is_empty() || !self.plan.selection.ignore.messages {
            return;
        }
        let printed = self.ignore_messages.lock();
        let mut printed = printed.unwrap_or_else(PoisonError::into_inner);
        for error in errors {
            let text = error.to_string();
            if printed.insert(text.clone()) {
                self.output.tell(text);
            }
        }
    }

    /// Calls `open`, and again whenever it fails for want of a descriptor, until it succeeds or the
    /// search is over. Other processes may have taken what was left.
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

    pub(crate) fn totals(&self) -> MutexGuard<'_, Stats> {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `true` for stdin, and for a file that is neither regular nor a directory: a pipe, a
/// device.
fn is_endless(path: &Path) -> bool {
    let is_other = |found: fs::Metadata| !found.is_file() && !found.is_dir();
    is_stdin(path) || fs::metadata(path).is_ok_and(is_other)
}
