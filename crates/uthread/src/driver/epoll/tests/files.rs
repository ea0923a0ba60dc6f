//! Tests of files, which have no readiness.

use std::io::{IoSliceMut, Write};
use std::os::fd::AsFd;

use rustix::io::{Errno, ReadWriteFlags};

use super::*;
use crate::op::fs::FileOperation;

#[test]
fn direct_io_is_left_to_threads_that_may_block() {
    // The flag for non-blocking calls has no effect on the disk.
    let disk = tempfile::tempfile().unwrap();
    (&disk).write_all(b"in memory").unwrap();
    let mut one = [0];
    let slices = &mut [IoSliceMut::new(&mut one)];
    // Files in memory do not support this flag before Linux 6.6.
    let read = rustix::io::preadv2(&disk, slices, 0, ReadWriteFlags::NOWAIT);
    let is_known = read != Err(Errno::OPNOTSUPP);
    for is_direct in [false, true] {
        let blocks = is_direct || !is_known;
        let mut state = FdState::new();
        state.set_direct(is_direct);
        let mut buffer = [0; 9];
        let mut read = FileOperation::Read {
            file: Descriptor {
                fd: disk.as_fd(),
                state: &state,
            },
            buffer: &mut buffer,
            offset: Some(0),
        };
        let mut driver = new().unwrap();
        let attempted = file::try_file(&mut read, &mut driver.operations.interests);
        assert_eq!(matches!(attempted, Attempt::Blocks(0)), blocks);
        assert_eq!(matches!(attempted, Attempt::Done(Ok(9))), !blocks);
        if blocks {
            assert_eq!(driver.perform(Operation::File(read), || ()), 9);
        }
    }
}
