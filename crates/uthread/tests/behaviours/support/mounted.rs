//! A file system of the test's own, where the machine permits to mount one.

use std::ffi::CStr;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::{TempDir, tempdir};

use crate::harness::lacks;

/// Unmounted when it is dropped.
pub(crate) struct Mounted(TempDir);

impl Mounted {
    pub(crate) fn new(kind: &str, options: &CStr) -> Mounted {
        let directory = tempdir().unwrap();
        match mount("none", directory.path(), kind, MountFlags::empty(), options) {
            Ok(()) => Mounted(directory),
            Err(Errno::PERM | Errno::NODEV) => lacks("the right to mount a file system"),
            Err(errno) => panic!("{errno}"),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}
