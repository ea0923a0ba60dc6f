//! Which thread has the CPU: tests that hold up the kernel's polling thread give it one CPU
//! together with the worker, which runs first.

use std::fs;
use std::io;

use rustix::thread::{CpuSet, Pid, sched_setaffinity};

/// Beginning of the name of a polling kernel thread, which is a thread of the process.
const POLLING: &str = "iou-sqp-";

const TASKS: &str = "/proc/self/task";

/// Gives the calling thread and the kernel threads that poll for the process one CPU.
pub(crate) fn share_a_cpu() -> io::Result<()> {
    let mut one = CpuSet::new();
    one.set(0);
    sched_setaffinity(None, &one)?;
    let mut count = 0;
    for task in fs::read_dir(TASKS)? {
        let task = task?;
        // A thread may end meanwhile.
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.starts_with(POLLING) {
            let id = task.file_name().to_string_lossy().parse().ok();
            sched_setaffinity(id.and_then(Pid::from_raw), &one)?;
            count += 1;
        }
    }
    match count {
        0 => Err(io::Error::other("no kernel thread polls")),
        _ => Ok(()),
    }
}

/// While this lives, the thread that has created it gives its CPU to ordinary threads only if it
/// sleeps.
pub(crate) struct KeepsCpu(());

impl KeepsCpu {
    pub(crate) fn new() -> io::Result<KeepsCpu> {
        set_policy(libc::SCHED_FIFO, 1)?;
        Ok(KeepsCpu(()))
    }
}

impl Drop for KeepsCpu {
    fn drop(&mut self) {
        if let Err(error) = set_policy(libc::SCHED_OTHER, 0) {
            eprintln!("cannot restore the scheduling policy: {error}");
        }
    }
}

fn set_policy(policy: i32, priority: i32) -> io::Result<()> {
    let parameter = libc::sched_param {
        sched_priority: priority,
    };
    #[allow(unsafe_code, reason = "a call that no crate offers")]
    // SAFETY: the parameter outlives the call, which concerns the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
