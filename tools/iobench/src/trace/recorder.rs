//! The kernel's own record of submissions: an instance of tracefs, which nobody else uses and which is removed at the end.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;
use rustix::thread::gettid;
use uthread_report::Unavailable;

use super::tag::Tag;

/// Where tracefs is, with the older place below debugfs.
const ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// The event of a submitted entry, with its name before Linux 6.3.
const EVENTS: [&str; 2] = ["io_uring_submit_req", "io_uring_submit_sqe"];
/// Size of a read from the pipe, which returns whole lines.
const READ_BYTES: usize = 64 * 1024;
/// A record that does not arrive in so many reads is lost.
const EMPTY_READS_MAX: usize = 1000;

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
        let events = EVENTS.map(|event| format!("events/io_uring/{event}/enable"));
        let event = events.iter().find(|event| folder.join(event).exists());
        let missing = "this kernel has no event for submissions to a ring";
        let event = event.ok_or_else(|| Unavailable(missing.to_owned()))?;
        // A clock that all CPUs share, so that the records of a thread that moves stay in order.
        write("trace_clock", "global")?;
        write("set_event_pid", &gettid().as_raw_nonzero().to_string())?;
        write(event, "1")?;
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

    /// Returns the entries of a batch in the order in which the kernel has taken them.
    ///
    /// # Errors
    ///
    /// The errors of reading the record; or if records were lost.
    pub(super) fn read(&mut self, batch: u32, count: usize) -> Result<Vec<Tag>> {
        let mut seen = Vec::new();
        for _ in 0..EMPTY_READS_MAX {
            self.fill()?;
            let whole = self.text.rfind('\n').map_or(0, |end| end + 1);
            let tags = self.text[..whole].lines().filter_map(tag_in);
            seen.extend(tags.filter(|tag| tag.batch == batch));
            self.text.drain(..whole);
            if seen.len() >= count {
                return Ok(seen);
            }
        }
        let found = seen.len();
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
    for event in EVENTS {
        let _ = fs::write(folder.join(format!("events/io_uring/{event}/enable")), "0");
    }
    // Nothing can be done about an instance that stays.
    let _ = fs::remove_dir(folder);
}

/// Returns the tag in a line of the record.
fn tag_in(line: &str) -> Option<Tag> {
    let (_, rest) = line.split_once("user_data 0x")?;
    let end = rest.find(|letter: char| !letter.is_ascii_hexdigit());
    let digits = &rest[..end.unwrap_or(rest.len())];
    Tag::decode(u64::from_str_radix(digits, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::super::tag::Class;
    use super::*;

    #[test]
    fn the_tag_is_found_in_a_line() {
        let tag = Tag {
            batch: 9,
            class: Class::Background,
            sequence: 3,
        };
        let line = format!(
            "  uthread-17 [001] ..... 5.25: io_uring_submit_req: ring 00000000d1, req 0000000042, user_data {:#x}, opcode NOP, \
             flags 0x0, sq_thread 0",
            tag.encode()
        );
        assert_eq!(tag_in(&line), Some(tag));
        assert_eq!(tag_in("CPU:1 [LOST 7 EVENTS]"), None);
        assert_eq!(tag_in("user_data 0x5, opcode READ"), None);
    }
}
