//! Decides which paths of `std` to replace, and what to say about paths that stay.
//!
//! The modules and items are those in the chapter `items` of the library's guide.

/// How porting treats a path that begins with `std`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
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
const EXCEPTIONS: [(&str, Decision); 18] = [
    ("thread::sleep_ms", Decision::Left(DEPRECATED)),
    ("thread::park_timeout_ms", Decision::Left(DEPRECATED)),
    ("sync::ONCE_INIT", Decision::Left(DEPRECATED)),
    (
        "os::unix::fs::chroot",
        Decision::Left("it never blocks, so keep using std's"),
    ),
    ("os::unix::net", Decision::Ours),
    ("os::unix::fs", Decision::Ours),
    ("os::unix::process::CommandExt", Decision::Left(INHERENT)),
    ("os::unix::thread", Decision::Left(NO_PTHREAD)),
    ("os::linux::net::TcpStreamExt", Decision::Left(INHERENT)),
    (
        "os::linux::process",
        Decision::Left("uthread::process has pidfds of its own"),
    ),
    (
        "thread_local",
        Decision::Left(
            "to give each fiber its own value, import `uthread::local` and declare with it",
        ),
    ),
    ("os::unix::*", Decision::Left(WHOLE)),
    // Paths below these that are not named above stay without a note.
    ("os::unix::", Decision::Std),
    ("os::linux::", Decision::Std),
    ("os::fd", Decision::Std),
    ("os::raw", Decision::Std),
    ("os::windows", Decision::Std),
    ("os::wasi", Decision::Std),
];

/// Decides about the path with these segments after `std`; `*` stands for a glob.
pub(super) fn decide(segments: &[&str]) -> Decision {
    let path = segments.join("::");
    let fits = |name: &str| {
        let rest = path.strip_prefix(name);
        rest.is_some_and(|rest| name.ends_with(':') || rest.is_empty() || rest.starts_with("::"))
    };
    if let Some((_, decision)) = EXCEPTIONS.iter().find(|(name, _)| fits(name)) {
        return *decision;
    }
    match segments {
        [] | ["*"] | ["os"] | ["os", "unix" | "*"] => Decision::Left(WHOLE),
        [module, ..] if MODULES.contains(module) => Decision::Ours,
        _ => Decision::Std,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_replaced_or_left() {
        let check = |path: &str, expected: Decision| {
            let segments: Vec<_> = path.split("::").filter(|name| !name.is_empty()).collect();
            assert_eq!(decide(&segments), expected, "{path}");
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
            check(path, Decision::Ours);
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
            check(path, Decision::Std);
        }
        for path in ["", "*", "os", "os::*", "os::unix", "os::unix::*"] {
            check(path, Decision::Left(WHOLE));
        }
        check("thread::sleep_ms", Decision::Left(DEPRECATED));
        check("os::unix::process::CommandExt", Decision::Left(INHERENT));
        check(
            "os::unix::thread::JoinHandleExt",
            Decision::Left(NO_PTHREAD),
        );
        assert!(matches!(
            decide(&["os", "unix", "fs", "chroot"]),
            Decision::Left(_)
        ));
    }
}
