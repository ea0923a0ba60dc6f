//! The limits of the system and of this process, and how many connections and fibers each allows.

use uthread::runtime::{Diagnosis, Feature};

use super::refusal::more_locked_memory;
use super::remedy::Remedy;
use super::report::Limit;
use super::system::System;
use super::text::{bytes, number, rounded};

/// Descriptors besides the connections: standard streams, a listener and open files; and those of
/// each worker.
const DESCRIPTORS_RESERVED: u64 = 8;
const DESCRIPTORS_PER_WORKER: u64 = 2;

/// Memory of a waiting fiber: a page of its stack and its control block. A million took 5 GB.
const FIBER_BYTES: u64 = 5 * 1024;

/// Mappings besides the stacks: the program, its libraries and its heaps.
const MAPPINGS_RESERVED: u64 = 500;
/// Mappings of a stack without a guard region, such as a thread's: the stack and the guard.
const MAPPINGS_PER_STACK: u64 = 2;

/// Default maximum of `uthread serve`.
const CONNECTIONS: u64 = 10_000;
/// Number of mappings that suffices for a hundred thousand fibers.
const MAPPINGS: u64 = 200_000;
/// Backlog that `uthread serve` and `uthread echo` request, and the kernel's default maximum.
const LISTEN_QUEUE: u64 = 4096;

pub(crate) fn judge(system: &System, diagnosis: &Diagnosis) -> Vec<Limit> {
    let limits = &system.limits;
    let count = |name, value: Option<u64>, allows| Limit {
        name,
        value,
        text: value.map_or("unlimited".to_owned(), number),
        allows,
    };
    let size = |name, value: Option<u64>, allows| Limit {
        name,
        value,
        text: value.map_or("unlimited".to_owned(), bytes),
        allows,
    };
    let memory = usable_memory(system);
    vec![
        count("open files", limits.open_files, open_files(system)),
        size(
            "locked memory",
            limits.locked_memory_bytes,
            locked_memory(system, diagnosis),
        ),
        size(
            "usable memory",
            memory,
            memory.map_or_else(unknown, |memory| {
                let fibers = number(rounded(memory / FIBER_BYTES));
                format!("about {fibers} waiting fibers of 5 KiB each")
            }),
        ),
        count("mappings", limits.mappings, mappings(system, diagnosis)),
        threads(system),
        count(
            "listen queue",
            limits.listen_queue,
            "connections per listener may wait for accept".to_owned(),
        ),
        local_ports(system),
    ]
}

/// Returns remedies for limits that are too low for the defaults of the program.
pub(crate) fn remedies(system: &System, diagnosis: &Diagnosis) -> Vec<Remedy> {
    let limits = &system.limits;
    let mut remedies = Vec::new();
    if limits
        .open_files_hard
        .is_some_and(|hard| hard < CONNECTIONS)
    {
        remedies.push(Remedy::new(
            "The limit of open files is low (RLIMIT_NOFILE): `uthread serve` accepts 10,000 connections by default.",
            [
                "ulimit -n 65536  # in a shell, as root",
                "LimitNOFILE=65536  # systemd",
                "docker run --ulimit nofile=65536 ...  # podman too",
            ],
        ));
    }
    let too_few = |rings: u64| rings < system.processors as u64;
    if diagnosis.ring.is_ok() && full_rings(system, diagnosis).is_some_and(too_few) {
        remedies.push(Remedy::new(
            "The limit of locked memory is low (RLIMIT_MEMLOCK): some workers get a smaller ring, which is \
             slower under load, or none.",
            more_locked_memory(),
        ));
    }
    if has_guard_regions(diagnosis) == Some(false)
        && limits.mappings.is_some_and(|mappings| mappings < MAPPINGS)
    {
        remedies.push(Remedy::new(
            "This kernel has no guard regions, so each fiber takes two of a limited number of mappings. Only \
             programs with tens of thousands of fibers need a higher limit.",
            ["sysctl -w vm.max_map_count=1048576"],
        ));
    }
    if limits
        .listen_queue
        .is_some_and(|queue| queue < LISTEN_QUEUE)
    {
        remedies.push(Remedy::new(
            "The listen queue is short: in a burst of connections, clients must retry.",
            ["sysctl -w net.core.somaxconn=4096"],
        ));
    }
    remedies
}

fn unknown() -> String {
    "unknown on this system".to_owned()
}

fn open_files(system: &System) -> String {
    let reserved = DESCRIPTORS_RESERVED + DESCRIPTORS_PER_WORKER * system.processors as u64;
    let connections = |files: u64| number(files.saturating_sub(reserved));
    let limits = &system.limits;
    let text = match limits.open_files {
        Some(files) => format!("about {} connections", connections(files)),
        None => "any number of connections".to_owned(),
    };
    match limits.open_files_hard {
        hard if hard == limits.open_files => text,
        Some(hard) => format!("{text}; a program can raise it to {}", connections(hard)),
        None => format!("{text}; a program can raise it"),
    }
}

fn locked_memory(system: &System, diagnosis: &Diagnosis) -> String {
    let full = bytes(diagnosis.ring_locked_bytes as u64);
    match (
        full_rings(system, diagnosis),
        system.limits.locked_memory_bytes,
    ) {
        (Some(0), Some(limit)) => {
            let small = diagnosis.ring_locked_bytes_min as u64;
            let count = number(limit / small);
            format!(
                "{count} workers with rings of {}; too low for {full}",
                bytes(small)
            )
        }
        (Some(rings), _) => format!("{} workers with rings of {full}", number(rings)),
        (None, Some(_)) if system.locks_any_memory => {
            "any number of rings (CAP_IPC_LOCK)".to_owned()
        }
        (None, Some(_)) => "any number of rings: not counted by this kernel".to_owned(),
        (None, None) => "any number of rings".to_owned(),
    }
}

/// Returns how many rings of full size fit into the locked memory. `None` if locked memory is
/// unlimited, or if the kernel does not count rings (5.12 to 6.13): then a ring exists that exceeds
/// the limit.
fn full_rings(system: &System, diagnosis: &Diagnosis) -> Option<u64> {
    let limit = system.limits.locked_memory_bytes?;
    let count = limit / diagnosis.ring_locked_bytes as u64;
    let is_full = find(&diagnosis.ring_features, "queues of full size") == Some(true);
    let is_free = system.locks_any_memory || is_full && count == 0;
    (!is_free).then_some(count)
}

fn find(features: &[Feature], name: &str) -> Option<bool> {
    let feature = features.iter().find(|feature| feature.name == name);
    feature.and_then(|feature| feature.available)
}

/// Returns the available memory, at most as much as the control group may use.
fn usable_memory(system: &System) -> Option<u64> {
    let [available, group] = [
        system.memory_available_bytes,
        system.limits.group_memory_bytes,
    ];
    [available, group].into_iter().flatten().min()
}

fn has_guard_regions(diagnosis: &Diagnosis) -> Option<bool> {
    find(&diagnosis.system_features, "guard regions")
}

fn mappings(system: &System, diagnosis: &Diagnosis) -> String {
    match (has_guard_regions(diagnosis), system.limits.mappings) {
        (Some(false), Some(mappings)) => {
            format!(
                "about {} fibers, without guard regions",
                number(rounded(stacks(mappings)))
            )
        }
        _ => "any number of fibers (guard regions)".to_owned(),
    }
}

fn stacks(mappings: u64) -> u64 {
    mappings.saturating_sub(MAPPINGS_RESERVED) / MAPPINGS_PER_STACK
}

/// Returns the lowest of all limits on threads, and its name.
fn threads(system: &System) -> Limit {
    let limits = &system.limits;
    let bounds = [
        (limits.threads, "kernel.threads-max"),
        (limits.process_ids, "kernel.pid_max"),
        (limits.group_processes, "the control group's pids.max"),
        (
            limits.processes.filter(|_| !system.starts_any_thread),
            "RLIMIT_NPROC",
        ),
        (limits.mappings.map(stacks), "vm.max_map_count"),
    ];
    let lowest = bounds
        .into_iter()
        .filter_map(|(value, name)| Some((value?, name)))
        .min_by_key(|(value, _)| *value);
    Limit {
        name: "threads",
        value: lowest.map(|(value, _)| value),
        text: lowest.map_or("unlimited".to_owned(), |(value, _)| number(value)),
        allows: match lowest {
            Some((value, name)) => {
                let fibers = number(rounded(value));
                format!("about {fibers} fibers with the threads driver ({name})")
            }
            None => "any number of fibers with the threads driver".to_owned(),
        },
    }
}

fn local_ports(system: &System) -> Limit {
    let range = system.limits.local_ports;
    let ports = range.map(|(first, last)| u64::from(last.saturating_sub(first)) + 1);
    Limit {
        name: "local ports",
        value: ports,
        text: range.map_or_else(unknown, |(first, last)| format!("{first}-{last}")),
        allows: ports.map_or_else(unknown, |ports| {
            format!("{} connections to one address", number(ports))
        }),
    }
}
