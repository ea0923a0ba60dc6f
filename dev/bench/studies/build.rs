//! Passes the commit to a release build, as the repository may have moved on by the time of a
//! measurement.

use std::path::Path;
use std::process::Command;

/// Sources of everything that a report measures, from this folder.
const SOURCES: [&str; 6] = [
    "src",
    "../../../crates/uthread/src",
    "../../../crates/uthread-iobench/src",
    "../../../crates/uthread-load/src",
    "../../../crates/uthread-report/src",
    "../peers",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A debug build measures nothing and is not rebuilt after each commit.
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    if let Some(commit) = git(&["describe", "--always", "--dirty"]) {
        println!("cargo::rustc-env=UTHREAD_COMMIT={commit}");
    }
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    let log = log.filter(|log| Path::new(log).exists());
    for path in SOURCES.into_iter().chain(log.as_deref()) {
        println!("cargo::rerun-if-changed={path}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
