//! The headers say what the functions take.

#[path = "../../c/tests/generated/mod.rs"]
mod generated;

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_that_of_the_functions() {
    generated::check(env!("CARGO_MANIFEST_DIR"), "uthread.h");
    generated::check_page(env!("CARGO_MANIFEST_DIR"), "uthread.h", "uthread_pthread.7");
}

/// The differences from pthreads are in the manual page and in the README.
#[test]
fn the_page_and_the_readme_have_the_same_differences() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let differences = |file, begin, item, end| {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        let (_, text) = text.split_once(begin).unwrap();
        let (text, _) = text.split_once(end).unwrap();
        let plain = text.replace(['`', '\\'], "");
        let items = plain.split(item).skip(1).map(|item| {
            let words = Vec::from_iter(item.split_whitespace());
            words.join(" ")
        });
        Vec::from_iter(items)
    };
    let page = differences("uthread_pthread.7", ".SH DIFFERENCES", ".IP (bu 2\n", ".SH");
    let readme = differences("README.md", "Different from pthreads:", "\n- ", "\n\nThe ");
    assert_eq!(page, readme);
    assert!(page.len() > 4);
}

/// The header that replaces the names of pthreads is written by hand.
#[test]
fn each_function_has_a_name_of_pthreads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let declared = fs::read_to_string(folder.join("uthread.h")).unwrap();
    let replaced = fs::read_to_string(folder.join("uthread_pthread.h")).unwrap();
    let functions = generated::functions(&declared);
    assert!(functions.len() > 90, "{functions:?}");
    let names: Vec<_> = replaced
        .split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_')
        .collect();
    for function in functions {
        assert!(names.contains(&function), "{function}");
    }
}
