//! Reads facts about the system and this process from `/proc`, `/sys` and resource limits.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

use rustix::process::{Resource, getrlimit};
use serde::Serialize;

/// Bits of `CapEff`.
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;

/// Mount point of the control groups, in both versions.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";
/// Smallest value that version 1 shows for "no limit": the largest number of whole pages, and
/// anything near it.
const NO_MEMORY_LIMIT: u64 = 1 << 60;

/// Facts about the system; `None` if the system does not report one.
#[derive(Debug, Default, Serialize)]
pub(crate) struct System {
    pub(crate) kernel: Option<String>,
    pub(crate) architecture: &'static str,
    pub(crate) processors: usize,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) memory_available_bytes: Option<u64>,
    pub(crate) user_id: u32,
    pub(crate) group_ids: Vec<u32>,
    /// True if this process has `CAP_SYS_ADMIN`.
    pub(crate) is_administrator: bool,
    /// True if the limit of locked memory does not apply to this process.
    pub(crate) locks_any_memory: bool,
    /// True if the limit of processes does not apply to this process.
    pub(crate) starts_any_thread: bool,
    /// Value of `kernel.io_uring_disabled`. A kernel that has it was built with io_uring.
    pub(crate) io_uring_disabled: Option<u32>,
    /// Value of `kernel.io_uring_group`: the group that may use io_uring if `io_uring_disabled`
    /// is 1.
    pub(crate) io_uring_group: Option<i64>,
    pub(crate) seccomp: Option<Seccomp>,
    #[serde(skip)]
    pub(crate) limits: Limits,
}

/// Restriction of this process's system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Seccomp {
    None,
    Strict,
    Filter,
}

/// Limits as numbers; `None` if unlimited or unknown.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) open_files: Option<u64>,
    pub(crate) open_files_hard: Option<u64>,
    pub(crate) locked_memory_bytes: Option<u64>,
    pub(crate) processes: Option<u64>,
    pub(crate) mappings: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) process_ids: Option<u64>,
    pub(crate) group_processes: Option<u64>,
    pub(crate) group_memory_bytes: Option<u64>,
    pub(crate) listen_queue: Option<u64>,
    pub(crate) local_ports: Option<(u16, u16)>,
}

impl System {
    pub(crate) fn read() -> System {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kilobytes = |name| {
            field(&memory, name)?
                .parse()
                .ok()
                .map(|size: u64| size * 1024)
        };
        let capabilities = field(&status, "CapEff")
            .and_then(|bits| u64::from_str_radix(bits, 16).ok())
            .unwrap_or_default();
        // Root in a user namespace has all capabilities, but not for the whole system.
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let is_initial = map.split_whitespace().eq(["0", "0", "4294967295"]);
        let has = |capability: u32| is_initial && capabilities & 1 << capability != 0;
        let kernel = |name| first_line(&format!("/proc/sys/kernel/{name}"));
        System {
            kernel: kernel("osrelease").map(|release| format!("Linux {release}")),
            architecture: std::env::consts::ARCH,
            processors: available_parallelism().map_or(1, usize::from),
            memory_bytes: kilobytes("MemTotal"),
            memory_available_bytes: kilobytes("MemAvailable"),
            user_id: rustix::process::geteuid().as_raw(),
            group_ids: groups(&status),
            is_administrator: has(CAP_SYS_ADMIN),
            locks_any_memory: has(CAP_IPC_LOCK),
            starts_any_thread: has(CAP_SYS_ADMIN) || has(CAP_SYS_RESOURCE),
            io_uring_disabled: kernel("io_uring_disabled").and_then(|text| text.parse().ok()),
            io_uring_group: kernel("io_uring_group").and_then(|text| text.parse().ok()),
            seccomp: match field(&status, "Seccomp") {
                Some("0") => Some(Seccomp::None),
                Some("1") => Some(Seccomp::Strict),
                Some("2") => Some(Seccomp::Filter),
                _ => None,
            },
            limits: Limits::read(),
        }
    }
}

impl Limits {
    fn read() -> Limits {
        let open_files = getrlimit(Resource::Nofile);
        let number = |path: &str| first_line(path)?.parse().ok();
        Limits {
            open_files: open_files.current,
            open_files_hard: open_files.maximum,
            locked_memory_bytes: getrlimit(Resource::Memlock).current,
            processes: getrlimit(Resource::Nproc).current,
            mappings: number("/proc/sys/vm/max_map_count"),
            threads: number("/proc/sys/kernel/threads-max"),
            process_ids: number("/proc/sys/kernel/pid_max"),
            group_processes: control_group("pids", "pids.max", "pids.max"),
            group_memory_bytes: control_group("memory", "memory.max", "memory.limit_in_bytes")
                .filter(|bytes| *bytes < NO_MEMORY_LIMIT),
            listen_queue: number("/proc/sys/net/core/somaxconn"),
            local_ports: first_line("/proc/sys/net/ipv4/ip_local_port_range").and_then(|range| {
                let (first, last) = range.split_once(char::is_whitespace)?;
                Some((first.parse().ok()?, last.trim().parse().ok()?))
            }),
        }
    }
}

/// Returns the first word of the value of `name:` in a file of such lines.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let value = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    text.lines().find_map(value)?.split_whitespace().next()
}

/// Returns the effective group and the supplementary groups.
fn groups(status: &str) -> Vec<u32> {
    let numbers = |name: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default()
            .split_whitespace()
            .filter_map(|number| number.parse().ok())
            .collect::<Vec<u32>>()
    };
    let mut groups = numbers("Groups");
    groups.extend(numbers("Gid").get(1));
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

/// Returns the lowest of the limits from this process's control group up to the root, in either
/// version.
fn control_group(controller: &str, file: &str, old_file: &str) -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut limits = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (mount, file) = match controllers {
            "" => (CONTROL_GROUPS.to_owned(), file),
            _ if controllers.split(',').any(|name| name == controller) => {
                (format!("{CONTROL_GROUPS}/{controllers}"), old_file)
            }
            _ => continue,
        };
        for above in Path::new(path.trim_start_matches('/')).ancestors() {
            let path = Path::new(&mount).join(above).join(file);
            let text = fs::read_to_string(path).unwrap_or_default();
            limits.extend(text.trim().parse::<u64>().ok());
        }
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\ta\nGid:\t5\t6\t7\t8\nGroups:\t4 9 \nCapEff:\t0000000000004000\n";

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(field(STATUS, "CapEff"), Some("0000000000004000"));
        assert_eq!(field(STATUS, "Cap"), None);
        assert_eq!(groups(STATUS), [4, 6, 9]);
    }

    #[test]
    fn this_system_is_described() {
        let system = System::read();
        assert!(
            system
                .kernel
                .is_some_and(|kernel| kernel.starts_with("Linux "))
        );
        assert!(system.memory_bytes > Some(0));
        assert!(system.seccomp.is_some());
        assert!(system.limits.mappings > Some(0));
        let (first, last) = system.limits.local_ports.unwrap();
        assert!(first < last);
    }
}
