//! What runs where: the kernels, and the tests that each of them sees.

use std::time::Duration;

/// A kernel, started in one way.
pub(super) struct Machine {
    pub(super) name: &'static str,
    /// The suite of Debian whose kernel it is.
    pub(super) suite: &'static str,
    /// Added to the command line of the kernel.
    pub(super) arguments: &'static str,
}

/// From the oldest that Debian's mirrors still have.
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

/// The suite of Debian whose busybox all guests have.
pub(super) const TOOLS: &str = "bookworm";

/// The package whose tests run, and its folder, in which they run.
pub(super) const PACKAGE: &str = "uthread";
pub(super) const PACKAGE_FOLDER: &str = "crates/uthread";

/// The program that tells what the library finds, and its package.
pub(super) const DOCTOR: &str = "uthread";
pub(super) const DOCTOR_PACKAGE: &str = "uthread-cli";

/// The program of the library's unit tests.
pub(super) const UNIT_TESTS: &str = "lib";

/// The runs, each a program, by the target that cargo builds it of, and the filter by which it finds its tests.
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

/// What the tests find in their environment.
pub(super) const ENVIRONMENT: [(&str, &str); 1] = [
    // More that wake up all the time leave an emulated CPU no time to start the next.
    ("UTHREAD_SLEEPERS", "100"),
];

/// What the names of tests have in common that say nothing here, each with the reason.
pub(super) const LEFT_OUT: [(&str, &str); 6] = [
    (
        "fairness::",
        "about shares of a CPU, of which emulation has none to give",
    ),
    (
        "stalls::",
        "about fibers that keep a worker for milliseconds, as here all do",
    ),
    (
        "a_write_of_gigabytes_moves_what_the_kernel_takes_at_once",
        "takes more addresses than a guest gives without the memory",
    ),
    (
        "an_idle_runtime_ends_each_sleep_within_a_millisecond",
        "an emulated CPU is late itself",
    ),
    (
        "sleeps_end_in_the_order_of_their_deadlines",
        "where CPUs are later than the sleeps are apart, two workers end them at once",
    ),
    (
        "conversions_take_timeouts_along",
        "the kernel counts a socket's timeout from its last tick, and emulated ticks are late",
    ),
];

/// How long one run may take: twice what the longest took. A hang costs its tests, not those of the next.
pub(super) const RUN_LIMIT: Duration = Duration::from_secs(44 * 60);

/// How long a guest may take from power on to power off.
pub(super) const GUEST_LIMIT: Duration = Duration::from_secs(45 * 60);

/// The memory of a guest: the files live in it too.
pub(super) const GUEST_MEMORY_MIB: usize = 2048;
