//! The check of a generated header, for the tests of each package that has one.

use std::path::Path;
use std::{env, fs};

/// Checks that a header of a package is what cbindgen makes of its sources. It is committed, so that
/// building a program takes no generator.
pub(crate) fn check(package: &str, header: &str) {
    let folder = Path::new(package);
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::generate_with_config(folder, config).unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    // `# Safety` is the heading that rustdoc and clippy know.
    let made = String::from_utf8(made)
        .unwrap()
        .replace(" # Safety\n", " Preconditions:\n");
    let path = folder.join("include").join(header);
    if env::var_os("UTHREAD_WRITE_HEADER").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let committed = fs::read(&path).unwrap();
    assert!(
        committed == made.as_bytes(),
        "run this test with UTHREAD_WRITE_HEADER=1, and commit the header"
    );
}
