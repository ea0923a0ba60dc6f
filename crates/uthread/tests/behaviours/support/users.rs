//! Limits of an ordinary user, which do not hold for root. For processes of their own.

use std::thread;

use rustix::process::{Resource, Rlimit, getgid, getrlimit, getuid, setrlimit};

use super::HANG;

/// The number of a user and of a group without rights.
const ORDINARY: u32 = 54321;

/// Makes the limit of threads hold for this process.
#[allow(unsafe_code, reason = "the user of all threads")]
pub(crate) fn become_ordinary_user() {
    let user = getuid();
    let user = if user.is_root() {
        ORDINARY
    } else {
        user.as_raw()
    };
    // SAFETY: the call has no requirements.
    assert_eq!(unsafe { libc::setresuid(user, user, user) }, 0);
}

/// Makes the group without rights the effective one of all threads, or the former one again. Of
/// an ordinary user, it stays.
#[allow(unsafe_code, reason = "the group of all threads")]
pub(crate) fn set_group(is_ordinary: bool) {
    let group = if is_ordinary && getuid().is_root() {
        ORDINARY
    } else {
        getgid().as_raw()
    };
    // SAFETY: the call has no requirements.
    assert_eq!(unsafe { libc::setegid(group) }, 0);
}

/// Lets the kernel end this process if it hangs.
#[allow(unsafe_code, reason = "a call that no crate offers")]
pub(crate) fn end_after_hang() {
    // SAFETY: the call has no requirements.
    unsafe { libc::alarm(HANG.as_secs() as u32) };
}

/// Lets no thread start from now on, of the program or of the kernel's workers.
pub(crate) fn forbid_threads() {
    let none = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Nproc)
    };
    setrlimit(Resource::Nproc, none).unwrap();
    assert!(thread::Builder::new().spawn(|| ()).is_err());
}
