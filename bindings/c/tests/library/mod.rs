//! The library that a test links its programs with, for the tests of each package that has one.

use std::env;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Returns arguments of the linker for the library that cargo has built with this test, and gives it
/// the name in `folder` by which programs load it.
pub(crate) fn arguments(name: &str, folder: &Path) -> [String; 3] {
    let built = env::current_exe().unwrap();
    let libraries = built.parent().unwrap();
    let file = format!("lib{name}.so");
    let loaded = format!("{file}.{}", env!("CARGO_PKG_VERSION_MAJOR"));
    // Several programs of a test share a folder.
    let _ = symlink(libraries.join(file), folder.join(loaded));
    [
        format!("-L{}", libraries.display()),
        format!("-l{name}"),
        // Before the paths of cargo, where an older build of the library may be.
        format!("-Wl,--disable-new-dtags,-rpath,{}", folder.display()),
    ]
}
