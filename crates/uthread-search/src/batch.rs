//! Reading files that are not in memory: several of them by one job of the thread pool.
//!
//! A chain of requests for such a file is handed from thread to thread by the kernel, and wakes the
//! worker for each file. A thread that opens, reads and closes some files in turn wakes it once.

use std::ffi::c_long;
use std::io;
use std::mem;

use crate::contents;
use crate::directory::FileEntry;
use crate::task::{Target, Task};

/// Reads those files that fit into the buffer, one after another, and sets their [`Task::text`].
/// The others, and those that cannot be read, are read when they are searched.
///
/// Returns `true` if a file was not in memory.
pub(crate) fn read(tasks: &mut [Task], buffer: &mut [u8]) -> bool {
    uthread::blocking(|| {
        let waits = waits();
        let mut used = 0;
        for task in tasks {
            let entry = match &task.target {
                Target::Found(entry) if entry.folder.has_whole_reads && !entry.is_link => entry,
                _ => continue,
            };
            let room = &mut buffer[used..];
            let size = room.len();
            // A file that fills the room may be longer.
            if let Ok(count) = read_once(entry, room)
                && count < size
            {
                task.text = Some(used..used + count);
                used += count;
            }
        }
        waits != self::waits()
    })
}

/// Reads once by system calls: a call of the library would wait for the worker that the job has left,
/// to make requests of its ring.
fn read_once(entry: &FileEntry, buffer: &mut [u8]) -> io::Result<usize> {
    let folder = &entry.folder;
    folder.with_dir(|dir| contents::read_here(dir, &entry.name, buffer))
}

/// Returns the number of times that the thread has waited. The time that it takes tells less: other
/// threads may have the CPUs.
#[allow(unsafe_code, reason = "getrusage, which `rustix` does not offer")]
fn waits() -> c_long {
    // SAFETY: all fields are numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // A failure leaves zeros: then none is known.
    // SAFETY: the call writes the usage.
    let _ = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    usage.ru_nvcsw
}
