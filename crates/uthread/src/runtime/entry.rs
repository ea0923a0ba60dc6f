//! The functions that `#[uthread::main]` and `#[uthread::test]` expand to calls of.
//!
//! The result of the body is reported in the fiber, so it may be a `Box<dyn Error>`, which is not
//! `Send`; only the exit code leaves the fiber.
//!
//! A program ends like one without fibers: `main` returns, `std` flushes the standard output and
//! calls `exit`, and the remaining fibers vanish with the process. So the runtime is never dropped,
//! which would unwind them.

use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::process::{ExitCode, Termination};
use std::time::Duration;

use super::builder::is_stack_size;
use super::limit::Limit;
use super::panic_hook;
use super::workers::is_count_of_workers;
use super::{Backend, Builder, Runtime, Shutdown};

impl Builder {
    /// Fails at compile time if a runtime cannot have this number of workers.
    #[doc(hidden)]
    pub const fn assert_workers(count: usize) {
        assert!(is_count_of_workers(count), "choose from 1 to 1024 workers");
    }

    /// Fails at compile time if a runtime cannot have stacks of this size.
    #[doc(hidden)]
    pub const fn assert_stack_size(bytes: usize) {
        assert!(is_stack_size(bytes), "choose stacks of at most 1 GiB");
    }

    /// Runs `body` as the main fiber of a new runtime and reports its result. The runtime lives
    /// until the process ends, also if `body` panics.
    #[doc(hidden)]
    #[track_caller]
    pub fn run_main<T: Termination>(self, body: fn() -> T) -> ExitCode {
        match self.build() {
            Ok(runtime) => ManuallyDrop::new(runtime).run(|| body().report()),
            Err(error) => {
                // If the message cannot be written, the exit code still reports the failure.
                let _ = writeln!(io::stderr(), "uthread: the runtime cannot start: {error}");
                ExitCode::FAILURE
            }
        }
    }

    /// Runs `body` as the main fiber of a new runtime and reports its result, for a test. Panics if
    /// the runtime cannot start. As the process goes on, the runtime ends, but fibers that the test
    /// leaves behind are abandoned instead of unwound, like threads that a test leaves behind.
    #[doc(hidden)]
    #[track_caller]
    pub fn run_test<T: Termination>(self, body: fn() -> T) -> ExitCode {
        panic_hook::capture();
        let limit = self.limit;
        let (runtime, limit) = match self.build().and_then(|runtime| begin(runtime, limit)) {
            Ok(begun) => begun,
            Err(error) => panic!("the runtime cannot start: {error}"),
        };
        let result = panic::catch_unwind(AssertUnwindSafe(|| runtime.run(|| body().report())));
        let limit = limit.and_then(Limit::end);
        let verdict = limit.as_ref().or_else(|| runtime.verdict());
        if verdict.is_some() || !matches!(result, Ok(ExitCode::SUCCESS)) {
            runtime.report_world();
        }
        if let Some(verdict) = verdict {
            panic!("{verdict}");
        }
        result.unwrap_or_else(|payload| panic::resume_unwind(payload))
    }

    /// Limits the time that the test may take, by the clock of the system. A test that takes longer
    /// fails, with a list of its fibers, and these are cancelled.
    #[doc(hidden)]
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Builder {
        self.limit = Some(limit);
        self
    }
}

/// Begins the limit of a test.
///
/// # Errors
///
/// The errors of `pthread_create(3)`.
fn begin(runtime: Runtime, limit: Option<Duration>) -> io::Result<(AbandonOnDrop, Option<Limit>)> {
    let limit = limit.map(|limit| Limit::begin(&runtime, limit));
    let limit = limit.transpose()?;
    Ok((AbandonOnDrop(Some(runtime)), limit))
}

/// Abandons the fibers of a runtime on drop, also during a panic.
struct AbandonOnDrop(Option<Runtime>);

impl AbandonOnDrop {
    #[track_caller]
    fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        self.runtime().run(f)
    }

    fn runtime(&self) -> &Runtime {
        self.0.as_ref().expect("set until the drop")
    }

    /// Returns why the fibers were ended, if not by the program.
    fn verdict(&self) -> Option<&String> {
        match &self.runtime().backend {
            Backend::Workers(workers) => workers.shared.verdict.get(),
            Backend::Threads(_) => None,
        }
    }

    /// Writes what has happened in the world of a test that has failed, if it had one.
    fn report_world(&self) {
        if let Backend::Workers(workers) = &self.runtime().backend {
            workers.shared.report_world();
        }
    }
}

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown(Shutdown::Abandon);
        }
    }
}
