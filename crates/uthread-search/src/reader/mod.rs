//! Readers: the fibers that list directories and search files, a bounded number of them.

mod file;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use grep_regex::RegexMatcher;
use grep_searcher::Searcher;
use uthread::fs::AlignedBuffer;
use uthread::thread::{Builder, Scope};

use crate::directory::Directory;
use crate::idleness::Times;
use crate::output::Destination;
use crate::page::Page;
use crate::plan::is_stdin;
use crate::printer::{Found, Printer};
use crate::queue::Work;
use crate::search::Search;
use crate::task::{Target, Task};

/// Results are collected up to this size before they are written, but not for longer than
/// [`DELAY_MAX`].
const PAGE_BYTES: usize = 32 * 1024;
/// Maximum delay of results: people notice a longer one.
const DELAY_MAX: Duration = Duration::from_millis(50);

/// Number of times that a reader's worker was idle, beyond those that it was not, after which there
/// is another reader. A single time may be due to another process on the CPU.
const WAITS_MIN: u32 = 4;
/// Files that take longer may not have been in memory: from there a few take some 50 us.
const SLOW_MIN: Duration = Duration::from_micros(200);

/// Queues a file, or starts a reader of its own for a pipe: one of the others would search no other
/// file until the pipe ends.
pub(crate) fn add_task<'scope>(
    search: &'scope Search<'_>,
    scope: &'scope Scope<'scope, '_>,
    task: Task,
) {
    if !task.is_endless() {
        return add(search, scope, Vec::new(), vec![task]);
    }
    let (number, matcher) = search.readers().start();
    scope.spawn(move || {
        let _stop = StopOnPanic(search);
        Reader::new(search, Destination::Any(number), matcher).run_one(scope, task);
    });
}

/// Queues work, and starts readers for it.
pub(crate) fn add<'scope>(
    search: &'scope Search<'_>,
    scope: &'scope Scope<'scope, '_>,
    directories: Vec<Directory>,
    tasks: Vec<Task>,
) {
    let wanted = search.queue.add(directories, tasks);
    for _ in 0..wanted {
        if !start(search, scope, false) {
            return;
        }
    }
}

/// Starts a reader, on a thread of its own if wanted and possible, and returns `true`, unless there are as many as there
/// may be.
fn start<'scope>(
    search: &'scope Search<'_>,
    scope: &'scope Scope<'scope, '_>,
    on_thread: bool,
) -> bool {
    if !search.readers().add() {
        return false;
    }
    search.queue.join();
    let read = move || read(search, scope);
    let has_thread = on_thread && Builder::new().dedicated().spawn_scoped(scope, read).is_ok();
    if !has_thread {
        scope.spawn(read);
    }
    true
}

/// Starts another reader, as one waits for the disk most of the time. It has a thread, which waits for the disk in each
/// call, and no worker.
fn grow<'scope>(search: &'scope Search<'_>, scope: &'scope Scope<'scope, '_>) {
    if search.readers().grow() {
        start(search, scope, true);
    }
}

/// Runs a reader, unless its worker has enough. Idle workers steal what follows instead.
fn read<'scope>(search: &'scope Search<'_>, scope: &'scope Scope<'scope, '_>) {
    let worker = thread::current().id();
    let started = search.readers().start_on(worker, search.workers);
    let Some((number, matcher)) = started else {
        return search.queue.leave();
    };
    let _stop = StopOnPanic(search);
    Reader::new(search, Destination::Any(number), matcher).run(scope);
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

/// A fiber that searches one file after another.
struct Reader<'a> {
    search: &'a Search<'a>,
    /// The matcher of the worker where the reader has started.
    matcher: Arc<RegexMatcher>,
    searcher: Searcher,
    printer: Printer<'a>,
    /// Allocated for the first file.
    buffer: Option<AlignedBuffer>,
    path: PathBuf,
    /// Where results go if they are not ordered.
    destination: Destination,
    printed_at: Instant,
    /// When the reader has taken its last files.
    since: SystemTime,
    /// Number of times that the worker was idle while the reader had files, less those that it was
    /// not.
    waits: u32,
    /// `true` if the last files may not have been in memory. Only then the CPU time is looked at,
    /// which takes a twentieth of the time of a search in memory.
    is_slow: bool,
}

impl<'a> Reader<'a> {
    fn new(
        search: &'a Search<'a>,
        destination: Destination,
        matcher: Arc<RegexMatcher>,
    ) -> Reader<'a> {
        let page = Page::new(search.output, destination, search.plan.print.colors);
        Reader {
            search,
            matcher,
            searcher: search.plan.searcher.build(),
            printer: Printer::new(search.plan, page),
            buffer: None,
            path: PathBuf::new(),
            destination,
            printed_at: Instant::now(),
            since: SystemTime::UNIX_EPOCH,
            waits: 0,
            is_slow: true,
        }
    }

    /// Does what is queued until nothing is left.
    fn run(&mut self, scope: &'a Scope<'a, '_>) {
        let search = self.search;
        search.output.join();
        while let Some(work) = search.queue.try_take().or_else(|| {
            self.print_page();
            search.output.leave();
            let work = search.queue.take();
            search.output.join();
            work
        }) {
            match work {
                Work::Directory(directory) => self.list(scope, directory),
                Work::Files(tasks) => {
                    self.files(scope, tasks);
                    if search.is_over() {
                        break;
                    }
                    // Files in memory are searched without a wait.
                    uthread::thread::yield_now();
                }
            }
        }
        self.end();
    }

    /// Searches one file, which may never end.
    fn run_one(&mut self, scope: &'a Scope<'a, '_>, task: Task) {
        self.search.output.join();
        self.since = SystemTime::now();
        self.task(scope, task);
        self.end();
    }

    /// Prints what is left, and ends the search if it is over.
    fn end(&mut self) {
        self.print_page();
        self.search.output.leave();
        if self.search.is_over() {
            self.search.stop();
        }
    }

    /// Searches files, and notices whether they are in memory.
    fn files(&mut self, scope: &'a Scope<'a, '_>, tasks: Vec<Task>) {
        let search = self.search;
        self.since = SystemTime::now();
        let begin = Instant::now();
        let times = self.is_slow.then(Times::now);
        for task in tasks {
            self.task(scope, task);
            if search.is_over() {
                return;
            }
        }
        self.is_slow = begin.elapsed() > SLOW_MIN;
        self.waits = if times.is_some_and(|times| times.was_idle()) {
            self.waits + 1
        } else {
            self.waits.saturating_sub(1)
        };
        if self.waits == WAITS_MIN {
            self.waits = 0;
            grow(search, scope);
        }
    }

    /// Queues a part of a directory.
    fn list(&self, scope: &'a Scope<'a, '_>, directory: Directory) {
        let part = self.search.list(directory);
        let unordered = |entry| Task::new(Target::Found(entry), None);
        // Work that is queued last is done first, so that little is queued.
        let directories = part.rest.into_iter().chain(part.directories);
        let tasks = part.files.into_iter().map(unordered);
        add(self.search, scope, directories.collect(), tasks.collect());
    }

    fn task(&mut self, scope: &'a Scope<'a, '_>, task: Task) {
        if let Target::Named(root) = &task.target
            && task.position.is_none()
            && !is_stdin(&root.path)
            && root.path.is_dir()
        {
            return self.list(scope, Directory::of(root));
        }
        let destination = task.position.map_or(self.destination, Destination::Ordered);
        self.set_path(&task.target);
        let page = self.printer.page();
        page.destination = destination;
        let before = page.text.len();
        if let Some(separator) = &self.search.plan.print.separator
            && before > 0
        {
            page.text.extend_from_slice(separator);
            page.text.push(b'\n');
        }
        let empty = page.text.len();
        let result = self.file(&task);
        let page = self.printer.page();
        if !page.end_parts() {
            if page.text.len() == empty {
                page.text.truncate(before);
            }
            if destination != self.destination {
                page.print();
            }
        }
        page.destination = self.destination;
        match result {
            Ok(found) => self.search.found(&found),
            // The search ends, for example as stdout is closed.
            Err(_) if self.search.is_over() => {}
            Err(error) => self.search.fail(&self.path, &error),
        }
        let page = self.printer.page();
        if !page.text.is_empty()
            && (page.text.len() >= PAGE_BYTES
                || self.search.plan.print.line_buffered
                || self.printed_at.elapsed() > DELAY_MAX)
        {
            self.print_page();
        }
    }

    /// Prints the path of a file that would be searched.
    fn path(&mut self, target: &Target) -> io::Result<Found> {
        // Files found in directories exist.
        if let Target::Named(root) = target
            && !is_stdin(&root.path)
        {
            fs::metadata(&root.path)?;
        }
        if !self.search.plan.print.quiet {
            self.printer.print_path(&self.path)?;
        }
        Ok(Found {
            has_match: true,
            stats: None,
        })
    }

    /// Sets the path that is printed.
    fn set_path(&mut self, target: &Target) {
        self.path.as_mut_os_string().clear();
        match target {
            Target::Found(entry) => {
                self.path.push(&entry.folder.printed);
                self.path.push(&entry.name);
            }
            Target::Named(root) if is_stdin(&root.path) => self.path.push("<stdin>"),
            Target::Named(root) => self.path.push(&root.path),
        }
    }

    fn print_page(&mut self) {
        let page = self.printer.page();
        if !page.text.is_empty() {
            page.print();
        }
        self.printed_at = Instant::now();
    }
}
