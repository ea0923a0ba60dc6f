//! A file opened, read and closed by one submission.

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

/// Reads the beginning of a file into `buffer`, as much as there is room for, and returns how many bytes that were: what a
/// call to open it, one to read and one to close it do. A ring does so by one submission for all three, and without a
/// descriptor, of which a process has few: programs that look into many small files are bound by such calls.
///
/// A file that fills the buffer may be longer. As of any read, a pipe and some files of `/proc` give less than
/// they have.
///
/// # Errors
///
/// The kernel's, as [`fs::read`](crate::fs::read): `ENOENT`, `EACCES`, `EISDIR`;
/// [`InvalidInput`](io::ErrorKind::InvalidInput) for a path with a zero byte. `ECANCELED` of a cancelled fiber, which leaves no file open.
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

/// Where there is no ring, or no slot in its table.
fn read_by_calls(path: &Path, buffer: &mut [u8]) -> io::Result<usize> {
    let mut file = File::open(path)?;
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// By a chain, of which path, buffer and slot are there until it has ended.
fn read_at_once(path: &CStr, buffer: &mut [u8], mut slot: Registration) -> io::Result<usize> {
    let file = u32::from(slot.slot());
    let target = DestinationSlot::try_from_slot_target(file).expect("tables are not that large");
    let directory = Fd(CWD.as_raw_fd());
    let open = opcode::OpenAt::new(directory, path.as_ptr()).file_index(Some(target));
    let length = transfer_length(buffer);
    let read = opcode::Read::new(Fixed(file), buffer.as_mut_ptr(), length).offset(CURRENT_POSITION);
    let mut requests = [
        open.build().flags(Flags::IO_LINK),
        // It is closed whatever comes of this, as a read that finds less than there is room for fails a link.
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
