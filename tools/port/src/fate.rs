//! Decides which paths of `std` to replace, and what to say about paths that stay.
//!
//! The modules and items are those in the chapter `items` of the library's guide.

/// How porting treats a path that begins with `std`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Replace it: `uthread` has the same name.
    Ours,
    /// Keep it; it needs no attention.
    Std,
    /// Keep it, and tell the user why it needs attention.
    Left(&'static str),
}

/// Modules that `uthread` replaces completely.
const MODULES: [&str; 7] = ["net", "fs", "io", "sync", "thread", "time", "process"];

const DEPRECATED: &str = "uthread lacks it, because it is deprecated";
const WHOLE: &str = "it contains modules of both crates: write `uthread` for its modules";
const INHERENT: &str = "uthread's types have these methods without a trait: delete the import";
const NO_PTHREAD: &str = "a fiber has no pthread_t";

/// Decisions for a whole path or its beginning; the first match counts.
const EXCEPTIONS: [(&str, Fate); 18] = [
    ("thread::sleep_ms", Fate::Left(DEPRECATED)),
    ("thread::park_timeout_ms", Fate::Left(DEPRECATED)),
    ("sync::ONCE_INIT", Fate::Left(DEPRECATED)),
    (
        "os::unix::fs::chroot",
        Fate::Left("it never blocks, so keep using std's"),
    ),
    ("os::unix::net", Fate::Ours),
    ("os::unix::fs", Fate::Ours),
    ("os::unix::process::CommandExt", Fate::Left(INHERENT)),
    ("os::unix::thread", Fate::Left(NO_PTHREAD)),
    ("os::linux::net::TcpStreamExt", Fate::Left(INHERENT)),
    (
        "os::linux::process",
        Fate::Left("uthread::process has pidfds of its own"),
    ),
    (
        "thread_local",
        Fate::Left("to give each fiber its own value, import `uthread::local` and declare with it"),
    ),
    ("os::unix::*", Fate::Left(WHOLE)),
    // Paths below these that are not named above stay without a note.
    ("os::unix::", Fate::Std),
    ("os::linux::", Fate::Std),
    ("os::fd", Fate::Std),
    ("os::raw", Fate::Std),
    ("os::windows", Fate::Std),
    ("os::wasi", Fate::Std),
];

/// Decides about the path with these segments after `std`; `*` stands for a glob.
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
