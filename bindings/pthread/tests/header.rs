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

/// The header that replaces the names of pthreads is written by hand.
#[test]
fn each_function_has_a_name_of_pthreads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let declared = fs::read_to_string(folder.join("uthread.h")).unwrap();
    let replaced = fs::read_to_string(folder.join("uthread_pthread.h")).unwrap();
    let functions: Vec<_> = declared
        .split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_' && byte != '(')
        .filter_map(|word| Some(word.split_once('(')?.0))
        .filter(|name| name.starts_with("uthread_"))
        .collect();
    assert!(functions.len() > 90, "{functions:?}");
    let names: Vec<_> = replaced
        .split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_')
        .collect();
    for function in functions {
        // What the macros of `uthread.h` call.
        let is_inner = ["uthread_cleanup_enter", "uthread_cleanup_leave"].contains(&function);
        assert!(is_inner || names.contains(&function), "{function}");
    }
}
