//! The order of submission, as the kernel's trace event tells it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::fs::OFlags;

/// An instance of our own, so that nobody else's tracing changes.
const INSTANCE: &str = "/sys/kernel/tracing/instances/uthread-urgent";

const EVENT: &str = "events/io_uring/io_uring_submit_req/enable";

/// Size of a read, above what the kernel returns at once: a smaller read would end within an event.
const READ_BYTES: usize = 64 << 10;

/// Text before the user data of a request, which is hexadecimal.
const USER_DATA: &str = "user_data 0x";

/// Text before the name of the operation.
const OPERATION: &str = "opcode ";

pub(crate) struct Trace {
    pipe: File,
}

impl Trace {
    pub(crate) fn new() -> io::Result<Trace> {
        let folder = PathBuf::from(INSTANCE);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true);
        options.custom_flags(OFlags::NONBLOCK.bits() as i32);
        let pipe = options.open(folder.join("trace_pipe"))?;
        fs::write(folder.join(EVENT), "1")?;
        Ok(Trace { pipe })
    }

    /// Returns the user data of the requests since the last call, in the order of their submission.
    pub(crate) fn submitted(&mut self) -> io::Result<Vec<u64>> {
        Ok(self.read()?.lines().filter_map(user_data).collect())
    }

    /// Returns the names of the operations since the last call, in the order of their submission.
    pub(crate) fn operations(&mut self) -> io::Result<Vec<String>> {
        Ok(self.read()?.lines().filter_map(operation).collect())
    }

    fn read(&mut self) -> io::Result<String> {
        let mut text = Vec::with_capacity(READ_BYTES);
        match self.pipe.read_to_end(&mut text) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // An instance cannot be removed while its pipe is open. It is removed with the machine.
        let _ = fs::write(PathBuf::from(INSTANCE).join(EVENT), "0");
    }
}

/// Parses the user data in the line of an event.
fn user_data(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(USER_DATA)?;
    let digits = rest.split(',').next()?;
    u64::from_str_radix(digits, 16).ok()
}

/// Parses the name of the operation in the line of an event.
fn operation(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(OPERATION)?;
    rest.split(',').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_data_and_the_operation_of_an_event_are_found() {
        let event = "guest-1 [000] ..... 1.5: io_uring_submit_req: ring 01, req 02, user_data 0x1f, opcode NOP, flags 0x0, sq_thread 0";
        assert_eq!(user_data(event), Some(0x1f));
        assert_eq!(operation(event).as_deref(), Some("NOP"));
        let lost = "CPU:0 [LOST 5 EVENTS]";
        assert_eq!((user_data(lost), operation(lost)), (None, None));
    }
}
