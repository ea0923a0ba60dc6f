//! The kernel's own record of submissions: an instance of tracefs, which nobody else uses and which
//! is removed at the end.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use rustix::thread::gettid;
use uthread_report::Unavailable;

use super::record::Record;

/// Paths of tracefs, with the older one below debugfs.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The events: of a call that submits, an entry taken, with its name before Linux 6.3 too, and an
/// entry completed.
const EVENTS: [&[&str]; 3] = [
    &["syscalls/sys_enter_io_uring_enter"],
    &[
        "io_uring/io_uring_submit_req",
        "io_uring/io_uring_submit_sqe",
    ],
    &["io_uring/io_uring_complete"],
];
/// Size of a read from the pipe, which returns whole lines.
const READ_BYTES: usize = 64 * 1024;
/// Records that have not arrived after so many reads are lost.
const READS_MAX: usize = 1000;

/// A running record of the entries that the calling thread submits.
pub(super) struct Recorder {
    folder: PathBuf,
    pipe: File,
    text: String,
}

impl Recorder {
    /// Checks that this process can trace.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] with the remedy.
    pub(super) fn check() -> Result<()> {
        Recorder::start().map(drop)
    }

    /// Starts to record the entries that this thread submits.
    ///
    /// # Errors
    ///
    /// [`Unavailable`] if tracefs is missing, or may not be written.
    pub(super) fn start() -> Result<Recorder> {
        let unavailable = |reason: String| {
            let remedy = "urgent-trace needs root and tracefs (`mount -t tracefs tracefs /sys/kernel/tracing`)";
            Unavailable(format!("{reason}: {remedy}"))
        };
        let roots = ROOTS.map(Path::new).into_iter();
        let root = roots
            .map(|root| root.join("instances"))
            .find(|root| root.is_dir());
        let root = root.ok_or_else(|| unavailable("there is no tracefs here".to_owned()))?;
        let folder = root.join(format!("uthread-iobench-{}", process::id()));
        fs::create_dir(&folder)
            .map_err(|error| unavailable(format!("cannot create {}: {error}", folder.display())))?;
        Recorder::in_instance(&folder).inspect_err(|_| remove(&folder))
    }

    fn in_instance(folder: &Path) -> Result<Recorder> {
        let write = |file: &str, text: &str| {
            let path = folder.join(file);
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))
        };
        // A clock that all CPUs share, so that the records of a thread that moves stay in order.
        write("trace_clock", "global")?;
        write("set_event_pid", &gettid().as_raw_nonzero().to_string())?;
        for names in EVENTS {
            let mut switches = names.iter().map(|name| switch(name));
            let switch = switches.find(|switch| folder.join(switch).exists());
            let missing = || Unavailable(format!("this kernel does not trace {}", names[0]));
            write(&switch.ok_or_else(missing)?, "1")?;
        }
        let pipe = File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(folder.join("trace_pipe"))?;
        Ok(Recorder {
            folder: folder.to_owned(),
            pipe,
            text: String::new(),
        })
    }

    /// Returns the record of a batch of `count` entries, which have completed.
    ///
    /// # Errors
    ///
    /// The errors of reading the record; or if records were lost.
    pub(super) fn read(&mut self, batch: u32, count: usize) -> Result<Record> {
        let mut record = Record::default();
        for _ in 0..READS_MAX {
            self.fill()?;
            let whole = self.text.rfind('\n').map_or(0, |end| end + 1);
            self.text[..whole].lines().for_each(|line| record.add(line));
            self.text.drain(..whole);
            if record.len() >= count {
                return Ok(record);
            }
        }
        let found = record.len();
        bail!("batch {batch}: the kernel has recorded {found} of {count} entries")
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut bytes = vec![0; READ_BYTES];
        loop {
            match self.pipe.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(count) => self.text += &String::from_utf8_lossy(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // The kernel removes no instance while its events are enabled or its pipe is open.
        if let Ok(nothing) = File::open("/dev/null") {
            self.pipe = nothing;
        }
        remove(&self.folder);
    }
}

fn remove(folder: &Path) {
    for name in EVENTS.into_iter().flatten() {
        let _ = fs::write(folder.join(switch(name)), "0");
    }
    // Nothing can be done about an instance that stays.
    let _ = fs::remove_dir(folder);
}

/// Returns the file that enables an event.
fn switch(event: &str) -> String {
    format!("events/{event}/enable")
}
