//! Opening, reading and closing a file by one submission.

use std::ffi::CStr;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use io_uring::opcode;
use io_uring::squeue::Flags;
use io_uring::types::{self, DestinationSlot, Fd, Fixed};
use rustix::fs::{CWD, ResolveFlags};

use super::submit::perform;
use crate::fs::{self, Dir, File, OpenOptions};
use crate::op;
use crate::op::fs::{CURRENT_POSITION, OpenHow};
use crate::op::raw::RawRequest;
use crate::op::transfer_length;
use crate::resource::registration::Registration;
use crate::sched::features::ring;

/// Reads the beginning of a file into `buffer` and returns the number of bytes read.
///
/// It does the work of three calls: open, read and close. A ring performs them by one submission
/// and without using a descriptor of the process. Programs that read many small files are limited
/// by these calls.
///
/// If the buffer is filled, the file may be longer. As with any read, a pipe and some files in
/// `/proc` may return fewer bytes than they have.
///
/// # Errors
///
/// `InvalidInput` if the path contains a NUL byte; `NotFound`, `PermissionDenied` or any other
/// error of [`File::open`](crate::fs::File::open); `IsADirectory` or any other error that `read(2)`
/// reports; `ECANCELED` if the fiber is cancelled, in which case no file remains open.
///
/// ```
/// let mut buffer = [0; 64 * 1024];
/// let count = uthread::run(|| uthread::ring::read_file("Cargo.toml", &mut buffer))?;
/// assert!(buffer[..count].starts_with(b"[package]"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_file<P: AsRef<Path>>(path: P, buffer: &mut [u8]) -> io::Result<usize> {
    let path = path.as_ref();
    if let Some(slot) = ring::reserve_file() {
        let name = fs::kernel_path(path)?;
        let result = read_at_once(CWD, &name, FROM_ANYWHERE, buffer, slot);
        if !was_cancelled(&result) {
            return result;
        }
    }
    read(File::open(path)?, buffer)
}

/// Reads the beginning of a file beneath `directory` into `buffer` and returns the number of bytes
/// read.
///
/// It works like [`read_file`] on the paths of [`Dir::open_beneath`], and resolves only what
/// follows the open directory. Programs that read all files of a directory save the resolution of
/// its own path.
///
/// # Errors
///
/// The errors of [`read_file`]; `CrossesDevices` (`EXDEV`) if the path leads out of the directory;
/// `WouldBlock` (`EAGAIN`) if a concurrent rename disturbed each of several attempts to resolve the
/// path.
///
/// ```
/// use std::io::ErrorKind;
/// use uthread::{fs::Dir, ring};
///
/// let here = Dir::open(".")?;
/// let mut buffer = [0; 64 * 1024];
/// let count = uthread::run(|| ring::read_file_beneath(&here, "Cargo.toml", &mut buffer))?;
/// assert!(buffer[..count].starts_with(b"[package]"));
/// let outside = ring::read_file_beneath(&here, "../Cargo.toml", &mut buffer);
/// assert_eq!(outside.unwrap_err().kind(), ErrorKind::CrossesDevices);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_file_beneath<P: AsRef<Path>>(
    directory: &Dir,
    path: P,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let path = path.as_ref();
    if let Some(slot) = ring::reserve_file() {
        let name = fs::kernel_path(path)?;
        let result = read_at_once(directory.as_fd(), &name, FROM_BENEATH, buffer, slot);
        let is_disturbed = matches!(&result, Err(error) if error.kind() == ErrorKind::WouldBlock);
        if !is_disturbed && !was_cancelled(&result) {
            return result;
        }
    }
    let file = directory.open_beneath(path, OpenOptions::new().read(true))?;
    read(file, buffer)
}

/// Returns `true` if the chain was cancelled. Unless the caller was, and is refused the next call,
/// the kernel has no thread for the chain.
fn was_cancelled(result: &io::Result<usize>) -> bool {
    matches!(result, Err(error) if error.raw_os_error() == Some(op::CANCELLED))
}

/// Reads once, without a ring or if its file table is full.
fn read(mut file: File, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// How [`read_file`] opens: for reading. The kernel refuses `O_CLOEXEC` for a table entry.
const FROM_ANYWHERE: OpenHow = OpenHow {
    flags: 0,
    mode: 0,
    resolve: 0,
};

/// How [`read_file_beneath`] opens.
const FROM_BENEATH: OpenHow = OpenHow {
    resolve: ResolveFlags::BENEATH
        .union(ResolveFlags::NO_MAGICLINKS)
        .bits(),
    ..FROM_ANYWHERE
};

/// Submits a chain of requests. The path, the buffer and the table entry remain valid until the
/// chain has completed.
fn read_at_once(
    directory: BorrowedFd<'_>,
    path: &CStr,
    how: OpenHow,
    buffer: &mut [u8],
    mut slot: Registration,
) -> io::Result<usize> {
    let file = u32::from(slot.slot());
    let target = DestinationSlot::try_from_slot_target(file).expect("tables are not that large");
    let how = (&raw const how).cast::<types::OpenHow>();
    let open = opcode::OpenAt2::new(Fd(directory.as_raw_fd()), path.as_ptr(), how)
        .file_index(Some(target));
    let length = transfer_length(buffer);
    let read = opcode::Read::new(Fixed(file), buffer.as_mut_ptr(), length).offset(CURRENT_POSITION);
    let mut requests = [
        open.build().flags(Flags::IO_LINK),
        // A hard link, so that the file is closed in any case: a short read would break a plain
        // link.
        read.build().flags(Flags::IO_HARDLINK),
        opcode::Close::new(Fixed(file)).build(),
    ]
    .map(RawRequest::new);
    let cut_off = perform(&mut requests)?.and_then(|error| error.raw_os_error());
    let [open, read, close] = &requests;
    if open.result >= 0 && close.result < 0 {
        slot.set_file();
    }
    let last = if open.result < 0 { open } else { read };
    usize::try_from(last.result).map_err(|_| {
        let errno = cut_off.filter(|_| last.was_cancelled());
        io::Error::from_raw_os_error(errno.unwrap_or(-last.result))
    })
}
