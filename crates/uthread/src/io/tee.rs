//! Duplicating the contents of a pipe.

use std::io;
use std::os::fd::AsFd;

use rustix::event::PollFlags;
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::SpliceFlags;

use super::{PipeReader, PipeWriter};
use crate::driver::native;
use crate::sched::caller::turn;

/// Duplicates at most `bytes_max` bytes of the pipe `from` into the pipe `to` without consuming or
/// copying them. Returns the number of bytes duplicated, which is 0 at the end of the data.
///
/// The call waits until there is at least one byte, and space for one. It duplicates as many bytes
/// as are available and fit. To pass on everything, consume the duplicated bytes by reading or
/// [`splice`](super::splice())-ing them before the next call.
///
/// # Errors
///
/// `InvalidInput` (`EINVAL`) if both are ends of the same pipe; `BrokenPipe` if `to` has no reader;
/// any other error that `tee(2)` reports.
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
        turn::begin_call()?;
        match retry_on_intr(|| rustix::pipe::tee(from, to, bytes_max, SpliceFlags::NONBLOCK)) {
            Err(Errno::AGAIN) => {}
            result => return Ok(result?),
        }
        // The kernel does not report which of the two pipes would block.
        if native::ready_now(from.0.as_fd(), PollFlags::IN)?.is_empty() {
            from.0.wait_for(PollFlags::IN)?;
        } else {
            to.0.wait_for(PollFlags::OUT)?;
        }
        turn::yield_within_call()?;
    }
}
