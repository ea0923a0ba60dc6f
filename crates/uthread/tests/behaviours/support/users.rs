//! Limits of an ordinary user, which do not hold for root. For processes of their own.

use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, getuid, setrlimit};

/// Makes the limit of threads hold for this process.
#[allow(unsafe_code, reason = "the user of all threads")]
pub(crate) fn become_ordinary_user() {
    const ORDINARY: u32 = 54321;
    let user = getuid();
    let user = if user.is_root() {
        ORDINARY
    } else {
        user.as_raw()
    };
    // SAFETY: the call changes the user of all threads, none of which is a fiber.
    assert_eq!(unsafe { libc::setresuid(user, user, user) }, 0);
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
