//! The simulated kernel has multishot operations, and no resources to register.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::Sim;
use crate::driver::RingFeatures;
use crate::resource::buffer_group::BufferGroup;
use crate::resource::registration::Registration;

impl RingFeatures for Sim {
    fn supports(&self, _: u8) -> bool {
        false
    }

    fn register_buffer_group(&mut self, _: u16, _: u32) -> io::Result<Arc<BufferGroup>> {
        Err(Errno::OPNOTSUPP.into())
    }

    fn owns_buffer_group(&self, _: &BufferGroup) -> bool {
        false
    }

    fn register_buffer(&mut self, _: usize) -> io::Result<Registration> {
        Err(Errno::OPNOTSUPP.into())
    }

    fn register_file(&mut self, _: BorrowedFd<'_>) -> io::Result<Registration> {
        Err(Errno::OPNOTSUPP.into())
    }

    fn reserve_file(&mut self) -> io::Result<Registration> {
        Err(Errno::OPNOTSUPP.into())
    }
}
