//! Opening, reading and closing a file by one submission.

use std::ffi::CStr;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::path::Path;

use io_uring::opcode;
use io_uring::squeue::Flags;
use io_uring::types::{DestinationSlot, Fd, Fixed};
use rustix::fs::CWD;

use super::submit::perform;
use crate::fs::{self, File};
use crate::op::fs::CURRENT_POSITION;
use crate::op::raw::RawRequest;
use crate::op::transfer_length;
use crate::resource::registration::Registration;
use crate::sched::ring;

/// Reads the beginning of a file into `buffer` and returns the number of bytes read.
///
/// It does the work of three calls: open, read and close. A ring performs them by one submission and without
/// using a descriptor of the process. Programs that read many small files are limited by these calls.
///
/// If the buffer is filled, the file may be longer. As with any read, a pipe and some files in `/proc` may
/// return fewer bytes than they have.
///
/// # Errors
///
/// `InvalidInput` if the path contains a NUL byte; `NotFound`, `PermissionDenied` or any other error of
/// [`File::open`](crate::fs::File::open); `IsADirectory` or any other error that `read(2)` reports;
/// `ECANCELED` if the fiber is cancelled, in which case no file remains open.
///
/// ```
/// let mut buffer = [0; 64 * 1024];
/// let count = uthread::run(|| uthread::ring::read_file("Cargo.toml", &mut buffer))?;
/// assert!(buffer[..count].starts_with(b"[package]"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_file<P: AsRef<Path>>(path: P, buffer: &mut [u8]) -> io::Result<usize> {
    let path = path.as_ref();
    match ring::reserve_file() {
        Some(slot) => read_at_once(&fs::kernel_path(path)?, buffer, slot),
        None => read_by_calls(path, buffer),
    }
}

/// Makes three separate calls. Used without a ring, or if its file table is full.
fn read_by_calls(path: &Path, buffer: &mut [u8]) -> io::Result<usize> {
    let mut file = File::open(path)?;
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Submits a chain of requests. The path, the buffer and the table entry remain valid until the chain has
/// completed.
fn read_at_once(path: &CStr, buffer: &mut [u8], mut slot: Registration) -> io::Result<usize> {
    let file = u32::from(slot.slot());
    let target = DestinationSlot::try_from_slot_target(file).expect("tables are not that large");
    let directory = Fd(CWD.as_raw_fd());
    let open = opcode::OpenAt::new(directory, path.as_ptr()).file_index(Some(target));
    let length = transfer_length(buffer);
    let read = opcode::Read::new(Fixed(file), buffer.as_mut_ptr(), length).offset(CURRENT_POSITION);
    let mut requests = [
        open.build().flags(Flags::IO_LINK),
        // A hard link, so that the file is closed in any case: a short read would break a plain link.
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
