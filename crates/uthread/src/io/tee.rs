//! Bytes of a pipe for two readers.

use std::io;
use std::os::fd::AsFd;

use rustix::event::PollFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::SpliceFlags;

use super::{PipeReader, PipeWriter};
use crate::driver::native;
use crate::sched::wait;

/// Gives another pipe the bytes that a reader finds in its own, which stay there: at most `bytes_max`, and as many as there
/// are and room is for. Nothing is copied. Returns how many these were, which is zero at the end.
///
/// It waits until there is a byte, and room for one. Whoever wants to hand on all that comes reads what was given,
/// or [`splice`](super::splice())s it to somewhere else, before the next call.
///
/// # Errors
///
/// The kernel's: `EINVAL` where both are ends of the same pipe, `EPIPE` where nobody reads the other one.
///
/// ```
/// use uthread::io::{Read, Write, pipe, tee};
///
/// let (mut reader, mut writer) = pipe()?;
/// let (mut log, logger) = pipe()?;
/// writer.write_all(b"for two")?;
/// assert_eq!(tee(&reader, &logger, 1000)?, 7);
/// for reader in [&mut reader, &mut log] {
///     let mut text = [0; 7];
///     reader.read_exact(&mut text)?;
///     assert_eq!(&text, b"for two");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn tee(from: &PipeReader, to: &PipeWriter, bytes_max: usize) -> io::Result<usize> {
    loop {
        wait::refuse_if_cancelled()?;
        match retry_on_intr(|| rustix::pipe::tee(from, to, bytes_max, SpliceFlags::NONBLOCK)) {
            Err(Errno::AGAIN) => {}
            result => return Ok(result?),
        }
        // Which of the two it was the kernel does not say.
        match native::ready_now(from.0.as_fd(), PollFlags::IN)?.is_empty() {
            true => from.0.wait_for(PollFlags::IN)?,
            false => to.0.wait_for(PollFlags::OUT)?,
        }
        wait::yield_within_call()?;
    }
}
