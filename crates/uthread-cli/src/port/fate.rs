//! Which paths of `std` a port replaces, and what to do about those that it leaves.
//!
//! The modules and their items are those of the chapter `items` in the library's guide.

/// What a port does with a path that begins with `std`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// `uthread` has it by the same name.
    Ours,
    /// It stays, and needs no attention.
    Std,
    /// It stays, and its user has to look at it.
    Left(&'static str),
}

/// The modules that `uthread` has whole.
const MODULES: [&str; 7] = ["net", "fs", "io", "sync", "thread", "time", "process"];

const DEPRECATED: &str = "uthread lacks it, as it is deprecated";
const WHOLE: &str = "it names modules of both: write `uthread` where its modules are meant";
const INHERENT: &str = "on the types of uthread its methods need no trait: delete the import";
const NO_PTHREAD: &str = "a fiber has no pthread_t";

/// What a name as a whole path, or as the beginning of one, means; the first line that fits counts.
const EXCEPTIONS: [(&str, Fate); 18] = [
    ("thread::sleep_ms", Fate::Left(DEPRECATED)),
    ("thread::park_timeout_ms", Fate::Left(DEPRECATED)),
    ("sync::ONCE_INIT", Fate::Left(DEPRECATED)),
    (
        "os::unix::fs::chroot",
        Fate::Left("it changes the process and waits for nothing: std's serves"),
    ),
    ("os::unix::net", Fate::Ours),
    ("os::unix::fs", Fate::Ours),
    ("os::unix::process::CommandExt", Fate::Left(INHERENT)),
    ("os::unix::thread", Fate::Left(NO_PTHREAD)),
    ("os::linux::net::TcpStreamExt", Fate::Left(INHERENT)),
    (
        "os::linux::process",
        Fate::Left("uthread::process knows its children by pidfds of its own"),
    ),
    (
        "thread_local",
        Fate::Left("import `uthread::local` and declare with it, where each fiber needs a value"),
    ),
    ("os::unix::*", Fate::Left(WHOLE)),
    // What is below these and not named above stays without a note.
    ("os::unix::", Fate::Std),
    ("os::linux::", Fate::Std),
    ("os::fd", Fate::Std),
    ("os::raw", Fate::Std),
    ("os::windows", Fate::Std),
    ("os::wasi", Fate::Std),
];

/// What becomes of the path with these segments behind `std`; `*` stands for a glob.
pub(super) fn fate(segments: &[&str]) -> Fate {
    let path = segments.join("::");
    let fits = |name: &str| {
        let rest = path.strip_prefix(name);
        rest.is_some_and(|rest| name.ends_with(':') || rest.is_empty() || rest.starts_with("::"))
    };
    if let Some((_, fate)) = EXCEPTIONS.iter().find(|(name, _)| fits(name)) {
        return *fate;
    }
    match segments {
        [] | ["*"] | ["os"] | ["os", "unix" | "*"] => Fate::Left(WHOLE),
        [module, ..] if MODULES.contains(module) => Fate::Ours,
        _ => Fate::Std,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_their_fates() {
        let check = |path: &str, expected: Fate| {
            let segments: Vec<_> = path.split("::").filter(|name| !name.is_empty()).collect();
            assert_eq!(fate(&segments), expected, "{path}");
        };
        for path in [
            "io",
            "io::Read",
            "io::*",
            "sync::atomic::AtomicBool",
            "thread::LocalKey",
            "os::unix::net::UnixStream",
            "os::unix::fs::*",
            "os::unix::fs",
        ] {
            check(path, Fate::Ours);
        }
        for path in [
            "collections::HashMap",
            "iot",
            "os::unix::io::AsRawFd",
            "os::unix::process::ExitStatusExt",
            "os::unix::prelude::*",
            "os::fd",
            "os::windows::fs",
            "thread_locals",
        ] {
            check(path, Fate::Std);
        }
        for path in ["", "*", "os", "os::*", "os::unix", "os::unix::*"] {
            check(path, Fate::Left(WHOLE));
        }
        check("thread::sleep_ms", Fate::Left(DEPRECATED));
        check("os::unix::process::CommandExt", Fate::Left(INHERENT));
        check("os::unix::thread::JoinHandleExt", Fate::Left(NO_PTHREAD));
        assert!(matches!(
            fate(&["os", "unix", "fs", "chroot"]),
            Fate::Left(_)
        ));
    }
}
