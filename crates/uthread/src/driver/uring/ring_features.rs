//! Requests and resources that only a ring has.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use io_uring::{IoUring, Probe};

use super::Uring;
use crate::driver::RingFeatures;
use crate::resource::buffer_group::BufferGroup;
use crate::resource::registration::Registration;

impl RingFeatures for Uring {
    fn supports(&self, opcode: u8) -> bool {
        let probe = self.probe.get_or_init(|| probe(&self.submissions.ring));
        probe
            .as_ref()
            .is_some_and(|probe| probe.is_supported(opcode))
    }

    fn register_buffer_group(&mut self, count: u16, size: u32) -> io::Result<Arc<BufferGroup>> {
        self.registered
            .register_buffer_group(&self.submissions.ring.submitter(), count, size)
    }

    fn owns_buffer_group(&self, group: &BufferGroup) -> bool {
        self.registered.owns_group(group)
    }

    fn register_buffer(&mut self, bytes: usize) -> io::Result<Registration> {
        let ring = self.submissions.ring.submitter();
        self.registered.register_buffer(&ring, bytes)
    }

    fn register_file(&mut self, file: BorrowedFd<'_>) -> io::Result<Registration> {
        let ring = self.submissions.ring.submitter();
        let registration = self.registered.register_file(&ring, file)?;
        // Another thread that drops it must not wait for the worker: a connection is closed once
        // the ring has released it.
        self.registered.set_wake(&self.waker)?;
        Ok(registration)
    }

    fn reserve_file(&mut self) -> io::Result<Registration> {
        let ring = self.submissions.ring.submitter();
        let registration = self.registered.reserve_file(&ring)?;
        // As for a file.
        self.registered.set_wake(&self.waker)?;
        Ok(registration)
    }
}

/// Returns the operations that the ring supports, or `None` if it cannot be queried, as under a
/// filter that forbids registration.
pub(super) fn probe(ring: &IoUring) -> Option<Probe> {
    let mut probe = Probe::new();
    let registered = ring.submitter().register_probe(&mut probe);
    registered.ok().map(|()| probe)
}
