//! The plan: crates with versions, and how to run their tests.

use std::time::Duration;

/// A published crate whose tests run.
pub(super) struct Crate {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// Features to build its tests with.
    pub(super) features: &'static [&'static str],
    /// True if its thread-locals become fiber-local.
    pub(super) locals: bool,
    /// False if the column [`FIBERS`] is the only one on fibers.
    pub(super) ported: bool,
    /// Files and folders in which threads become fibers for the column [`FIBERS`], and nothing
    /// else does; none if it is not run there.
    pub(super) threads: &'static [&'static str],
    /// Dependencies to port along with it, from [`DEPENDENCIES`].
    pub(super) with: &'static [&'static str],
    /// Packages to update, because the version in its lock file does not compile today.
    pub(super) updated: &'static [&'static str],
    /// Number of tests to run at once.
    pub(super) at_once: usize,
    /// Edits by hand, with reasons.
    pub(super) edits: &'static [Edit],
    /// The program that its tests run, and what they run instead on a driver. Such a crate is not
    /// ported.
    pub(super) behind: Option<Behind>,
}

/// A program that takes the place of another one.
pub(super) struct Behind {
    pub(super) name: &'static str,
    pub(super) subcommand: &'static str,
}

/// A replacement of text in a file.
pub(super) struct Edit {
    pub(super) file: &'static str,
    pub(super) old: &'static str,
    pub(super) new: &'static str,
    pub(super) reason: &'static str,
}

impl Crate {
    /// Returns true if it has this column of the table.
    pub(super) fn has_driver(&self, driver: &str) -> bool {
        match driver {
            STD => true,
            FIBERS => !self.threads.is_empty(),
            // Our own tests compare what `uthread` prints on each driver.
            _ if self.behind.is_some() => driver == "uring",
            _ => self.ported,
        }
    }
}

const fn plain(name: &'static str, version: &'static str) -> Crate {
    Crate {
        name,
        version,
        features: &[],
        locals: false,
        ported: true,
        threads: &[],
        with: &[],
        updated: &[],
        at_once: 2,
        edits: &[],
        behind: None,
    }
}

/// Describes a crate whose tests mostly sleep, so that more can run at once.
const fn asleep(name: &'static str, version: &'static str) -> Crate {
    Crate {
        at_once: 12,
        ..plain(name, version)
    }
}

/// Crates written for blocking `std`, published with tests that need no network beyond this
/// machine.
pub(super) const CRATES: [Crate; 27] = [
    Crate {
        locals: true,
        threads: &["src"],
        ..plain(STD_CRATE, "1.85.1")
    },
    Crate {
        threads: &["src"],
        ..asleep("threadpool", "1.8.1")
    },
    Crate {
        threads: &["src", "tests"],
        ..plain("scoped_threadpool", "0.1.9")
    },
    Crate {
        threads: &["src"],
        with: &["crossbeam-channel", "crossbeam-utils"],
        ..asleep("rusty_pool", "0.7.0")
    },
    plain("walkdir", "2.5.0"),
    plain("tempfile", "3.27.0"),
    plain("fs_extra", "1.3.0"),
    plain("filetime", "0.2.29"),
    plain("fslock", "0.2.1"),
    plain("tftpd", "1.0.0"),
    plain("ureq", "2.12.1"),
    plain("attohttpc", "0.31.0"),
    plain("suppaftp", "6.3.0"),
    Crate {
        updated: &["rustc-serialize"],
        ..plain("tiny_http", "0.12.0")
    },
    Crate {
        with: &["tiny_http"],
        ..plain("rouille", "3.6.2")
    },
    plain("tungstenite", "0.30.0"),
    plain("subprocess", "0.2.15"),
    Crate {
        with: &["os_pipe", "shared_child", "shared_thread"],
        ..plain("duct", "1.1.2")
    },
    plain("os_pipe", "1.2.3"),
    Crate {
        threads: &["src/lib.rs"],
        ..plain("shared_child", "1.1.2")
    },
    plain("parking", "2.2.1"),
    Crate {
        threads: &["tests"],
        ..plain("oneshot", "0.1.13")
    },
    Crate {
        threads: &["tests"],
        ..plain("kanal", "0.1.1")
    },
    Crate {
        threads: &["tests"],
        ..plain("flume", "0.11.1")
    },
    Crate {
        locals: true,
        threads: &["tests"],
        with: &["crossbeam-utils"],
        ..plain("crossbeam-channel", "0.5.17")
    },
    Crate {
        behind: Some(Behind {
            name: "rg",
            subcommand: "search",
        }),
        ..plain("ripgrep", "15.2.0")
    },
    Crate {
        ported: false,
        threads: &["src", "tests"],
        ..plain("parking_lot", "0.12.5")
    },
];

/// Crates to port along with others.
pub(super) const DEPENDENCIES: [Crate; 6] = [
    plain("tiny_http", "0.12.0"),
    plain("os_pipe", "1.2.3"),
    plain("shared_child", "1.1.2"),
    plain("shared_thread", "0.2.1"),
    Crate {
        locals: true,
        ..plain("crossbeam-channel", "0.5.17")
    },
    Crate {
        locals: true,
        threads: &["src/thread.rs"],
        edits: &[Edit {
            file: "src/thread.rs",
            old: "#[cfg(unix)]",
            new: "#[cfg(any())]",
            reason: "an extension of its scopes returns a pthread_t, which a fiber does not have",
        }],
        ..plain("crossbeam-utils", "0.8.23")
    },
];

/// Name of the standard library's own tests in the table.
pub(super) const STD_CRATE: &str = "std-tests";

/// Debian suite of the package `rust-src`.
pub(super) const STD_SUITE: &str = "trixie";

/// Their dependencies.
pub(super) const STD_DEPENDENCIES: &str = "rand = \"0.8.5\"\nrand_xorshift = \"0.3.0\"\n";

/// Files of tests, by their folders in `library/std/src`, with the module that each knows as
/// `super`.
pub(super) const STD_TESTS: [(&str, &str); 25] = [
    ("fs", "std::fs"),
    ("io/buffered", "std::io"),
    ("io/copy", "std::io"),
    ("io/cursor", "std::io"),
    ("io/stdio", "std::io"),
    ("io", "std::io"),
    ("io/util", "std::io"),
    ("net/ip_addr", "std::net"),
    ("net/socket_addr", "std::net"),
    ("net/tcp", "std::net"),
    ("net/udp", "std::net"),
    ("os/unix/fs", "std::os::unix::fs"),
    ("os/unix/net", "std::os::unix::net"),
    ("process", "std::process"),
    ("sync/barrier", "std::sync"),
    ("sync/lazy_lock", "std::sync"),
    ("sync/mpsc", "std::sync::mpsc"),
    ("sync/once_lock", "std::sync"),
    ("sync/poison/condvar", "std::sync"),
    ("sync/poison/mutex", "std::sync"),
    ("sync/poison/once", "std::sync"),
    ("sync/poison/rwlock", "std::sync"),
    ("thread/local", "std::thread"),
    ("thread", "std::thread"),
    ("time", "std::time"),
];

/// Columns of the table: the unchanged crate, its port on each driver, and the crate of which only
/// threads became fibers.
pub(super) const DRIVERS: [&str; 5] = [STD, "uring", "epoll", "threads", FIBERS];

/// Column of the unchanged crate.
pub(super) const STD: &str = "std";

/// Column of the crate of which only threads became fibers, on the driver `uring`.
pub(super) const FIBERS: &str = "fibers";

/// Time limit of a test: some exchange 100,000 messages without optimization.
pub(super) const TEST_LIMIT: Duration = Duration::from_secs(60);

/// Number of runs of a failing test, unless it hangs: one that then passes is unsteady.
pub(super) const TRIES: usize = 2;

/// Number of cargo's jobs.
pub(super) const JOBS: &str = "2";
