//! The processes whose fibers the tests show.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uthread_dump::{Group, Report, State};

use crate::child::EACH;

/// Selects the driver and the kind of fibers of the child, which is this test itself.
pub(crate) const CHILD: &str = "UTHREAD_DUMP_CHILD";

/// The size that a core file of the child may have: its slabs of stacks, of which few are used.
pub(crate) const CORE_BYTES_MAX: u64 = 1 << 32;

/// The size with many fibers.
pub(crate) const CORE_BYTES_OF_MANY: u64 = 1 << 36;

/// The names of fibers that wait for others or for a time, and functions that they are in.
pub(crate) const PARKED: [(&str, &str); 15] = [
    ("mutex", "Mutex"),
    ("read-lock", "RwLock"),
    ("condvar", "Condvar"),
    ("barrier", "Barrier"),
    ("semaphore", "Semaphore"),
    // Inlined, and named where there are line tables.
    ("receiver", "wait_in_channels"),
    ("sender", "wait_in_channels"),
    ("oneshot", "recv"),
    ("watch", "changed"),
    ("join", "join"),
    ("park", "park"),
    ("sleep", "sleep"),
    ("connected", "sleep"),
    ("scope", "scope"),
    ("select", "select"),
];

/// The same of fibers that wait for an operation, and parts of what their descriptors
/// refer to.
pub(crate) const WAITING_FOR_THE_KERNEL: [(&str, &str, [&str; 2]); 6] = [
    ("read", "read", ["tcp 127.0.0.1:", " -> 127.0.0.1:"]),
    ("accept", "accept", ["tcp 127.0.0.1:", " (listening)"]),
    ("datagram", "recv_from", ["udp 127.0.0.1:", ""]),
    ("unix", "accept", ["unix @uthread-dump-", " (listening)"]),
    ("pipe", "read", ["pipe:[", "]"]),
    ("fifo", "read", ["/", "/fifo (deleted)"]),
];

/// A process whose fibers all wait. Ended when it is dropped.
pub(crate) struct Waiting(pub(crate) Child);

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a child of this kind, in this folder.
pub(crate) fn child(folder: &Path, kind: &str) -> Command {
    let mut child = Command::new(env::current_exe().unwrap());
    child
        .args(["--exact", "waits_in_many_ways", "--nocapture"])
        .env(CHILD, kind)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    child
}

impl Waiting {
    pub(crate) fn start(kind: &str) -> Waiting {
        Waiting::start_in(&env::current_dir().unwrap(), kind)
    }

    /// Starts it in this folder, where it leaves a core file if it is aborted.
    pub(crate) fn start_in(folder: &Path, kind: &str) -> Waiting {
        Waiting::of(child(folder, kind))
    }

    pub(crate) fn of(mut child: Command) -> Waiting {
        let mut waiting = Waiting(child.spawn().unwrap());
        let lines = BufReader::new(waiting.0.stdout.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(
            lines.any(|line| line == "all are spawned"),
            "the child has ended"
        );
        waiting
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    /// Dumps the fibers once all wait, or as they are when that takes too long.
    pub(crate) fn dump_waiting(&self, kind: &str) -> Report {
        self.dump_waiting_by(kind, || uthread_dump::dump(self.pid()).unwrap())
    }

    /// Dumps them in this way. One that computes is not seen if the process is not stopped.
    pub(crate) fn dump_waiting_by(&self, kind: &str, dump: impl Fn() -> Report) -> Report {
        let kinds = PARKED.len() + WAITING_FOR_THE_KERNEL.len();
        // Two kinds have a child each, and one has a thread each. Then there is the first fiber, and
        // the one that computes.
        let all = (kinds + 3) * EACH + 1 + usize::from(kind != "lean");
        let waits = |group: &Group| match group.state {
            State::Ready | State::New => false,
            State::Moving => group.fibers.len() == 1 && is_named(group, "computes"),
            _ => true,
        };
        // It connects first, which also is an operation.
        let reads = |group: &Group| is_named(group, "read") && is_in(group, "read");
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let report = dump();
            let all_wait = report.fibers() == all
                && report.groups.iter().all(waits)
                && report.groups.iter().any(reads);
            if all_wait || Instant::now() >= deadline {
                return report;
            }
            std::thread::yield_now();
        }
    }
}

pub(crate) fn is_named(group: &Group, name: &str) -> bool {
    let mut fibers = group.fibers.iter();
    fibers.any(|fiber| fiber.name.as_deref() == Some(name))
}

pub(crate) fn is_in(group: &Group, function: &str) -> bool {
    let mut frames = group.frames.iter();
    frames.any(|frame| frame.function.contains(function))
}

/// Returns the group of fibers with this name.
#[track_caller]
pub(crate) fn group<'a>(report: &'a Report, name: &str) -> &'a Group {
    let groups = report.groups.iter();
    let found: Vec<_> = groups.filter(|group| is_named(group, name)).collect();
    assert_eq!(found.len(), 1, "{name}\n{report}");
    found[0]
}

/// Returns `true` if an aborted process leaves a core file in its folder.
pub(crate) fn leaves_core_files() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    let limit = getrlimit(Resource::RLIMIT_CORE).unwrap();
    let leaves = pattern.trim() == "core" && limit.1 >= CORE_BYTES_MAX;
    if !leaves {
        println!("not tested: this system writes core files elsewhere: {pattern}");
    }
    leaves
}

pub(crate) fn only_file_in(folder: &Path) -> PathBuf {
    let mut files = fs::read_dir(folder).unwrap();
    files.next().unwrap().unwrap().path()
}

/// Aborts a process whose fibers all wait. Returns them, and its core file in this folder; `None`
/// where there is none.
pub(crate) fn abort_in(folder: &Path) -> Option<(Report, PathBuf)> {
    if !leaves_core_files() {
        return None;
    }
    let mut waiting = Waiting::start_in(folder, "uring");
    let before = waiting.dump_waiting("uring");
    kill(Pid::from_raw(waiting.pid()), Signal::SIGABRT).unwrap();
    waiting.0.wait().unwrap();
    Some((before, only_file_in(folder)))
}
