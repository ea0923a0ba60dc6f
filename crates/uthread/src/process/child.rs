//! A child process that runs, or has ended.

use std::fmt;
use std::io;
use std::process::{ExitStatus, Output};

use rustix::process::Pid;

use super::output::{read_all, read_both};
use super::pidfd::Pidfd;
use super::{ChildStderr, ChildStdin, ChildStdout};
use crate::sched::{offload, wait};
use crate::signal::Signal;

/// A child process, as [`std::process::Child`]; made by [`Command::spawn`](super::Command::spawn).
///
/// Dropping it neither kills the child nor waits for it, as in `std`: one that has ended and was not waited for
/// stays in the system's table until the program ends. Nor does the end of a fiber, or of the runtime, touch
/// the child.
///
/// ```
/// let mut child = uthread::process::Command::new("true").spawn()?;
/// assert!(child.wait()?.success());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Child {
    /// Its input, if that is piped.
    pub stdin: Option<ChildStdin>,
    /// Its output, if that is piped.
    pub stdout: Option<ChildStdout>,
    /// Its errors, if they are piped.
    pub stderr: Option<ChildStderr>,
    /// Without its streams. Waits and signals by number, where there is no pidfd.
    inner: std::process::Child,
    pidfd: Option<Pidfd>,
    /// Known once it was waited for.
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

impl Child {
    /// Ends the child by `SIGKILL`. Does nothing if it has ended.
    ///
    /// # Errors
    ///
    /// The kernel's: `ESRCH` where somebody else has waited for the child.
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

    /// Sends the child a signal. Does nothing if it has ended and was waited for.
    ///
    /// # Errors
    ///
    /// The kernel's: `EPERM` where the child has other rights by now, `ESRCH` where somebody else has waited
    /// for it.
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

    /// The number of the process.
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

    /// Waits until the child has ended; called again, it tells the same. Closes the child's input first, for
    /// which the child might wait.
    ///
    /// # Errors
    ///
    /// The kernel's: `ECHILD` where somebody else has waited for it, or the program ignores `SIGCHLD`.
    /// `ECANCELED` once the fiber is cancelled: the child goes on, and may be waited for by others.
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
                None => self.status = Some(offload::perform(|| self.inner.wait())?),
            }
        }
    }

    /// The status of the child if it has ended.
    ///
    /// # Errors
    ///
    /// As [`wait`](Child::wait).
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
            wait::spend_try();
        }
        Ok(self.status)
    }

    /// Reads what the child writes, on both streams if they are piped, and waits until it has ended. Closes
    /// the child's input first.
    ///
    /// # Errors
    ///
    /// As [`wait`](Child::wait), and those of reading. The child goes on then.
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
    /// Of a child that nobody has waited for, or its status is asked of `std`.
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
