//! The headers say what the functions take.

#[path = "../../c/tests/generated/mod.rs"]
mod generated;

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_that_of_the_functions() {
    generated::check(env!("CARGO_MANIFEST_DIR"), "uthread.h");
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
