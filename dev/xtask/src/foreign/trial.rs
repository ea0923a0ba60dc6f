//! Runs each test in its own process, with a time limit, several at once.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;

use super::plan::{FIBERS, STD, TEST_LIMIT, TRIES};
use super::programs::Program;
use super::table::Verdict;

/// Exit codes of `timeout` from coreutils after it has stopped a program, with SIGTERM or finally
/// SIGKILL.
const STOPPED: [i32; 2] = [124, 137];

/// Runs all tests of a program on a driver. Concurrent tests get their own folders below
/// `temporary`. The output of failed tests stays in files below `logs`.
pub(super) fn run(
    program: &Program,
    tests: &[String],
    driver: &str,
    at_once: usize,
    logs: &Path,
    temporary: &Path,
) -> io::Result<Vec<(String, Verdict)>> {
    fs::create_dir_all(logs)?;
    let waiting = Mutex::new(tests.iter());
    let next = || {
        waiting
            .lock()
            .expect("no thread panics with the lock")
            .next()
    };
    let work = |own: PathBuf| -> io::Result<Vec<(String, Verdict)>> {
        let mut done = Vec::new();
        while let Some(test) = next() {
            let name = test.replace("::", ".").replace('/', "_");
            let log = logs.join(format!("{}.{name}.log", program.name));
            let verdict = several(|| once(program, test, driver, &log, &own))?;
            if verdict == Verdict::Passed {
                fs::remove_file(&log)?;
            }
            done.push((format!("{} {test}", program.name), verdict));
        }
        Ok(done)
    };
    let mut all = Vec::new();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once)
            .map(|at| {
                let own = temporary.join(at.to_string());
                scope.spawn(|| work(own))
            })
            .collect();
        for worker in workers {
            all.extend(worker.join().expect("a worker does not panic")?);
        }
        Ok::<_, io::Error>(())
    })?;
    all.sort();
    Ok(all)
}

/// Returns the verdict of a test, which runs again if it fails.
fn several(mut run: impl FnMut() -> io::Result<Verdict>) -> io::Result<Verdict> {
    let first = run()?;
    if matches!(first, Verdict::Passed | Verdict::Hung) {
        return Ok(first);
    }
    for _ in 1..TRIES {
        if run()? != first {
            return Ok(Verdict::Unsteady);
        }
    }
    Ok(first)
}

fn once(
    program: &Program,
    test: &str,
    driver: &str,
    log: &Path,
    temporary: &Path,
) -> io::Result<Verdict> {
    if temporary.exists() {
        fs::remove_dir_all(temporary)?;
    }
    fs::create_dir_all(temporary)?;
    let file = File::create(log)?;
    let own = program.command();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=2", &TEST_LIMIT.as_secs().to_string()]);
    command.arg(&program.file).args(["--exact", test]);
    command.args(["--test-threads=1", "--nocapture"]);
    command.current_dir(own.get_current_dir().expect("a folder is set"));
    for (name, value) in own.get_envs() {
        command.env(name, value.expect("a value is set"));
    }
    command.env("TMPDIR", temporary);
    command.env_remove("UTHREAD_LEAN");
    match driver {
        STD => command.env_remove("UTHREAD_DRIVER"),
        FIBERS => command.env("UTHREAD_DRIVER", "uring"),
        driver => command.env("UTHREAD_DRIVER", driver),
    };
    command.stdin(Stdio::null());
    command.stdout(file.try_clone()?).stderr(file);
    Ok(verdict(command.status()?))
}

fn verdict(status: ExitStatus) -> Verdict {
    match (status.code(), status.signal()) {
        (Some(0), _) => Verdict::Passed,
        (Some(code), _) if STOPPED.contains(&code) => Verdict::Hung,
        // `timeout` ends with the signal that ended the program, or with a shell's exit code for
        // it.
        (None, Some(_)) | (Some(128..), _) => Verdict::Aborted,
        _ => Verdict::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_status_is_a_verdict() {
        for (raw, expected) in [
            (0, Verdict::Passed),
            (101 << 8, Verdict::Failed),
            (124 << 8, Verdict::Hung),
            (137 << 8, Verdict::Hung),
            (134 << 8, Verdict::Aborted),
            (6, Verdict::Aborted),
        ] {
            assert_eq!(verdict(ExitStatus::from_raw(raw)), expected, "{raw}");
        }
    }

    #[test]
    fn failed_trials_run_again() {
        let check = |verdicts: &[Verdict], expected| {
            let mut left = verdicts.iter();
            let found = several(|| Ok(*left.next().expect("another run")));
            assert_eq!((found.unwrap(), left.len()), (expected, 0));
        };
        check(&[Verdict::Passed], Verdict::Passed);
        check(&[Verdict::Hung], Verdict::Hung);
        check(&[Verdict::Failed, Verdict::Failed], Verdict::Failed);
        check(&[Verdict::Failed, Verdict::Passed], Verdict::Unsteady);
    }
}
