//! What `#[uthread::main]` and `#[uthread::test]` expand to calls of.
//!
//! A result is reported, as at the end of any program, where it was made: in the fiber. So it may be a
//! `Box<dyn Error>`, which is not `Send`; only the exit code leaves.
//!
//! A program ends as one of `std` does: `main` returns, `std` flushes the standard output and calls `exit`, and the
//! fibers that are left vanish with the process. So the runtime is never dropped, which would unwind them.

use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::process::{ExitCode, Termination};

use super::builder::{is_count_of_workers, is_stack_size};
use super::panic_hook;
use super::{Builder, Runtime, Shutdown};

impl Builder {
    /// Fails, and does so when compiled, unless a runtime can have so many workers.
    #[doc(hidden)]
    pub const fn assert_workers(count: usize) {
        assert!(is_count_of_workers(count), "choose from 1 to 1024 workers");
    }

    /// The same of the size of its stacks.
    #[doc(hidden)]
    pub const fn assert_stack_size(bytes: usize) {
        assert!(is_stack_size(bytes), "choose stacks of at most 1 GiB");
    }

    /// Runs `body` as the main fiber of such a runtime and reports its result. The runtime lives until the process
    /// ends, also when `body` panics.
    #[doc(hidden)]
    #[track_caller]
    pub fn run_main<T: Termination>(self, body: fn() -> T) -> ExitCode {
        match self.build() {
            Ok(runtime) => ManuallyDrop::new(runtime).run(|| body().report()),
            Err(error) => {
                // Where that cannot be written, the exit code has to say it.
                let _ = writeln!(io::stderr(), "uthread: the runtime cannot start: {error}");
                ExitCode::FAILURE
            }
        }
    }

    /// The same for a test, which fails where no such runtime can start. The process goes on after it, so the runtime ends;
    /// but what the test has left is not unwound, as threads that a test leaves are not.
    #[doc(hidden)]
    #[track_caller]
    pub fn run_test<T: Termination>(self, body: fn() -> T) -> ExitCode {
        panic_hook::capture();
        match self.build() {
            Ok(runtime) => AbandonOnDrop(Some(runtime)).run(|| body().report()),
            Err(error) => panic!("the runtime cannot start: {error}"),
        }
    }
}

/// Abandons the fibers of a runtime when it is dropped, also by a panic.
struct AbandonOnDrop(Option<Runtime>);

impl AbandonOnDrop {
    #[track_caller]
    fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let runtime = self.0.as_ref().expect("it is there until the drop");
        runtime.run(f)
    }
}

impl Drop for AbandonOnDrop {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown(Shutdown::Abandon);
        }
    }
}
