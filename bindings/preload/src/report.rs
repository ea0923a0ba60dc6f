//! What `uthread run --stats` and `--verbose` print: a table at the end of the program, and a line for
//! the first fall-back of each kind.
//!
//! | variable | value |
//! | --- | --- |
//! | `UTHREAD_STATS` | the number of the process that `uthread run` has become |
//! | `UTHREAD_VERBOSE` | any |
//!
//! A child made by `fork` prints no table; a program that a child runs prints one if it has created
//! threads. The table is printed by a destructor of this library, which `exit` calls, but not `_exit`.

use std::cmp::Reverse;
use std::env;
use std::ffi::c_int;
use std::fmt::{self, Write as _};
use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use uthread_pthread::{blocking, process as fibers, record};

use crate::functions::Function;

/// Number of names in a line of the table, which is then short.
const NAMES_MAX: usize = 8;

/// The least number of the copy of standard error: beyond those that programs expect to be free.
const FD_MIN: c_int = 200;

const FUNCTIONS: usize = Function::ALL.len();
const REASONS: usize = Reason::ALL.len();

/// `true` if something is to be printed.
static COUNTS: AtomicBool = AtomicBool::new(false);
/// `true` if fall-backs are told.
static TELLS: AtomicBool = AtomicBool::new(false);

static THREADS: AtomicU64 = AtomicU64::new(0);
static CARRIED: [AtomicU64; FUNCTIONS] = [const { AtomicU64::new(0) }; FUNCTIONS];
static FALLEN_BACK: [[AtomicU64; REASONS]; FUNCTIONS] =
    [const { [const { AtomicU64::new(0) }; REASONS] }; FUNCTIONS];

/// Defines the reasons.
macro_rules! reasons {
    ($($name:ident $kind:ident $text:literal;)*) => {
        /// The reason why something is left to the C library.
        #[derive(Clone, Copy)]
        pub(crate) enum Reason {
            $($name),*
        }

        impl Reason {
            const ALL: &[Reason] = &[$(Reason::$name),*];

            fn text(self) -> &'static str {
                match self {
                    $(Reason::$name => $text),*
                }
            }

            fn kind(self) -> Kind {
                match self {
                    $(Reason::$name => Kind::$kind),*
                }
            }
        }
    };
}

reasons! {
    SharedMutex Object "process-shared mutex";
    RobustMutex Object "robust mutex";
    CeilingMutex Object "mutex with a priority ceiling";
    SharedCondition Object "process-shared condition variable";
    SharedRwlock Object "process-shared read-write lock";
    SharedBarrier Object "process-shared barrier";
    SharedSemaphore Object "process-shared semaphore";
    NativeObject Call "object of the C library";
    Mask Call "mask of signals";
    Children Call "not only the end of one child";
    Disk Call "file on a disk";
    SharedWord Call "word in memory that processes may share";
    InheritingWord Call "lock with priority inheritance";
}

/// What is left to the C library.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// An object.
    Object,
    /// A call of a fiber, which may block its thread.
    Call,
}

/// The process that prints the table, and where.
struct Table {
    process: u32,
    /// `true` if it is printed without threads, too.
    always: bool,
    /// A copy of standard error, which programs may close before their end.
    fd: c_int,
    /// The file of the copy: the program may close that, too, and use its number.
    file: Option<(u64, u64)>,
}

static TABLE: OnceLock<Table> = OnceLock::new();

/// Reads the variables. Called before the program.
#[allow(unsafe_code, reason = "a system call")]
pub(crate) fn begin() {
    let tells = env::var_os("UTHREAD_VERBOSE").is_some();
    let stats = env::var_os("UTHREAD_STATS");
    if !tells && stats.is_none() {
        return;
    }
    if let Some(asked) = stats {
        let process = process::id();
        // SAFETY: the call takes no memory.
        let fd = unsafe { libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, FD_MIN) };
        let table = Table {
            process,
            always: asked == process.to_string().as_str(),
            fd,
            file: file_of(fd),
        };
        // The library is initialized once.
        let _ = TABLE.set(table);
    }
    TELLS.store(tells, Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    blocking::observe(|name| {
        let is_it = |function: &&Function| function.name().to_bytes() == name.as_bytes();
        let reason = match name {
            "waitpid" | "wait4" | "waitid" => Reason::Children,
            "open" | "readv" | "writev" => Reason::Disk,
            _ => Reason::Mask,
        };
        if let Some(function) = Function::ALL.iter().find(is_it) {
            fall_back(*function, reason);
        }
    });
}

/// Counts a thread that the program asks for.
pub(crate) fn count_thread() {
    THREADS.fetch_add(1, Ordering::Relaxed);
}

/// Counts a call of a fiber that suspends it if it has to wait.
#[inline]
pub(crate) fn carry(function: Function) {
    if COUNTS.load(Ordering::Relaxed) {
        CARRIED[function as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a call on an object of the C library if it may block a fiber.
pub(crate) fn call_native(function: Function) {
    if COUNTS.load(Ordering::Relaxed) && waits(shown(function)) && record::is_fiber() {
        fall_back(function, Reason::NativeObject);
    }
}

/// Returns `true` if the function on an object with this name may wait.
fn waits(name: &str) -> bool {
    let is_lock = name.ends_with("lock") && !name.ends_with("unlock");
    (is_lock || name.ends_with("wait")) && !name.contains("_try")
}

/// Counts what is left to the C library, and tells of the first one of its kind.
#[cold]
pub(crate) fn fall_back(function: Function, reason: Reason) {
    if !COUNTS.load(Ordering::Relaxed) {
        return;
    }
    let before = FALLEN_BACK[function as usize][reason as usize].fetch_add(1, Ordering::Relaxed);
    if before > 0 || !TELLS.load(Ordering::Relaxed) {
        return;
    }
    let consequence = match reason.kind() {
        Kind::Object => "stays with the C library",
        Kind::Call => "may block a thread",
    };
    let (name, reason) = (shown(function), reason.text());
    let line = format!("uthread run: {name}: {reason}: {consequence}\n");
    write(libc::STDERR_FILENO, &line);
}

/// Called by `exit`, after what the program has registered.
#[used]
#[unsafe(link_section = ".fini_array")]
#[allow(unsafe_code, reason = "a section that the loader reads")]
static END: extern "C" fn() = end;

extern "C" fn end() {
    let Some(table) = TABLE.get() else { return };
    let is_asked_for = table.always || THREADS.load(Ordering::Relaxed) > 0;
    if !is_asked_for || process::id() != table.process {
        return;
    }
    let mut text = String::new();
    if describe(&mut text, table.process).is_ok() {
        let is_there = table.file.is_some() && file_of(table.fd) == table.file;
        write(
            if is_there {
                table.fd
            } else {
                libc::STDERR_FILENO
            },
            &text,
        );
    }
}

fn describe(text: &mut String, process: u32) -> fmt::Result {
    let program = env::args_os().next().unwrap_or_default();
    let program = Path::new(&program).file_name().unwrap_or_default();
    let runtime = fibers::running();
    let workers = runtime.map_or(0, |runtime| runtime.workers());
    let switches = runtime.map_or(0, |runtime| runtime.metrics().total().switches);
    let threads = THREADS.load(Ordering::Relaxed);
    let peak = record::peak();
    let program = program.display();
    writeln!(text, "uthread run: {program} (process {process})")?;
    writeln!(
        text,
        "  threads of the program  {threads}, at most {peak} at once"
    )?;
    writeln!(text, "  workers                 {workers}")?;
    if let Ok(tasks) = fs::read_dir("/proc/self/task") {
        let tasks = tasks.count();
        writeln!(text, "  threads of the system   {tasks} at the end")?;
    }
    writeln!(text, "  switches of fibers      {switches}")?;
    let blocked = |function| {
        let reasons = of_kind(Kind::Call);
        reasons.map(|reason| fallen_back(function, reason)).sum()
    };
    let suspended = |function| {
        let carried = CARRIED[function as usize].load(Ordering::Relaxed);
        carried.saturating_sub(blocked(function))
    };
    write_counts(text, "calls that suspend", by_function(suspended))?;
    write_counts(text, "calls that may block", by_function(blocked))?;
    let native = of_kind(Kind::Object).map(|reason| {
        let functions = Function::ALL.iter();
        let counts = functions.map(|function| fallen_back(*function, reason));
        (reason.text(), counts.sum())
    });
    write_counts(text, "objects of glibc", native.collect())
}

fn by_function(count: impl Fn(Function) -> u64) -> Vec<(&'static str, u64)> {
    let functions = Function::ALL.iter().copied();
    let counts = functions.map(|function| (shown(function), count(function)));
    counts.collect()
}

fn of_kind(kind: Kind) -> impl Iterator<Item = Reason> {
    let reasons = Reason::ALL.iter().copied();
    reasons.filter(move |reason| reason.kind() == kind)
}

fn fallen_back(function: Function, reason: Reason) -> u64 {
    FALLEN_BACK[function as usize][reason as usize].load(Ordering::Relaxed)
}

/// Writes a line with the sum, and the largest counts.
fn write_counts(text: &mut String, title: &str, mut counts: Vec<(&str, u64)>) -> fmt::Result {
    counts.retain(|(_, count)| *count > 0);
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let sum = |counts: &[(&str, u64)]| counts.iter().map(|(_, count)| count).sum::<u64>();
    write!(text, "  {title:<22}  {}", sum(&counts))?;
    let (named, others) = counts.split_at(counts.len().min(NAMES_MAX));
    for (index, (name, count)) in named.iter().enumerate() {
        let separator = if index == 0 { ": " } else { ", " };
        write!(text, "{separator}{name} {count}")?;
    }
    if !others.is_empty() {
        write!(text, ", others {}", sum(others))?;
    }
    writeln!(text)
}

/// Returns the name of a function as it is printed.
fn shown(function: Function) -> &'static str {
    match function {
        Function::syscall => "futex",
        _ => function.name().to_str().unwrap_or_default(),
    }
}

/// Returns what identifies the file of a descriptor.
#[allow(unsafe_code, reason = "a system call")]
fn file_of(fd: c_int) -> Option<(u64, u64)> {
    let mut status = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the status has room for the result.
    let result = unsafe { libc::fstat(fd, status.as_mut_ptr()) };
    // SAFETY: the structure was zeroed, and each bit pattern is valid.
    let status = unsafe { status.assume_init() };
    (result == 0).then_some((status.st_dev, status.st_ino))
}

/// Writes a text by one call. What cannot be written is lost.
#[allow(unsafe_code, reason = "a system call")]
fn write(fd: c_int, text: &str) {
    // SAFETY: the text lives during the call.
    unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
}
