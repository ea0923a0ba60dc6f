//! Direct I/O: how its operations reach the kernel, and how they end.

use super::*;

/// Bytes of a file as a disk has them.
#[repr(C, align(4096))]
struct Block([u8; 4096]);

/// Expects the same results on a disk that can be polled, on one that cannot, and for a file in the
/// page cache.
#[test]
fn operations_that_cannot_be_polled_complete() {
    let polling = Options {
        io_polling: true,
        ..Options::default()
    };
    if rings().is_empty() {
        return;
    }
    let mut ring = new(polling).unwrap();
    let file = tempfile::tempfile().unwrap();
    let direct = rustix::fs::OFlags::DIRECT;
    for flags in [rustix::fs::OFlags::empty(), direct] {
        match rustix::fs::fcntl_setfl(&file, flags) {
            // Files in memory do not support this flag before Linux 6.6.
            Err(Errno::INVAL) if flags == direct => continue,
            set => set.unwrap(),
        }
        let mut state = FdState::new();
        state.set_direct(true);
        let file = Descriptor {
            fd: file.as_fd(),
            state: &state,
        };
        let (written, mut read) = (Block([7; 4096]), Block([0; 4096]));
        let (buffer, offset) = (&written.0[..], Some(0));
        let mut write = Operation::File(FileOperation::Write {
            file,
            buffer,
            offset,
        });
        // SAFETY: the operation outlives its completion, which is awaited below.
        let start = unsafe { ring.start(&mut write, Token(1)) };
        assert!(start.is_pending());
        assert_eq!(wait_for(&mut ring, 1), [(1, 4096)]);
        let buffer = &mut read.0[..];
        let mut read_back = Operation::File(FileOperation::Read {
            file,
            buffer,
            offset,
        });
        // SAFETY: the operation outlives its completion, which is awaited below.
        let start = unsafe { ring.start(&mut read_back, Token(2)) };
        assert!(start.is_pending());
        assert_eq!(wait_for(&mut ring, 1), [(2, 4096)]);
        assert_eq!(read.0, written.0);
        if flags.is_empty() {
            assert!(
                !state.may_poll_device(),
                "the device is polled after a failed attempt"
            );
        }
        let devices = ring.devices.as_ref().unwrap();
        assert!(!devices.is_busy(), "the worker may sleep");
    }
}

#[test]
fn direct_reads_are_due_at_once() {
    // Operations for a disk do not wait for the end of the round; operations in memory do.
    let file = tempfile::tempfile().unwrap();
    for mut ring in rings() {
        for is_direct in [false, true] {
            let mut state = FdState::new();
            state.set_direct(is_direct);
            let file = Descriptor {
                fd: file.as_fd(),
                state: &state,
            };
            let mut read = Operation::File(FileOperation::Read {
                file,
                buffer: &mut [0; 8],
                offset: Some(0),
            });
            // SAFETY: the operation outlives its completion, which is awaited below.
            let start = unsafe { ring.start(&mut read, Token(1)) };
            assert!(start.is_pending());
            assert_eq!(ring.is_flush_due(), is_direct);
            ring.flush();
            assert!(
                !ring.is_flush_due(),
                "an operation that was handed over waits for a flush"
            );
            assert_eq!(wait_for(&mut ring, 1), [(1, 0)]);
        }
    }
}
