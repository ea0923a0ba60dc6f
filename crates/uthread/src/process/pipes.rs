//! Our ends of a child's standard streams, and what of ours may become a child's.

use crate::io::stream::{Stream, impl_read, impl_stream, impl_write};

/// The end to which a child's input is written; as [`std::process::ChildStdin`]. The child finds the end of it
/// when this is dropped.
///
/// ```
/// use uthread::io::Write;
/// use uthread::process::{Command, Stdio};
///
/// let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
/// child.stdin.take().expect("it is piped").write_all(b"text")?;
/// assert_eq!(child.wait_with_output()?.stdout, b"text");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ChildStdin(Stream);

/// The end from which a child's output is read; as [`std::process::ChildStdout`].
///
/// ```
/// use uthread::io::read_to_string;
/// use uthread::process::{Command, Stdio};
///
/// let mut child = Command::new("echo").arg("text").stdout(Stdio::piped()).spawn()?;
/// assert_eq!(read_to_string(child.stdout.take().expect("it is piped"))?, "text\n");
/// child.wait()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ChildStdout(pub(super) Stream);

/// The end from which a child's errors are read; as [`std::process::ChildStderr`].
///
/// ```
/// use uthread::io::read_to_string;
/// use uthread::process::{Command, Stdio};
///
/// let mut child = Command::new("cat").arg("no such file").stderr(Stdio::piped()).spawn()?;
/// assert!(read_to_string(child.stderr.take().expect("it is piped"))?.contains("no such file"));
/// child.wait()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ChildStderr(pub(super) Stream);

impl_stream!(
    ChildStdin = std::process::ChildStdin,
    ChildStdout = std::process::ChildStdout,
    ChildStderr = std::process::ChildStderr,
);
impl_write!(ChildStdin);
impl_read!(ChildStdout, ChildStderr);
