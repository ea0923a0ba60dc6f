//! The checks of a generated header, and of the manual page with its functions, for the tests of each
//! package that has one.

use std::collections::BTreeSet;
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
    compare(&folder.join("include").join(header), &made);
}

/// Checks that the manual page of a library lists the functions of its header.
pub(crate) fn check_page(package: &str, header: &str, page: &str) {
    const BEGIN: &str = ".\\\" Written by the tests, from the header.\n";
    const END: &str = ".\\\" Until here.\n";
    let header = fs::read_to_string(Path::new(package).join("include").join(header)).unwrap();
    let path = Path::new(package).join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the start of the functions");
    let (_, after) = rest.split_once(END).expect("the end of the functions");
    let functions = Vec::from_iter(functions(&header)).join(",\n");
    compare(&path, &format!("{before}{BEGIN}{functions}.\n{END}{after}"));
}

/// Returns the names of the functions and macros with arguments that a header has.
pub(crate) fn functions(header: &str) -> BTreeSet<&str> {
    header
        .split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_' && byte != '(')
        .filter_map(|word| Some(word.split_once('(')?.0))
        .filter(|name| name.starts_with("uthread_"))
        // What the macros of `uthread.h` call.
        .filter(|name| !["uthread_cleanup_enter", "uthread_cleanup_leave"].contains(name))
        .collect()
}

/// Checks that a file has the text that was made, or writes it.
fn compare(path: &Path, made: &str) {
    if env::var_os("UTHREAD_WRITE_HEADER").is_some() {
        fs::write(path, made).unwrap();
    }
    let name = path.display();
    assert!(
        fs::read(path).unwrap() == made.as_bytes(),
        "run this test with UTHREAD_WRITE_HEADER=1, and commit {name}"
    );
}
