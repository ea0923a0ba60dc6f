//! The calls of a stalled fiber as a user reads them: with names and lines, without those of the
//! runtime.
//!
//! Addresses are captured at once, and resolved when they are printed: that reads the files of the
//! program.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::ptr;

use crate::driver::native::blocked::{Blocked, Task};
use crate::driver::native::call_stack;
use crate::tls::modules;

/// The calls by which a stalled fiber got to the system call in which it is blocked, the innermost
/// first. Available with the feature `backtrace`.
///
/// It is printed like a backtrace of `std`, without the functions of the C library that make the
/// system call and the functions of the runtime that run the fiber. Lines are known as far as the
/// program has debug information. To print the first one may take a second, because it reads that
/// information.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// #[inline(never)]
/// fn wait_for_the_device() {
///     std::thread::sleep(Duration::from_millis(500)); // Blocks the worker.
/// }
///
/// let (sender, backtraces) = mpsc::channel();
/// let runtime = uthread::Runtime::builder()
///     .workers(1)
///     .lean()
///     .stall_threshold(Duration::from_millis(10))
///     .on_stall(move |stall| {
///         if let Some(backtrace) = &stall.backtrace {
///             drop(sender.send(backtrace.to_string()));
///         }
///     })
///     .build()?;
/// runtime.run(|| {
///     let other = uthread::spawn(|| ());
///     wait_for_the_device();
///     other.join().unwrap();
/// });
/// drop(runtime); // No more reports.
/// let backtrace = backtraces.recv().unwrap();
/// assert!(backtrace.contains("wait_for_the_device"), "{backtrace}");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StallBacktrace {
    addresses: Box<[usize]>,
}

impl StallBacktrace {
    /// Returns `None` if the thread is not blocked like this any more, or if the kernel does not
    /// reveal where.
    pub(super) fn capture(task: Task, blocked: Blocked) -> Option<StallBacktrace> {
        let addresses = call_stack::capture(task, blocked)?.into();
        Some(StallBacktrace { addresses })
    }

    /// Returns the calls from the one that enters the C library to the fiber's closure.
    fn calls(&self) -> Vec<Call> {
        // The calls of the C library are not resolved: its debug information may be large.
        let of_c_library = |address: &&usize| modules::c_library().contains(*address);
        let entering = self.addresses.iter().skip_while(of_c_library);
        let mut calls: Vec<Call> = entering.flat_map(|address| resolve(*address)).collect();
        if let Some(end) = calls.iter().position(Call::is_of_runtime) {
            calls.truncate(end);
            while calls.pop_if(|call| call.is_of_catching()).is_some() {}
        }
        calls
    }
}

impl fmt::Display for StallBacktrace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, call) in self.calls().iter().enumerate() {
            if index > 0 {
                formatter.write_str("\n")?;
            }
            write!(formatter, "{index:>4}: {}", call.name)?;
            if let (Some(file), Some(line)) = (&call.file, call.line) {
                write!(formatter, "\n             at {}:{line}", file.display())?;
            }
        }
        Ok(())
    }
}

/// The runner of a fiber, by the beginnings of its functions' names.
const RUNNER: [&str; 2] = ["uthread::fiber::", "<uthread::fiber::"];

/// The folder of the runner. Debug information without types has only the last part of a name.
const RUNNER_FOLDER: &str = "fiber/";

/// This file in the folder of the sources.
const THIS_FILE: &str = "sched/monitor/backtrace.rs";

/// The functions of `std` between a fiber and its closure, which catch a panic.
const CATCHING: [&str; 6] = [
    "__rust_try",
    "std::panic::catch_unwind",
    "std::panicking::catch_unwind",
    "std::panicking::try",
    "<core::panic::unwind_safe::AssertUnwindSafe<",
    "core::ops::function::FnOnce::call_once",
];

/// The files of these functions.
const CATCHING_FILES: [&str; 4] = [
    "/std/src/panic.rs",
    "/std/src/panicking.rs",
    "/core/src/panic/unwind_safe.rs",
    "/core/src/ops/function.rs",
];

/// A function, and the place in its file, if that is known.
struct Call {
    name: String,
    file: Option<PathBuf>,
    line: Option<u32>,
}

impl Call {
    fn is_of_runtime(&self) -> bool {
        // The compiler names this file like the others.
        let sources = file!().strip_suffix(THIS_FILE);
        let folder = sources.map(|sources| format!("{sources}{RUNNER_FOLDER}"));
        self.begins_with(&RUNNER) || folder.is_some_and(|folder| self.path().contains(&folder))
    }

    fn is_of_catching(&self) -> bool {
        let path = self.path();
        self.begins_with(&CATCHING) || CATCHING_FILES.iter().any(|file| path.ends_with(file))
    }

    fn begins_with(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.name.starts_with(name))
    }

    fn path(&self) -> Cow<'_, str> {
        let file = self.file.as_ref();
        file.map_or_else(Cow::default, |file| file.to_string_lossy())
    }
}

/// Returns the function that contains the address, after those that are inlined there.
fn resolve(address: usize) -> Vec<Call> {
    let mut calls = Vec::new();
    ::backtrace::resolve(ptr::with_exposed_provenance_mut(address), |symbol| {
        calls.push(Call {
            name: symbol
                .name()
                .map_or_else(unknown, |name| format!("{name:#}")),
            file: symbol.filename().map(Path::to_owned),
            line: symbol.lineno(),
        });
    });
    if calls.is_empty() {
        calls.push(Call {
            name: unknown(),
            file: None,
            line: None,
        });
    }
    calls
}

fn unknown() -> String {
    "<unknown>".to_owned()
}
