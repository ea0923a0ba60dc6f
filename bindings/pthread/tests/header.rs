//! The header says what the functions take. It is committed, so that building a program takes no
//! generator.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_header_is_that_of_the_functions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::generate_with_config(folder, config).unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    // `# Safety` is the heading that rustdoc and clippy know.
    let made = String::from_utf8(made)
        .unwrap()
        .replace(" # Safety\n", " Preconditions:\n");
    let path = folder.join("include/uthread.h");
    if env::var_os("UTHREAD_WRITE_HEADER").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let committed = fs::read(&path).unwrap_or_default();
    assert!(
        committed == made.as_bytes(),
        "run this test with UTHREAD_WRITE_HEADER=1, and commit the header"
    );
}
