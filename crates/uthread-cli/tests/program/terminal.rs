//! Pseudo-terminals.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use crate::harness::HANG;

/// Opens a pseudo-terminal; returns what the test reads, and what the program writes to.
pub(crate) fn terminal() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = openpt(flags).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let theirs = ioctl_tiocgptpeer(&ours, flags).unwrap();
    (File::from(ours), theirs)
}

/// Reads from the terminal until it has shown this text, or up to its end.
pub(crate) fn read_until(terminal: &mut File, text: Option<&str>) -> String {
    let hang = Timespec::try_from(HANG).unwrap();
    let mut shown = String::new();
    while text.is_none_or(|text| !shown.contains(text)) {
        let mut polled = [PollFd::new(&*terminal, PollFlags::IN)];
        assert_eq!(poll(&mut polled, Some(&hang)), Ok(1), "waited for too long");
        let mut part = [0; 1000];
        // The end of a terminal is an error.
        match terminal.read(&mut part).unwrap_or(0) {
            0 => break,
            count => shown += std::str::from_utf8(&part[..count]).unwrap(),
        }
    }
    shown
}
