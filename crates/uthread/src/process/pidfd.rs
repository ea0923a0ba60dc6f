//! A descriptor for a child process (pidfd), which becomes readable when the child terminates.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus};

use crate::op::Operation;
use crate::op::net::{self, SocketOperation};
use crate::resource::descriptor::{Descriptor, FdState};
use crate::resource::standard;
use crate::sched::caller::wait;
use crate::signal::Signal;

/// The bit of a wait status that indicates a core dump.
const DUMPED: i32 = 0x80;

#[derive(Debug)]
pub(super) struct Pidfd {
    fd: OwnedFd,
    state: FdState,
}

impl Pidfd {
    /// Opens a pidfd for a child that was not waited for. Returns `None` if the kernel does not
    /// support it (before 5.4), if the child was waited for by other means, or if no descriptor is
    /// free.
    pub(super) fn new(child: &std::process::Child) -> Option<Pidfd> {
        let fd = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()?;
        let pidfd = Pidfd {
            fd: standard::avoid(fd).ok()?,
            state: FdState::new(),
        };
        // Also verifies that the process ID still refers to the child.
        pidfd.look(WaitIdOptions::NOWAIT).ok()?;
        Some(pidfd)
    }

    /// Waits for a child that has terminated and returns its status.
    ///
    /// # Errors
    ///
    /// `ECHILD` if the child was waited for by other means.
    pub(super) fn reap(&self) -> io::Result<Option<ExitStatus>> {
        Ok(self
            .look(WaitIdOptions::empty())?
            .and_then(|status| to_exit_status(&status)))
    }

    fn look(&self, besides: WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | besides;
        loop {
            match rustix::process::waitid(WaitId::PidFd(self.fd.as_fd()), options) {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Waits until the child has terminated.
    pub(super) fn await_end(&self) -> io::Result<()> {
        let mut ended = Operation::Socket(SocketOperation::Poll(net::Poll {
            descriptor: Descriptor {
                fd: self.fd.as_fd(),
                state: &self.state,
            },
            events: PollFlags::IN,
        }));
        wait::perform(&mut ended, None)?;
        Ok(())
    }

    pub(super) fn send(&self, signal: Signal) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(
            &self.fd,
            signal.named(),
        )?)
    }
}

/// Converts the status to the form that `wait` returns.
fn to_exit_status(status: &WaitIdStatus) -> Option<ExitStatus> {
    let dumped = if status.dumped() { DUMPED } else { 0 };
    let exited = status.exit_status().map(|code| code << 8);
    let killed = status.terminating_signal().map(|signal| signal | dumped);
    exited.or(killed).map(ExitStatus::from_raw)
}
