//! Whether so many connections can be tried at all on this machine. A limit that is known beforehand gives a better
//! reason than a server that runs into it.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use rustix::process::{Resource, geteuid, getrlimit};

use crate::setup::{OPEN_FILES_SPARE, raise_open_files};

/// Of a thread in Rust: its stack and that of its signal handlers, each with a guard.
const MAPPINGS_PER_THREAD: u64 = 4;
/// Mappings and threads that a server has without connections, and the arenas of its allocator.
const SPARE: u64 = 128;

/// `has_threads`: the server has a thread of the system for each connection.
pub(crate) fn check(connections: u64, has_threads: bool) -> Result<()> {
    raise_open_files(connections + OPEN_FILES_SPARE)?;
    if let Some(ports) = local_ports() {
        ensure!(
            connections <= ports,
            "a client has {ports} ports: raise net.ipv4.ip_local_port_range"
        );
    }
    match has_threads {
        true => check_bounds(&thread_bounds(), connections + SPARE),
        false => Ok(()),
    }
}

/// How many there may be of something of which each thread takes `each`.
struct Bound {
    name: &'static str,
    maximum: u64,
    in_use: u64,
    each: u64,
}

fn check_bounds(bounds: &[Bound], threads: u64) -> Result<()> {
    for bound in bounds {
        let needed = bound.in_use + threads * bound.each;
        if needed > bound.maximum {
            bail!(
                "{threads} threads need {} to be {needed}, it is {}",
                bound.name,
                bound.maximum
            );
        }
    }
    Ok(())
}

/// Of those that this kernel has.
fn thread_bounds() -> Vec<Bound> {
    let running = fs::read_to_string("/proc/loadavg").map_or(0, |text| threads_in(&text));
    let mut bounds = Vec::new();
    let mut add = |name, maximum: Option<u64>, in_use, each| {
        bounds.extend(maximum.map(|maximum| Bound {
            name,
            maximum,
            in_use,
            each,
        }));
    };
    let sysctl = |name: &str| read_number(Path::new("/proc/sys").join(name));
    add(
        "kernel.threads-max",
        sysctl("kernel/threads-max"),
        running,
        1,
    );
    add("kernel.pid_max", sysctl("kernel/pid_max"), running, 1);
    let mappings = sysctl("vm/max_map_count");
    add("vm.max_map_count", mappings, 0, MAPPINGS_PER_THREAD);
    // Root is not held to it.
    let user = getrlimit(Resource::Nproc).current;
    add(
        "ulimit -u",
        user.filter(|_| !geteuid().is_root()),
        running,
        1,
    );
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    for folder in pids_folders(&groups) {
        let folder = Path::new(&folder);
        let current = read_number(folder.join("pids.current")).unwrap_or(0);
        let maximum = read_number(folder.join("pids.max"));
        add("the control group's pids.max", maximum, current, 1);
    }
    bounds
}

fn read_number<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Of all the machine, from `/proc/loadavg`: `0.50 0.40 0.30 2/150 10524`.
fn threads_in(loadavg: &str) -> u64 {
    let counts = loadavg.split_ascii_whitespace().nth(3);
    let all = counts.and_then(|counts| counts.split_once('/')?.1.parse().ok());
    all.unwrap_or(0)
}

/// Where this process's control group and those above it count threads, in either version, from `/proc/self/cgroup`.
fn pids_folders(groups: &str) -> Vec<String> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let mount = match controllers {
            "" => "/sys/fs/cgroup",
            "pids" => "/sys/fs/cgroup/pids",
            _ => continue,
        };
        let above = Path::new(path).ancestors();
        folders.extend(above.map(|path| format!("{mount}{}", path.display())));
    }
    folders
}

fn local_ports() -> Option<u64> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    ports_in(&text)
}

/// `32768 60999`, both included.
fn ports_in(range: &str) -> Option<u64> {
    let mut ends = range.split_ascii_whitespace().map(str::parse);
    let (first, last): (u64, u64) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (last + 1).checked_sub(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_counts_what_is_in_use() {
        let bound = |maximum, in_use, each| Bound {
            name: "a bound",
            maximum,
            in_use,
            each,
        };
        assert!(check_bounds(&[bound(110, 10, 1), bound(400, 0, 4)], 100).is_ok());
        let check = |refused: Bound, reason: &str| {
            let error = check_bounds(&[bound(1000, 0, 1), refused], 100).unwrap_err();
            assert_eq!(error.to_string(), reason);
        };
        check(
            bound(109, 10, 1),
            "100 threads need a bound to be 110, it is 109",
        );
        check(
            bound(399, 0, 4),
            "100 threads need a bound to be 400, it is 399",
        );
    }

    #[test]
    fn the_files_are_read_as_the_kernel_writes_them() {
        assert_eq!(threads_in("4.77 6.14 5.61 2/150 10524\n"), 150);
        assert_eq!(threads_in(""), 0);
        assert_eq!(ports_in("32768\t60999\n"), Some(28_232));
        assert_eq!(ports_in("9 1"), None);
        assert_eq!(ports_in(""), None);
        let groups = "8:pids:/\n4:memory:/x\n0::/a/b:c\n";
        let expected = [
            "/sys/fs/cgroup/pids/",
            "/sys/fs/cgroup/a/b:c",
            "/sys/fs/cgroup/a",
            "/sys/fs/cgroup/",
        ];
        assert_eq!(pids_folders(groups), expected);
        assert!(!thread_bounds().is_empty());
    }

    #[test]
    fn one_connection_can_be_tried() {
        for has_threads in [false, true] {
            check(1, has_threads).unwrap();
        }
    }
}
