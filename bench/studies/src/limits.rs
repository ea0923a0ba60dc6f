//! Checks before a measurement whether this machine allows as many connections and threads. That gives a better reason than a
//! server that runs into the limit.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use procfs::process::Process;
use procfs::sys::{kernel, vm};
use procfs::{Current as _, LoadAverage};
use rustix::process::{Resource, geteuid, getrlimit};

use crate::setup::{OPEN_FILES_SPARE, raise_open_files};

/// Mappings of a thread in Rust: its stack and that of its signal handlers, each with a guard.
const MAPPINGS_PER_THREAD: u64 = 4;
/// Mappings and threads that a server has without connections, and the arenas of its allocator.
const SPARE: u64 = 128;
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Fails if this machine does not allow so many connections. `has_threads`: the server starts a thread for each.
pub(crate) fn check(connections: u64, has_threads: bool) -> Result<()> {
    raise_open_files(connections + OPEN_FILES_SPARE)?;
    if let Some(ports) = fs::read_to_string(PORTS).ok().as_deref().and_then(ports_in) {
        let remedy = "raise net.ipv4.ip_local_port_range";
        ensure!(connections <= ports, "a client has {ports} ports: {remedy}");
    }
    if has_threads {
        check_bounds(&thread_bounds(), connections + SPARE)?;
    }
    Ok(())
}

/// A limit, how much of it is in use, and how much of it each thread takes.
struct Bound {
    name: &'static str,
    maximum: u64,
    in_use: u64,
    each: u64,
}

fn check_bounds(bounds: &[Bound], threads: u64) -> Result<()> {
    for bound in bounds {
        let (name, maximum) = (bound.name, bound.maximum);
        let needed = bound.in_use + threads * bound.each;
        ensure!(
            needed <= maximum,
            "{threads} threads need {name} to be {needed}, it is {maximum}"
        );
    }
    Ok(())
}

/// Returns the bounds that this kernel and this user have.
fn thread_bounds() -> Vec<Bound> {
    let running = LoadAverage::current().map_or(0, |load| u64::from(load.max));
    // Root is exempt.
    let user = getrlimit(Resource::Nproc).current;
    let user = user.filter(|_| !geteuid().is_root());
    let threads_max = kernel::threads_max().ok().map(u64::from);
    let pid_max = kernel::pid_max()
        .ok()
        .and_then(|pids| u64::try_from(pids).ok());
    let mut bounds = vec![
        ("kernel.threads-max", threads_max, running, 1),
        ("kernel.pid_max", pid_max, running, 1),
        (
            "vm.max_map_count",
            vm::max_map_count().ok(),
            0,
            MAPPINGS_PER_THREAD,
        ),
        ("ulimit -u", user, running, 1),
    ];
    let groups = Process::myself().and_then(|own| own.cgroups());
    for group in groups.into_iter().flatten() {
        let mount = match group.controllers.as_slice() {
            [] => "/sys/fs/cgroup",
            names if names.iter().any(|name| name == "pids") => "/sys/fs/cgroup/pids",
            _ => continue,
        };
        for path in Path::new(&group.pathname).ancestors() {
            let folder = format!("{mount}{}", path.display());
            let number = |name| read_number(&format!("{folder}/{name}"));
            let current = number("pids.current").unwrap_or(0);
            bounds.push((
                "the control group's pids.max",
                number("pids.max"),
                current,
                1,
            ));
        }
    }
    let known = bounds
        .into_iter()
        .filter_map(|(name, maximum, in_use, each)| {
            let maximum = maximum?;
            Some(Bound {
                name,
                maximum,
                in_use,
                each,
            })
        });
    known.collect()
}

fn read_number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the number of ports in a range such as `32768 60999`, both included.
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
        let check = |maximum, in_use, each| {
            let name = "a bound";
            let bound = Bound {
                name,
                maximum,
                in_use,
                each,
            };
            check_bounds(&[bound], 100).map_err(|error| error.to_string())
        };
        assert_eq!(check(110, 10, 1), Ok(()));
        assert_eq!(check(400, 0, 4), Ok(()));
        let refused = |needed, maximum| {
            Err(format!(
                "100 threads need a bound to be {needed}, it is {maximum}"
            ))
        };
        assert_eq!(check(109, 10, 1), refused(110, 109));
        assert_eq!(check(399, 0, 4), refused(400, 399));
    }

    #[test]
    fn this_machine_has_bounds_and_allows_one_connection() {
        assert_eq!(ports_in("32768\t60999\n"), Some(28_232));
        assert_eq!(ports_in("9 1"), None);
        assert!(!thread_bounds().is_empty());
        for has_threads in [false, true] {
            check(1, has_threads).unwrap();
        }
    }
}
