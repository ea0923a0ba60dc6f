//! Tests in processes of their own: for what belongs to a whole process, or ends it.

use std::env;
use std::process::{Command, Output, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};

/// Set for a child; says which test it is to be.
const CHILD: &str = "UTHREAD_TEST_CHILD";

/// Repeats the calling test, given by its name, in a process of its own and returns what came of
/// it; `None` in that process, which then does what is to be watched.
pub(crate) fn child(test: &str) -> Option<Output> {
    if env::var(CHILD).is_ok_and(|name| name == test) {
        // What is meant to crash leaves no core file.
        setrlimit(
            Resource::Core,
            Rlimit {
                current: Some(0),
                maximum: Some(0),
            },
        )
        .unwrap();
        return None;
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Some(output)
}

/// The same for a test that has to pass there.
pub(crate) fn passes_in_child(test: &str) -> bool {
    let Some(output) = child(test) else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    true
}
