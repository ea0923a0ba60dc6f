//! Tells the functions of a program from those of the library and of the switch, by names where
//! these have paths, and otherwise by files: line tables alone name an inlined function without its
//! path.

use crate::model::Frame;

/// The function in which each fiber begins, and its file in the library.
const BASE: &str = "run_fibers";
const BASE_FILE: &str = "fiber/runner.rs";

/// Where the functions are that a suspended fiber has entered, besides the library's.
const INNER: [&str; 3] = ["corosensei::", "core::", "std::thread::local::"];
const INNER_FILES: [&str; 3] = [
    "/corosensei-",
    "/library/core/",
    "/library/std/src/thread/local",
];

/// Where the functions are by which the library calls that of a fiber, besides its own.
const OUTER: [&str; 5] = [
    "core::panic::",
    "core::ops::function::",
    "std::panicking::",
    "std::panic::",
    "__rust_try",
];
const OUTER_FILES: [&str; 4] = [
    "/library/core/src/panic/",
    "/library/core/src/ops/",
    "/library/std/src/panicking",
    "/library/std/src/panic",
];

/// The modules of the library. A program may have its name.
const LIBRARY: [&str; 23] = [
    "driver",
    "fiber",
    "fs",
    "io",
    "join",
    "local",
    "net",
    "op",
    "os",
    "pool",
    "priorities",
    "priority",
    "process",
    "resource",
    "ring",
    "runtime",
    "sched",
    "signal",
    "stack",
    "sync",
    "thread",
    "time",
    "tls",
];

/// Where the functions of a backtrace come from.
pub(crate) struct Origins {
    /// The folder of the library's sources, if there are line tables.
    library: Option<String>,
}

impl Origins {
    /// Finds the library's sources by the base of a backtrace.
    pub(crate) fn of(frames: &[Frame]) -> Origins {
        let library = frames.iter().find_map(|frame| {
            let folder = frame.file.as_deref()?.strip_suffix(BASE_FILE)?;
            (last_name(&frame.function) == BASE).then(|| folder.to_owned())
        });
        Origins { library }
    }

    /// Returns `true` if it is the function in which each fiber begins.
    pub(crate) fn is_base(&self, frame: &Frame) -> bool {
        last_name(&frame.function) == BASE && self.module(frame).is_some()
    }

    /// Returns `true` if it is of the library.
    pub(crate) fn is_of_library(&self, frame: &Frame) -> bool {
        self.module(frame).is_some()
    }

    /// Returns `true` if a suspended fiber may have entered it to be suspended.
    pub(crate) fn is_inner(&self, frame: &Frame) -> bool {
        self.is_of_library(frame) || is_in(frame, &INNER, &INNER_FILES)
    }

    /// Returns `true` if it may be between the function of a fiber and the base of its stack.
    pub(crate) fn is_outer(&self, frame: &Frame) -> bool {
        let is_of_library = |module: String| {
            ["fiber::", "runtime::"]
                .iter()
                .any(|outer| module.starts_with(outer))
        };
        self.module(frame).is_some_and(is_of_library) || is_in(frame, &OUTER, &OUTER_FILES)
    }

    /// Puts the module before the name of a function of the library without a path.
    pub(crate) fn qualify(&self, frame: &mut Frame) {
        let before_parameters = frame.function.split('<').next().unwrap_or("");
        if !frame.function.starts_with('<')
            && !before_parameters.contains("::")
            && let Some(module) = self.module(frame)
        {
            frame.function = format!("uthread::{module}{}", frame.function);
        }
    }

    /// Returns the path in the library, with `::` at its end, of a function of the library.
    fn module(&self, frame: &Frame) -> Option<String> {
        let (Some(file), Some(library)) = (&frame.file, &self.library) else {
            let name = frame.function.trim_start_matches(['<', '&']);
            let path = name.strip_prefix("uthread::")?;
            let is_of_library = LIBRARY.contains(&path.split("::").next()?);
            return is_of_library.then(|| path.to_owned());
        };
        let file = file.strip_prefix(library)?;
        let module = file.strip_suffix(".rs")?;
        let module = module.strip_suffix("/mod").unwrap_or(module);
        Some(module.replace('/', "::") + "::")
    }
}

fn is_in(frame: &Frame, names: &[&str], files: &[&str]) -> bool {
    let name = frame.function.trim_start_matches(['<', '&']);
    let has_file = |file: &str| files.iter().any(|part| file.contains(part));
    names.iter().any(|module| name.starts_with(module))
        || frame.file.as_deref().is_some_and(has_file)
}

/// Returns the name of a function without its path.
fn last_name(function: &str) -> &str {
    function.rsplit("::").next().unwrap_or(function)
}
