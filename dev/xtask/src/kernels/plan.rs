//! The plan: kernels, and the tests to run on each.

use std::time::Duration;

/// A kernel with its parameters.
pub(super) struct Machine {
    pub(super) name: &'static str,
    /// Debian suite of the kernel.
    pub(super) suite: &'static str,
    /// Additional kernel parameters.
    pub(super) arguments: &'static str,
}

/// Machines, from the oldest kernel on Debian's mirrors.
pub(super) const MACHINES: [Machine; 5] = [
    Machine {
        name: "5.10",
        suite: "bullseye",
        arguments: "",
    },
    Machine {
        name: "6.1",
        suite: "bookworm",
        arguments: "",
    },
    Machine {
        name: "6.12",
        suite: "trixie",
        arguments: "",
    },
    Machine {
        name: "6.12-without-io_uring",
        suite: "trixie",
        arguments: "sysctl.kernel.io_uring_disabled=2",
    },
    // For comparison.
    Machine {
        name: "newest",
        suite: "trixie-backports",
        arguments: "",
    },
];

/// Debian suite of the busybox of all guests.
pub(super) const TOOLS: &str = "bookworm";

/// The package whose tests run, and its folder, in which they run.
pub(super) const PACKAGE: &str = "uthread";
pub(super) const PACKAGE_FOLDER: &str = "crates/uthread";

/// The program that diagnoses the machine, and its package.
pub(super) const DOCTOR: &str = "uthread";
pub(super) const DOCTOR_PACKAGE: &str = "uthread-cli";

/// The program of the library's unit tests.
pub(super) const UNIT_TESTS: &str = "lib";

/// The runs: a cargo target, and the filter for its tests.
pub(super) const RUNS: [(&str, &str); 9] = [
    (UNIT_TESTS, "driver::"),
    (UNIT_TESTS, "stack::"),
    ("drivers", ""),
    ("restrictions", ""),
    ("locked_memory", ""),
    ("few_descriptors", ""),
    ("kernel_polling", ""),
    ("io_polling", ""),
    ("behaviours", ""),
];

/// Environment variables of the tests.
pub(super) const ENVIRONMENT: [(&str, &str); 1] = [
    // More workers that wake up all the time leave an emulated CPU no time to start the next one.
    ("UTHREAD_SLEEPERS", "100"),
];

/// Parts of names of tests that are meaningless under emulation, with the reason.
pub(super) const LEFT_OUT: [(&str, &str); 6] = [
    (
        "fairness::",
        "measures shares of CPU time, which emulation does not provide",
    ),
    (
        "stalls::",
        "detects fibers that keep a worker for milliseconds, as all do under emulation",
    ),
    (
        "a_write_of_gigabytes_moves_what_the_kernel_takes_at_once",
        "needs more address space than a guest allows without the memory",
    ),
    (
        "an_idle_runtime_ends_each_sleep_within_a_millisecond",
        "an emulated CPU is too slow",
    ),
    (
        "sleeps_end_in_the_order_of_their_deadlines",
        "on CPUs that are later than the interval between the sleeps, two workers end them at the same time",
    ),
    (
        "conversions_take_timeouts_along",
        "the kernel counts a socket's timeout from its last tick, and emulated ticks are late",
    ),
];

/// Time limit of a run: twice the longest one. A hang fails the tests of its run only.
pub(super) const RUN_LIMIT: Duration = Duration::from_secs(44 * 60);

/// Time limit of a guest from power on to power off.
pub(super) const GUEST_LIMIT: Duration = Duration::from_secs(45 * 60);

/// Memory of a guest, which also holds its files.
pub(super) const GUEST_MEMORY_MIB: usize = 2048;
