//! Explains why io_uring is not available, from the kernel's error and the system's settings, with
//! the remedy for each cause.

use std::io;

use rustix::io::Errno;

use super::remedy::Remedy;
use super::system::{Seccomp, System};
use super::text::bytes;

const CALLS: &str = "io_uring_setup, io_uring_enter and io_uring_register";

/// Returns the kernel's error number, which the library keeps as the source of its own error.
pub(crate) fn errno(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error).or_else(|| {
        let source = error.get_ref().and_then(|inner| inner.source())?;
        Errno::from_io_error(source.downcast_ref()?)
    })
}

/// Returns the remedies, the most likely one first.
pub(crate) fn remedies(error: &io::Error, system: &System, ring_bytes: u64) -> Vec<Remedy> {
    match errno(error) {
        Some(Errno::PERM) => forbidden(system),
        Some(Errno::ACCESS) => vec![security_module()],
        Some(Errno::NOSYS) => missing(system),
        Some(Errno::NOMEM) => vec![memory(system, ring_bytes)],
        Some(Errno::MFILE | Errno::NFILE) => {
            vec![Remedy::new(
                format!("io_uring failed: {error}."),
                command(error),
            )]
        }
        _ => vec![Remedy::new(
            format!(
                "io_uring failed: {error}. If this kernel is older than 5.11, use a newer one; otherwise please \
                 report this."
            ),
            [],
        )],
    }
}

/// Returns the command that helps against a shortage, which any call may report.
pub(crate) fn command(error: &io::Error) -> Option<&'static str> {
    Some(match errno(error)? {
        Errno::MFILE => "ulimit -n 65536",
        Errno::NFILE => "sysctl -w fs.file-max=1000000",
        Errno::AGAIN => "ulimit -u unlimited  # or a higher pids.max of the control group",
        Errno::NOMEM => "ulimit -v unlimited  # or a higher memory.max of the control group",
        Errno::NETUNREACH | Errno::ADDRNOTAVAIL => "ip link set lo up",
        _ => return None,
    })
}

/// Explains `EPERM`: the sysctl, a seccomp filter or, if neither is set, a security module.
fn forbidden(system: &System) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    let member = system
        .io_uring_group
        .is_some_and(|group| system.group_ids.iter().any(|own| i64::from(*own) == group));
    match system.io_uring_disabled {
        Some(2) => remedies.push(by_sysctl(
            "kernel.io_uring_disabled is 2: io_uring is disabled for all users.",
            None,
        )),
        Some(1) if !member && !system.is_administrator => remedies.push(by_sysctl(
            "kernel.io_uring_disabled is 1: io_uring is allowed only for administrators and one group.",
            system.group_ids.first(),
        )),
        _ => {}
    }
    match (system.seccomp, remedies.is_empty()) {
        (Some(Seccomp::Filter), true) => remedies.push(by_filter("forbids")),
        (Some(Seccomp::Filter), false) => remedies.push(by_filter("may also forbid")),
        (_, true) => remedies.push(security_module()),
        (_, false) => {}
    }
    remedies
}

/// Explains `ENOSYS`: a filter hides io_uring, or the kernel has none.
fn missing(system: &System) -> Vec<Remedy> {
    let kernel = Remedy::new(
        "This kernel has no usable io_uring: it is older than 5.11, was built without CONFIG_IO_URING, or is \
         a sandbox such as gVisor.",
        ["run on Linux 5.11 or newer, preferably 6.13 or newer"],
    );
    let known = system.io_uring_disabled.is_some();
    match (system.seccomp, known) {
        (Some(Seccomp::Filter), true) => vec![by_filter("hides")],
        (Some(Seccomp::Filter), false) => vec![by_filter("may hide"), kernel],
        _ => vec![kernel],
    }
}

fn by_sysctl(problem: &str, group: Option<&u32>) -> Remedy {
    let mut remedy = Remedy::new(
        problem,
        [
            "sysctl -w kernel.io_uring_disabled=0",
            "echo kernel.io_uring_disabled=0 > /etc/sysctl.d/io_uring.conf  # permanently",
        ],
    );
    if let Some(group) = group {
        let command =
            format!("sysctl -w kernel.io_uring_group={group}  # or allow only this group");
        remedy.commands.push(command);
    }
    remedy
}

fn by_filter(verb: &str) -> Remedy {
    Remedy::new(
        format!(
            "A seccomp filter {verb} io_uring, as the default profiles of container engines do. Copy the \
             profile (Docker's is default.json) to FILE, and add {CALLS} to the allowed calls."
        ),
        [
            "docker run --security-opt seccomp=FILE ...  # podman too",
            "seccompProfile: {type: Localhost, localhostProfile: FILE}  # Kubernetes",
            "SystemCallFilter=@aio  # systemd",
        ],
    )
}

fn security_module() -> Remedy {
    Remedy::new(
        "A security module (AppArmor, SELinux) seems to forbid io_uring: no sysctl or seccomp filter does. \
         The kernel log names the rule.",
        ["dmesg | grep -i -e denied -e io_uring"],
    )
}

fn memory(system: &System, ring_bytes: u64) -> Remedy {
    let ring = bytes(ring_bytes);
    match system.limits.locked_memory_bytes {
        Some(limit) if !system.locks_any_memory => Remedy::new(
            format!(
                "io_uring failed: this process may lock {} of memory (RLIMIT_MEMLOCK), and all rings of its \
                 user count. Each worker needs {ring}.",
                bytes(limit)
            ),
            more_locked_memory(),
        ),
        _ => Remedy::new(
            format!(
                "io_uring failed: the kernel or the control group has no memory left for a ring ({ring})."
            ),
            ["free -m; cat /sys/fs/cgroup/memory.max"],
        ),
    }
}

/// Returns the commands that raise the limit, one for each way to start the program.
pub(crate) fn more_locked_memory() -> [&'static str; 3] {
    [
        "ulimit -l unlimited  # in a shell, as root",
        "LimitMEMLOCK=infinity  # systemd",
        "docker run --ulimit memlock=-1 ...  # podman too",
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::system::Limits;

    /// Makes a system with or without a filter, and with this value of `kernel.io_uring_disabled`.
    fn system(seccomp: Seccomp, io_uring_disabled: Option<u32>) -> System {
        System {
            seccomp: Some(seccomp),
            io_uring_disabled,
            io_uring_group: Some(7),
            group_ids: vec![100],
            ..System::default()
        }
    }

    /// Checks that each remedy contains the expected words.
    #[track_caller]
    fn check(errno: Errno, system: &System, expected: &[&str]) {
        let remedies = remedies(&io::Error::from(errno), system, 84 * 1024);
        let texts: Vec<String> = remedies
            .iter()
            .map(|remedy| format!("{} {}", remedy.problem, remedy.commands.join(" ")))
            .collect();
        assert_eq!(texts.len(), expected.len(), "{texts:?}");
        for (text, words) in texts.iter().zip(expected) {
            assert!(text.contains(words), "{words} in {text}");
        }
    }

    #[test]
    fn a_forbidden_ring() {
        let errno = Errno::PERM;
        let sysctl = "sysctl -w kernel.io_uring_disabled=0";
        let docker = "docker run --security-opt seccomp=";
        check(errno, &system(Seccomp::None, Some(2)), &[sysctl]);
        check(errno, &system(Seccomp::Filter, Some(2)), &[sysctl, docker]);
        check(errno, &system(Seccomp::Filter, Some(0)), &[docker]);
        check(errno, &system(Seccomp::Filter, None), &[docker]);
        check(errno, &system(Seccomp::None, Some(0)), &["security module"]);
        check(
            Errno::ACCESS,
            &system(Seccomp::Filter, Some(0)),
            &["security module"],
        );
    }

    #[test]
    fn a_ring_for_some_only() {
        let mut restricted = system(Seccomp::None, Some(1));
        check(Errno::PERM, &restricted, &["kernel.io_uring_group=100"]);
        restricted.group_ids.push(7);
        check(Errno::PERM, &restricted, &["security module"]);
        restricted.group_ids.clear();
        restricted.is_administrator = true;
        check(Errno::PERM, &restricted, &["security module"]);
    }

    #[test]
    fn a_ring_that_is_not_there() {
        let errno = Errno::NOSYS;
        check(errno, &system(Seccomp::None, None), &["older than 5.11"]);
        // Only kernels with io_uring have the sysctl.
        check(errno, &system(Seccomp::Filter, Some(0)), &["hides"]);
        check(
            errno,
            &system(Seccomp::Filter, None),
            &["may hide", "older than 5.11"],
        );
    }

    #[test]
    fn no_room_for_a_ring() {
        let mut system = System {
            limits: Limits {
                locked_memory_bytes: Some(4096),
                ..Limits::default()
            },
            ..System::default()
        };
        check(Errno::NOMEM, &system, &["4 KiB"]);
        system.locks_any_memory = true;
        check(
            Errno::NOMEM,
            &system,
            &["no memory left for a ring (84 KiB)"],
        );
        check(Errno::MFILE, &system, &["ulimit -n"]);
        check(Errno::NFILE, &system, &["fs.file-max"]);
        check(Errno::INVAL, &system, &["Invalid argument"]);
    }
}
