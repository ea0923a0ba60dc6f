//! io_uring by itself: so many requests go in and are awaited by one call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, types};

use crate::eventfd::print_cost;
use crate::value::check;

/// Number of requests that are submitted together.
pub(crate) const BATCH: u32 = 32;

pub(crate) fn read(fd: BorrowedFd<'_>, requests: u32, batch: u32) -> io::Result<()> {
    // The flags that the manual recommends for a ring of one thread; older kernels lack them.
    let mut ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(BATCH)
        .or_else(|_| IoUring::new(BATCH))?;
    print_cost(requests, || {
        let mut left = requests;
        while left > 0 {
            let now = left.min(batch);
            read_together(&mut ring, fd, now as usize)?;
            left -= now;
        }
        Ok(())
    })
}

fn read_together(ring: &mut IoUring, fd: BorrowedFd<'_>, requests: usize) -> io::Result<()> {
    let mut values = [[0; 8]; BATCH as usize];
    for value in &mut values[..requests] {
        let read = opcode::Read::new(types::Fd(fd.as_raw_fd()), value.as_mut_ptr(), 8).build();
        // SAFETY: the values stay in place until all requests have ended, below: no signal
        // interrupts that.
        unsafe { ring.submission().push(&read) }.expect("the queue has room for all");
    }
    ring.submit_and_wait(requests)?;
    let mut ended = 0;
    for entry in ring.completion() {
        ended += 1;
        assert_eq!(entry.result(), 8);
    }
    assert_eq!(ended, requests);
    values[..requests].iter().copied().try_for_each(check)
}
