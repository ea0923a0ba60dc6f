//! `cargo xtask ci`: everything that must pass before a merge, step after step. The tests come
//! last, and those that failed are repeated at the end of the output.
//!
//! `cargo test` alone checks the same things less deeply, so that it takes minutes in a fresh
//! clone: the variables of the last step are what it leaves out.

use std::env;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cost;

/// A command of cargo, by its name in the output.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

const STEPS: [Step; 5] = [
    Step {
        name: "format",
        arguments: &["fmt", "--all", "--check"],
        variables: &[],
    },
    Step {
        name: "lints",
        arguments: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
        variables: &[],
    },
    // The tests turn a feature of the library on, so the step above does not see the library
    // without it.
    Step {
        name: "lints of the library without features",
        arguments: &[
            "clippy",
            "--package",
            "uthread",
            "--lib",
            "--no-default-features",
            "--",
            "-D",
            "warnings",
        ],
        variables: &[],
    },
    Step {
        name: "documentation",
        arguments: &["doc", "--workspace", "--no-deps"],
        variables: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    Step {
        name: "tests",
        arguments: &["test", "--no-fail-fast"],
        variables: &[
            ("UTHREAD_EXHAUSTIVE", "1"),
            ("UTHREAD_SLEEPERS", "100000"),
            // Many of them wait most of the time.
            ("RUST_TEST_THREADS", "4"),
        ],
    },
];

/// Runs every step in the root of the workspace, up to the first that fails; returns whether all
/// passed.
pub(crate) fn run(root: &Path) -> io::Result<bool> {
    println!("\n== instructions ==");
    if !cost::is_available() {
        println!("not counted: valgrind is not installed");
    } else if !cost::run(root, false)? {
        return Ok(false);
    }
    for step in &STEPS {
        println!("\n== {} ==", step.name);
        if !step.run(root)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Step {
    /// Returns whether it passed.
    fn run(&self, root: &Path) -> io::Result<bool> {
        let mut child = self.command(root).stdout(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut failures = String::new();
        let mut is_failure = false;
        for line in output.split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned() + "\n";
            print!("{line}");
            is_failure = (is_failure || line == "failures:\n") && !line.starts_with("test result:");
            if is_failure {
                failures += &line;
            }
        }
        let is_success = child.wait()?.success();
        if !is_success {
            eprintln!("{failures}ci: {} failed", self.name);
        }
        Ok(is_success)
    }

    fn command(&self, root: &Path) -> Command {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(root).stdin(Stdio::null());
        command.args(self.arguments);
        command.envs(self.variables.iter().copied());
        command
    }
}
