//! The machine around the first process: file systems, the serial line for the results, and its
//! end.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Write};

use rustix::mount::{MountFlags, mount};
use rustix::system::{RebootCommand, reboot, uname};

/// File systems, with their types. The kernel creates the folder of the last one.
const MOUNTS: [(&str, &str); 4] = [
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/dev", "devtmpfs"),
    ("/sys/kernel/tracing", "tracefs"),
];

/// The serial line for the results; the kernel writes its messages to the first one.
const RESULTS: &str = "/dev/ttyS1";

/// Mounts the file systems, and opens the serial line.
pub(crate) fn prepare() -> io::Result<Box<dyn Write>> {
    for (folder, kind) in MOUNTS {
        fs::create_dir_all(folder)?;
        mount(kind, folder, kind, MountFlags::empty(), None::<&CStr>)?;
    }
    Ok(Box::new(File::create(RESULTS)?))
}

/// Ends the machine: qemu does not start it again.
pub(crate) fn restart() {
    if let Err(error) = reboot(RebootCommand::Restart) {
        eprintln!("cannot restart: {error}");
    }
}

pub(crate) fn release() -> String {
    uname().release().to_string_lossy().into_owned()
}
