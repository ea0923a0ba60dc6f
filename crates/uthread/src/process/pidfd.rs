//! A child process as a descriptor, which becomes readable when it ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, WaitIdStatus};

use crate::op::Operation;
use crate::op::net::SocketOperation;
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::wait;
use crate::signal::Signal;

/// The bit of a wait status that tells of a core dump.
const DUMPED: i32 = 0x80;

#[derive(Debug)]
pub(super) struct Pidfd {
    fd: OwnedFd,
    state: FdState,
}

impl Pidfd {
    /// Of a child that nobody has waited for; none where the kernel has none (before 5.4), or somebody has, or
    /// no descriptor is left.
    pub(super) fn new(child: &std::process::Child) -> Option<Pidfd> {
        let fd = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok()?;
        let pidfd = Pidfd {
            fd,
            state: FdState::new(),
        };
        // Also tells whether the number still meant our child.
        pidfd.look(WaitIdOptions::NOWAIT).ok()?;
        Some(pidfd)
    }

    /// Takes the status of a child that has ended.
    ///
    /// # Errors
    ///
    /// `ECHILD` where somebody else has taken it.
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

    /// Waits until the child has ended.
    pub(super) fn await_end(&self) -> io::Result<()> {
        let mut ended = Operation::Socket(SocketOperation::Poll {
            descriptor: Descriptor {
                fd: self.fd.as_fd(),
                state: &self.state,
            },
            events: PollFlags::IN,
        });
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

/// In the form that `wait` gives it.
fn to_exit_status(status: &WaitIdStatus) -> Option<ExitStatus> {
    let dumped = if status.dumped() { DUMPED } else { 0 };
    let exited = status.exit_status().map(|code| code << 8);
    let killed = status.terminating_signal().map(|signal| signal | dumped);
    exited.or(killed).map(ExitStatus::from_raw)
}
