//! Tells a release build which commit it is of: who measures may have gone on to another one since.

use std::path::Path;
use std::process::Command;

/// The sources that a report is measured with, relative to this folder.
const SOURCES: [&str; 4] = [
    "src",
    "../../crates/uthread/src",
    "../../tools/load/src",
    "../peers",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A debug build measures nothing, and need not be made again after each commit.
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
