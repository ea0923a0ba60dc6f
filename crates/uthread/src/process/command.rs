//! A builder for child processes.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{CommandArgs, CommandEnvs, ExitStatus, Output, Stdio};
use std::time::Duration;

use super::Child;
use crate::sched::caller::{self, cancellation, wait};
use crate::sched::features::offload;

/// Number of times that a program is run again which is open for writing. A file that the program
/// has just written and closed is open for a moment longer: in a request of the kernel, or in a
/// child between its `fork` and its `execve`.
const BUSY_RETRIES: u32 = 50;

/// Pause before a program is run again. The kernel ends its requests meanwhile.
const BUSY_PAUSE: Duration = Duration::from_millis(1);

/// A builder for a child process; the counterpart of [`std::process::Command`]. The methods of
/// `CommandExt`, a trait that only the `std` type can implement, are methods of this type.
///
/// Starting a program takes until the kernel has loaded it, so in a fiber another thread does it,
/// which does not end before the process. The child inherits the per-thread attributes of that
/// thread, such as affinity, niceness, capabilities and namespaces. The
/// [priority](crate::priority) of the fiber is none of them.
///
/// ```
/// use uthread::process::Command;
///
/// let output = Command::new("sh").arg("-c").arg("echo hello").output()?;
/// assert_eq!(output.stdout, b"hello\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Command {
    inner: std::process::Command,
    /// The streams that the caller has set. The defaults of the others depend on the method that
    /// starts the child.
    chosen: Chosen,
    runs_closures: bool,
}

#[derive(Default)]
struct Chosen {
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl Command {
    /// Creates a builder for `program`, a path or a name that is searched for in `PATH`. The child
    /// has no arguments and inherits the environment and the working directory.
    ///
    /// ```
    /// use uthread::process::Command;
    /// assert!(Command::new("true").status()?.success());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Command {
            inner: std::process::Command::new(program),
            chosen: Chosen::default(),
            runs_closures: false,
        }
    }

    /// Adds an argument.
    ///
    /// ```
    /// let output = uthread::process::Command::new("echo").arg("-n").arg("a b").output()?;
    /// assert_eq!(output.stdout, b"a b");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn arg<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.inner.arg(arg);
        self
    }

    /// Adds arguments.
    ///
    /// ```
    /// let output = uthread::process::Command::new("echo").args(["a", "b"]).output()?;
    /// assert_eq!(output.stdout, b"a b\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn args<I, S>(&mut self, args: I) -> &mut Command
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        self.inner.args(args);
        self
    }

    /// Sets an environment variable.
    ///
    /// ```
    /// let mut command = uthread::process::Command::new("sh");
    /// let output = command.env("FRUIT", "pear").args(["-c", "echo $FRUIT"]).output()?;
    /// assert_eq!(output.stdout, b"pear\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn env<K, V>(&mut self, key: K, value: V) -> &mut Command
    where
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.inner.env(key, value);
        self
    }

    /// Sets environment variables.
    ///
    /// ```
    /// let mut command = uthread::process::Command::new("sh");
    /// let output = command.envs([("A", "1"), ("B", "2")]).args(["-c", "echo $A$B"]).output()?;
    /// assert_eq!(output.stdout, b"12\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn envs<I, K, V>(&mut self, variables: I) -> &mut Command
    where
        I: IntoIterator<Item = (K, V)>,
        K: AsRef<OsStr>,
        V: AsRef<OsStr>,
    {
        self.inner.envs(variables);
        self
    }

    /// Removes an environment variable.
    ///
    /// ```
    /// let mut command = uthread::process::Command::new("sh");
    /// let output = command.env_remove("HOME").args(["-c", "echo ${HOME-none}"]).output()?;
    /// assert_eq!(output.stdout, b"none\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, key: K) -> &mut Command {
        self.inner.env_remove(key);
        self
    }

    /// Removes all environment variables, except those set after this call.
    ///
    /// ```
    /// let output = uthread::process::Command::new("/usr/bin/env").env_clear().env("A", "1").output()?;
    /// assert_eq!(output.stdout, b"A=1\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn env_clear(&mut self) -> &mut Command {
        self.inner.env_clear();
        self
    }

    /// Sets the working directory of the child.
    ///
    /// ```
    /// let output = uthread::process::Command::new("pwd").current_dir("/").output()?;
    /// assert_eq!(output.stdout, b"/\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn current_dir<P: AsRef<Path>>(&mut self, directory: P) -> &mut Command {
        self.inner.current_dir(directory);
        self
    }

    /// Sets the child's standard input. By default the child inherits it, or has none for
    /// [`output`](Command::output).
    ///
    /// ```
    /// use uthread::{fs::File, process::Command};
    /// let output = Command::new("cat").stdin(File::open("Cargo.toml")?).output()?;
    /// assert!(output.stdout.starts_with(b"[package]"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stdin<T: Into<Stdio>>(&mut self, stream: T) -> &mut Command {
        self.inner.stdin(stream);
        self.chosen.stdin = true;
        self
    }

    /// Sets the child's standard output. By default the child inherits it, or has a pipe for
    /// [`output`](Command::output).
    ///
    /// ```
    /// use uthread::process::{Command, Stdio};
    /// assert!(Command::new("echo").stdout(Stdio::null()).status()?.success());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stdout<T: Into<Stdio>>(&mut self, stream: T) -> &mut Command {
        self.inner.stdout(stream);
        self.chosen.stdout = true;
        self
    }

    /// Sets the child's standard error. By default the child inherits it, or has a pipe for
    /// [`output`](Command::output).
    ///
    /// ```
    /// use uthread::process::{Command, Stdio};
    /// let status = Command::new("cat").arg("no such file").stderr(Stdio::null()).status()?;
    /// assert!(!status.success());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stderr<T: Into<Stdio>>(&mut self, stream: T) -> &mut Command {
        self.inner.stderr(stream);
        self.chosen.stderr = true;
        self
    }

    /// Starts the child.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such program; `PermissionDenied` if it may not be executed;
    /// `E2BIG` if the arguments and the environment are too long; `EMFILE` if there is no free
    /// descriptor; `WouldBlock` (`EAGAIN`) at the limit of processes; `InvalidInput` if an argument
    /// contains a NUL byte; `ExecutableFileBusy` if the program is open for writing and remains so
    /// for 50 ms; any other error that `fork(2)` or `execve(2)` reports.
    ///
    /// ```
    /// use uthread::{io::ErrorKind, process::Command};
    ///
    /// let mut child = Command::new("true").spawn()?;
    /// child.wait()?;
    /// let missing = Command::new("no such program").spawn();
    /// assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.start(Stdio::inherit, Stdio::inherit)
    }

    /// Starts the child, waits until it has terminated, and returns its exit status and collected
    /// output.
    ///
    /// # Errors
    ///
    /// The errors of [`spawn`](Command::spawn) and [`Child::wait_with_output`].
    ///
    /// ```
    /// let output = uthread::process::Command::new("cat").arg("no such file").output()?;
    /// assert!(!output.status.success() && output.stdout.is_empty() && !output.stderr.is_empty());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn output(&mut self) -> io::Result<Output> {
        self.start(Stdio::null, Stdio::piped)?.wait_with_output()
    }

    /// Starts the child, waits until it has terminated, and returns its exit status.
    ///
    /// # Errors
    ///
    /// The errors of [`spawn`](Command::spawn) and [`Child::wait`].
    ///
    /// ```
    /// let status = uthread::process::Command::new("sh").args(["-c", "exit 7"]).status()?;
    /// assert_eq!(status.code(), Some(7));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.wait()
    }

    /// Starts the child, with the given defaults for streams that the caller has not set.
    fn start(&mut self, input: fn() -> Stdio, output: fn() -> Stdio) -> io::Result<Child> {
        self.choose_rest(input, output);
        let inner = &mut self.inner;
        let mut spawn = || {
            if self.runs_closures {
                // On the calling thread: a parent-death signal (`PR_SET_PDEATHSIG`) is bound to the
                // thread that forks.
                cancellation::refusal().map_or_else(|| inner.spawn(), Err)
            } else {
                offload::perform_start(|| inner.spawn())
            }
        };
        let mut retries = BUSY_RETRIES;
        loop {
            match spawn() {
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && retries > 0 => {
                    retries -= 1;
                    wait::park_deadline(caller::after(caller::now(), BUSY_PAUSE));
                }
                child => return child.map(Child::from),
            }
        }
    }

    fn choose_rest(&mut self, input: fn() -> Stdio, output: fn() -> Stdio) {
        if !self.chosen.stdin {
            self.inner.stdin(input());
        }
        if !self.chosen.stdout {
            self.inner.stdout(output());
        }
        if !self.chosen.stderr {
            self.inner.stderr(output());
        }
    }

    /// Returns the program, as it was given.
    ///
    /// ```
    /// assert_eq!(uthread::process::Command::new("ls").get_program(), "ls");
    /// ```
    #[must_use]
    pub fn get_program(&self) -> &OsStr {
        self.inner.get_program()
    }

    /// Returns an iterator over the arguments, without the program.
    ///
    /// ```
    /// let mut command = uthread::process::Command::new("ls");
    /// assert!(command.args(["-l", "/"]).get_args().eq(["-l", "/"]));
    /// ```
    pub fn get_args(&self) -> CommandArgs<'_> {
        self.inner.get_args()
    }

    /// Returns an iterator over the environment variables that were set, or removed (`None`).
    ///
    /// ```
    /// let mut command = uthread::process::Command::new("ls");
    /// command.env("A", "1").env_remove("B");
    /// assert_eq!(command.get_envs().filter(|(_, value)| value.is_none()).count(), 1);
    /// ```
    pub fn get_envs(&self) -> CommandEnvs<'_> {
        self.inner.get_envs()
    }

    /// Returns the working directory, if it was set.
    ///
    /// ```
    /// assert_eq!(uthread::process::Command::new("ls").get_current_dir(), None);
    /// ```
    #[must_use]
    pub fn get_current_dir(&self) -> Option<&Path> {
        self.inner.get_current_dir()
    }
}

/// The methods of `std::os::unix::process::CommandExt`.
impl Command {
    /// Sets the user ID of the child.
    ///
    /// ```
    /// let own = rustix::process::getuid().as_raw();
    /// let output = uthread::process::Command::new("id").arg("-u").uid(own).output()?;
    /// assert_eq!(output.stdout, format!("{own}\n").into_bytes());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn uid(&mut self, id: u32) -> &mut Command {
        self.inner.uid(id);
        self
    }

    /// Sets the group ID of the child.
    ///
    /// ```
    /// let own = rustix::process::getgid().as_raw();
    /// let output = uthread::process::Command::new("id").arg("-g").gid(own).output()?;
    /// assert_eq!(output.stdout, format!("{own}\n").into_bytes());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn gid(&mut self, id: u32) -> &mut Command {
        self.inner.gid(id);
        self
    }

    /// Sets the zeroth argument of the child, in place of the program's name.
    ///
    /// ```
    /// let output = uthread::process::Command::new("sh").arg0("me").args(["-c", "echo $0"]).output()?;
    /// assert_eq!(output.stdout, b"me\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn arg0<S: AsRef<OsStr>>(&mut self, arg: S) -> &mut Command {
        self.inner.arg0(arg);
        self
    }

    /// Sets the process group of the child; 0 creates a new group for it.
    ///
    /// ```
    /// use uthread::process::{Command, Stdio};
    ///
    /// let mut child = Command::new("cat").stdin(Stdio::piped()).process_group(0).spawn()?;
    /// let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    /// let group = stat.split(' ').nth(4).unwrap();
    /// assert_eq!(group, child.id().to_string());
    /// child.wait()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn process_group(&mut self, group: i32) -> &mut Command {
        self.inner.process_group(group);
        self
    }

    /// Runs a closure in the child between `fork` and `exec`.
    ///
    /// The calling thread then forks the whole process itself; in a fiber this is the worker, whose
    /// other fibers wait meanwhile. A child that sets a parent-death signal (`PR_SET_PDEATHSIG`)
    /// receives it when that thread ends, which is at the end of the runtime.
    ///
    /// # Safety
    ///
    /// The contract of `std`'s method: the closure may only do what is permitted in a signal
    /// handler. In particular it must not allocate or call this crate.
    ///
    /// ```
    /// use uthread::{io, process::Command};
    ///
    /// let mut command = Command::new("true");
    /// // SAFETY: the closure only makes an error of a number.
    /// unsafe { command.pre_exec(|| Err(io::Error::from_raw_os_error(libc::EPERM))) };
    /// assert_eq!(command.spawn().unwrap_err().raw_os_error(), Some(libc::EPERM));
    /// ```
    #[allow(unsafe_code, reason = "`std`'s method is unsafe to call")]
    pub unsafe fn pre_exec<F>(&mut self, closure: F) -> &mut Command
    where
        F: FnMut() -> io::Result<()> + Send + Sync + 'static,
    {
        // SAFETY: the caller upholds the contract of `pre_exec`.
        unsafe { self.inner.pre_exec(closure) };
        self.runs_closures = true;
        self
    }

    /// Replaces the calling process with the program. Returns only if that fails.
    ///
    /// Nothing is unwound, and buffered output is lost. As in `std`, a failure may leave the
    /// process with the streams, working directory or user of the child.
    ///
    /// ```
    /// let error = uthread::process::Command::new("no such program").exec();
    /// assert_eq!(error.kind(), uthread::io::ErrorKind::NotFound);
    /// ```
    pub fn exec(&mut self) -> io::Error {
        self.choose_rest(Stdio::inherit, Stdio::inherit);
        self.inner.exec()
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(formatter)
    }
}
