//! Checks before a measurement whether this machine allows as many connections and threads. That
//! gives a better reason than a server that runs into the limit.

use std::fs;

use anyhow::{Result, ensure};
use procfs::sys::{kernel, vm};
use procfs::{Current as _, LoadAverage};

use crate::setup::OPEN_FILES_SPARE;
use uthread_load::raise_open_files;

/// Mappings of a thread in Rust: its stack and that of its signal handlers, each with a guard.
const MAPPINGS_PER_THREAD: u64 = 4;
/// Mappings and threads that a server has without connections, and the arenas of its allocator.
const SPARE: u64 = 128;
const PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// The limit of this process's control group, where it is visible as the root.
const GROUP: [&str; 2] = ["/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"];

/// Fails if this machine does not allow so many connections. `has_threads`: the server starts a
/// thread for each.
pub(crate) fn check(connections: u64, has_threads: bool) -> Result<()> {
    raise_open_files(connections + OPEN_FILES_SPARE)?;
    if let Some(ports) = fs::read_to_string(PORTS).ok().as_deref().and_then(ports_in) {
        let remedy = "raise net.ipv4.ip_local_port_range";
        ensure!(connections <= ports, "a client has {ports} ports: {remedy}");
    }
    if has_threads {
        let running = LoadAverage::current().map_or(0, |load| u64::from(load.max));
        let mut group = GROUP
            .iter()
            .filter_map(|path| fs::read_to_string(path).ok());
        let group = group.find_map(|text| text.trim().parse().ok());
        let (threads, pids) = (kernel::threads_max(), kernel::pid_max());
        let bounds = [
            (
                "kernel.threads-max",
                threads.ok().map(u64::from),
                running,
                1,
            ),
            (
                "kernel.pid_max",
                pids.ok().map(|pids| pids as u64),
                running,
                1,
            ),
            (
                "vm.max_map_count",
                vm::max_map_count().ok(),
                0,
                MAPPINGS_PER_THREAD,
            ),
            ("the control group's pids.max", group, running, 1),
        ];
        for (name, maximum, in_use, each) in bounds {
            check_bound(name, maximum, in_use + (connections + SPARE) * each)?;
        }
    }
    Ok(())
}

fn check_bound(name: &str, maximum: Option<u64>, needed: u64) -> Result<()> {
    let maximum = maximum.unwrap_or(u64::MAX);
    ensure!(
        needed <= maximum,
        "the threads need {name} to be {needed}, it is {maximum}"
    );
    Ok(())
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
    fn a_bound_is_named_if_it_is_too_low() {
        let check =
            |maximum| check_bound("a bound", maximum, 110).map_err(|error| error.to_string());
        assert_eq!((check(Some(110)), check(None)), (Ok(()), Ok(())));
        let refused = "the threads need a bound to be 110, it is 109".to_owned();
        assert_eq!(check(Some(109)), Err(refused));
        assert_eq!(
            (ports_in("32768\t60999\n"), ports_in("9 1")),
            (Some(28_232), None)
        );
        for has_threads in [false, true] {
            super::check(1, has_threads).unwrap();
        }
    }
}
