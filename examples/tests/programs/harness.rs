//! Starts programs as processes, feeds them and waits for them. Records what could not be checked,
//! with the reason.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, mpsc};
use std::time::Duration;
use std::{env, thread};

pub(crate) use libtest_mimic::Completion as Check;
use libtest_mimic::Trial;
use uthread::{Driver, Runtime};

/// Time limit of a step, which only a hang exceeds, also on a loaded machine.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// Reasons why something could not be checked, and how often each occurred.
static NOT_CHECKED: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());

/// Returns one trial per driver.
pub(crate) fn on_each_driver(
    name: &str,
    check: impl Fn(Driver) -> Check + Copy + Send + 'static,
) -> impl Iterator<Item = Trial> {
    let drivers = [Driver::Uring, Driver::Epoll, Driver::Threads];
    drivers.into_iter().map(move |driver| {
        Trial::ignorable_test(format!("{name} [{driver}]"), move || {
            match refusal(driver) {
                Some(reason) => Ok(not_checked(reason)),
                None => Ok(check(driver)),
            }
        })
    })
}

/// Records that this machine lacks something.
pub(crate) fn not_checked(reason: String) -> Check {
    let mut reasons = NOT_CHECKED.lock().unwrap();
    *reasons.entry(reason.clone()).or_default() += 1;
    Check::ignored_with(reason)
}

pub(crate) fn say_what_was_not_checked() {
    for (reason, count) in &*NOT_CHECKED.lock().unwrap() {
        println!("not checked: {reason} ({count})");
    }
}

fn refusal(driver: Driver) -> Option<String> {
    static NO_RING: LazyLock<Option<String>> = LazyLock::new(|| {
        let runtime = Runtime::builder().driver(Driver::Uring).workers(1).build();
        runtime.err().map(|error| format!("no io_uring: {error}"))
    });
    NO_RING.clone().filter(|_| driver == Driver::Uring)
}

pub(crate) fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Returns the command that runs an example on a driver.
pub(crate) fn example(name: &str, driver: Option<Driver>) -> Command {
    let tests = env::current_exe().unwrap();
    let target = tests.ancestors().nth(2).unwrap();
    let program = target.join("examples").join(name);
    let remedy = "cargo build -p uthread -p uthread-examples --examples";
    assert!(program.is_file(), "{program:?} is not built: `{remedy}`");
    let mut command = Command::new(program);
    let driver = driver.map_or_else(String::new, |driver| driver.to_string());
    command.env("UTHREAD_DRIVER", driver);
    command
}

/// Runs a program to its end, which must be a success, and returns its output.
pub(crate) fn run(command: &mut Command, input: &str) -> String {
    Process::start(command, input).end()
}

/// A running program; killed when dropped.
pub(crate) struct Process {
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<thread::JoinHandle<io::Result<String>>>,
}

impl Process {
    /// Starts a program with this standard input.
    pub(crate) fn start(command: &mut Command, input: &str) -> Process {
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that does not read to the end reports the reason itself.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let stdout = child.stdout.take().map(BufReader::new);
        let stderr = child
            .stderr
            .take()
            .map(|pipe| thread::spawn(|| io::read_to_string(pipe)));
        Process {
            child,
            stdout,
            stderr,
        }
    }

    /// Returns the identifier of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to the program, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        kill.args(["-s", name, &self.id().to_string()]);
        assert!(kill.status().unwrap().success());
    }

    /// Returns the next line of output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.stdout.as_mut().unwrap();
        stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits for a successful end, and returns the remaining output.
    pub(crate) fn end(mut self) -> String {
        let (sender, ended) = mpsc::channel();
        let mut stdout = self.stdout.take().unwrap();
        thread::spawn(move || {
            let mut text = String::new();
            let result = stdout.read_to_string(&mut text).map(|_| text);
            let _ = sender.send(result); // Nobody waits for a hung program.
        });
        let stdout = ended.recv_timeout(HANG);
        if stdout.is_err() {
            self.child.kill().unwrap();
        }
        let status = self.child.wait().unwrap();
        let stderr = self.stderr.take().unwrap().join().unwrap().unwrap();
        let Ok(stdout) = stdout else {
            panic!("not over after {HANG:?}\n{stderr}");
        };
        let stdout = stdout.unwrap();
        assert!(status.success(), "{status}\n{stdout}{stderr}");
        stdout
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The program may have ended already, as most do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
