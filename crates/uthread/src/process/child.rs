//! A running or terminated child process.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::process::{ExitStatus, Output};

use rustix::process::Pid;

use super::output::{read_all, read_both};
use super::pidfd::Pidfd;
use super::{ChildStderr, ChildStdin, ChildStdout};
use crate::sched::caller::turn;
use crate::sched::features::offload;
use crate::signal::Signal;
use crate::sync::selection::Exits;

/// A child process; the counterpart of [`std::process::Child`].
/// [`Command::spawn`](super::Command::spawn) creates it.
///
/// Dropping it neither kills the child nor waits for it, as in `std`: a child that has terminated
/// and was not waited for remains a zombie until the program ends. The end of a fiber or of the
/// runtime does not affect the child either.
///
/// ```
/// let mut child = uthread::process::Command::new("true").spawn()?;
/// assert!(child.wait()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Child {
    /// The child's standard input, if it is piped.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it is piped.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if it is piped.
    pub stderr: Option<ChildStderr>,
    /// The child without its streams. Waits and sends signals by process ID if there is no pidfd.
    inner: std::process::Child,
    pidfd: Option<Pidfd>,
    /// The exit status, once the child was waited for.
    status: Option<ExitStatus>,
}

impl fmt::Debug for Child {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Child")
            .field("stdin", &self.stdin)
            .field("stdout", &self.stdout)
            .field("stderr", &self.stderr)
            .finish_non_exhaustive()
    }
}

impl Exits for Child {
    fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(Pidfd::as_fd)
    }
}

impl Child {
    /// Kills the child with `SIGKILL`. Does nothing if the child has terminated.
    ///
    /// # Errors
    ///
    /// `ESRCH` if the child was waited for by other means; any other error that
    /// `pidfd_send_signal(2)` or `kill(2)` reports.
    ///
    /// ```
    /// use std::os::unix::process::ExitStatusExt;
    /// use uthread::process::Command;
    ///
    /// let mut child = Command::new("sleep").arg("1000").spawn()?;
    /// child.kill()?;
    /// assert_eq!(child.wait()?.signal(), Some(9));
    /// child.kill()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn kill(&mut self) -> io::Result<()> {
        self.send_signal(Signal::KILL)
    }

    /// Sends a signal to the child. Does nothing if the child has terminated and was waited for.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` (`EPERM`) if the child has changed its credentials; `ESRCH` if the child
    /// was waited for by other means; any other error that `pidfd_send_signal(2)` or `kill(2)`
    /// reports.
    ///
    /// ```
    /// use std::os::unix::process::ExitStatusExt;
    /// use uthread::process::Command;
    /// use uthread::signal::Signal;
    ///
    /// let mut child = Command::new("sleep").arg("1000").spawn()?;
    /// child.send_signal(Signal::TERM)?;
    /// assert_eq!(child.wait()?.signal(), Some(15));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_signal(&self, signal: Signal) -> io::Result<()> {
        match &self.pidfd {
            _ if self.status.is_some() => Ok(()),
            Some(pidfd) => pidfd.send(signal),
            None => {
                let pid = Pid::from_child(&self.inner);
                Ok(rustix::process::kill_process(pid, signal.named())?)
            }
        }
    }

    /// Returns the process ID of the child.
    ///
    /// ```
    /// let mut child = uthread::process::Command::new("true").spawn()?;
    /// assert_ne!(child.id(), uthread::process::id());
    /// child.wait()?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// Waits until the child has terminated and returns its exit status. Later calls return the
    /// same status. Closes the child's standard input first, as the child might wait for its end.
    ///
    /// # Errors
    ///
    /// `ECHILD` if the child was waited for by other means, or if the program ignores `SIGCHLD`;
    /// `ECANCELED` if the fiber is cancelled. A cancelled wait leaves the child running, and it can
    /// be waited for again.
    ///
    /// ```
    /// use uthread::process::{Command, Stdio};
    ///
    /// let mut child = Command::new("cat").stdin(Stdio::piped()).spawn()?;
    /// let status = child.wait()?;
    /// assert_eq!(status.code(), Some(0));
    /// assert_eq!(child.wait()?, status);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
            match &self.pidfd {
                Some(pidfd) => pidfd.await_end()?,
                None => self.status = Some(offload::perform_wait(|| self.inner.wait())?),
            }
        }
    }

    /// Returns the exit status if the child has terminated, without waiting.
    ///
    /// # Errors
    ///
    /// The errors of [`wait`](Child::wait).
    ///
    /// ```
    /// use uthread::process::{Command, Stdio};
    ///
    /// let mut child = Command::new("cat").stdin(Stdio::piped()).spawn()?;
    /// assert_eq!(child.try_wait()?, None);
    /// let status = child.wait()?;
    /// assert_eq!(child.try_wait()?, Some(status));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = match &self.pidfd {
                Some(pidfd) => pidfd.reap()?,
                None => self.inner.try_wait()?,
            };
        }
        if self.status.is_none() {
            turn::spend_try();
        }
        Ok(self.status)
    }

    /// Waits until the child has terminated, and collects the output of its piped streams. Closes
    /// the child's standard input first.
    ///
    /// # Errors
    ///
    /// The errors of [`wait`](Child::wait), and any error that `read(2)` reports for a stream. The
    /// child continues to run after an error.
    ///
    /// ```
    /// use uthread::process::{Command, Stdio};
    ///
    /// let mut command = Command::new("sh");
    /// command.args(["-c", "echo out; echo err >&2; exit 3"]);
    /// let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    /// let output = child.wait_with_output()?;
    /// assert_eq!((output.stdout, output.stderr), (b"out\n".to_vec(), b"err\n".to_vec()));
    /// assert_eq!(output.status.code(), Some(3));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let stdout = self.stdout.take().map(|stdout| stdout.0);
        let stderr = self.stderr.take().map(|stderr| stderr.0);
        let (stdout, stderr) = match (stdout, stderr) {
            (Some(stdout), Some(stderr)) => read_both(&stdout, &stderr)?,
            (stdout, stderr) => (read_all(stdout)?, read_all(stderr)?),
        };
        Ok(Output {
            status: self.wait()?,
            stdout,
            stderr,
        })
    }
}

impl From<std::process::Child> for Child {
    /// Wraps a child that was not waited for, or whose status `std` has.
    fn from(mut inner: std::process::Child) -> Child {
        Child {
            stdin: inner.stdin.take().map(ChildStdin::from),
            stdout: inner.stdout.take().map(ChildStdout::from),
            stderr: inner.stderr.take().map(ChildStderr::from),
            pidfd: Pidfd::new(&inner),
            inner,
            status: None,
        }
    }
}
