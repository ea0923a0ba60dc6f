//! The parent's ends of a child's standard streams, and the conversions to [`Stdio`](super::Stdio).

use crate::io::stream::{Stream, impl_read, impl_stream, impl_write};

/// The write end of a child's standard input; the counterpart of [`std::process::ChildStdin`]. The
/// child reads the end of input when this is dropped.
///
/// ```
/// use uthread::io::Write;
/// use uthread::process::{Command, Stdio};
///
/// let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
/// child.stdin.take().expect("the stream is piped").write_all(b"text")?;
/// assert_eq!(child.wait_with_output()?.stdout, b"text");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ChildStdin(Stream);

/// The read end of a child's standard output; the counterpart of [`std::process::ChildStdout`].
///
/// ```
/// use uthread::io::read_to_string;
/// use uthread::process::{Command, Stdio};
///
/// let mut child = Command::new("echo").arg("text").stdout(Stdio::piped()).spawn()?;
/// assert_eq!(read_to_string(child.stdout.take().expect("the stream is piped"))?, "text\n");
/// child.wait()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ChildStdout(pub(super) Stream);

/// The read end of a child's standard error; the counterpart of [`std::process::ChildStderr`].
///
/// ```
/// use uthread::io::read_to_string;
/// use uthread::process::{Command, Stdio};
///
/// let mut child = Command::new("cat").arg("no such file").stderr(Stdio::piped()).spawn()?;
/// assert!(read_to_string(child.stderr.take().expect("the stream is piped"))?.contains("no such file"));
/// child.wait()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ChildStderr(pub(super) Stream);

impl_stream!(
    ChildStdin = std::process::ChildStdin,
    ChildStdout = std::process::ChildStdout,
    ChildStderr = std::process::ChildStderr,
);
impl_write!(ChildStdin.0);
impl_read!(ChildStdout.0, ChildStderr.0);
