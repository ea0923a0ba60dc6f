//! Tests of porting as data: source text and expected result.

use super::file::{Note, Options, Ported, port};

/// Expects a text after porting, and no change when porting again.
#[track_caller]
fn check(options: Options, source: &str, expected: &str) -> Vec<Note> {
    let Ported {
        text,
        changes,
        notes,
    } = port(source, options);
    assert_eq!(text, expected);
    assert_eq!(changes > 0, source != expected);
    let again = port(expected, options);
    assert_eq!((again.text.as_str(), again.changes), (expected, 0));
    notes
}

/// Expects a text after porting, and no notes.
#[track_caller]
fn becomes(source: &str, expected: &str) {
    assert_eq!(check(Options::default(), source, expected), []);
}

#[track_caller]
fn stays(source: &str) {
    becomes(source, source);
}

/// Expects notes on these paths in these lines.
#[track_caller]
fn notes(source: &str, expected: &[(usize, &str)]) {
    let found = port(source, Options::default()).notes;
    let found: Vec<_> = found.iter().map(|it| (it.line, it.what.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_path_of_ours_is_replaced_wherever_it_stands() {
    for (source, expected) in [
        ("use std::io;", "use uthread::io;"),
        (
            "pub use std::io::{self, Read as R};",
            "pub use uthread::io::{self, Read as R};",
        ),
        ("use ::std::sync::*;", "use ::uthread::sync::*;"),
        ("use std :: fs :: File;", "use uthread :: fs :: File;"),
        ("use std::time as t;", "use uthread::time as t;"),
        (
            "use std::os::unix::net::UnixStream;",
            "use uthread::os::unix::net::UnixStream;",
        ),
        (
            "use std::os::unix::{fs, net};",
            "use uthread::os::unix::{fs, net};",
        ),
        (
            "fn f() -> ::std::io::Result<()> {}",
            "fn f() -> ::uthread::io::Result<()> {}",
        ),
        (
            "impl std::io::Read for A {}",
            "impl uthread::io::Read for A {}",
        ),
        (
            "impl<T> ::std::io::Read for A<T> {}",
            "impl<T> ::uthread::io::Read for A<T> {}",
        ),
        (
            "type A = <B as ::std::io::Read>::C;",
            "type A = <B as ::uthread::io::Read>::C;",
        ),
        (
            "fn f() { std::thread::spawn(g) }",
            "fn f() { uthread::thread::spawn(g) }",
        ),
        (
            "macro_rules! m { () => { ::std::io::stdin() } }",
            "macro_rules! m { () => { ::uthread::io::stdin() } }",
        ),
        ("mod a { use std::fs; }", "mod a { use uthread::fs; }"),
        ("\u{feff}use std::fs;\r\n", "\u{feff}use uthread::fs;\r\n"),
    ] {
        becomes(source, expected);
    }
}

#[test]
fn other_code_stays() {
    for source in [
        "use std::collections::HashMap;",
        "use std::{fmt, ops::{Deref, DerefMut}};",
        "use std::os::unix::io::AsRawFd;",
        "use std::os::unix::{ffi::OsStrExt, process::ExitStatusExt};",
        "use crate::std::io;",
        "use self::{std::io, b};",
        "fn f() { crate::std::io::a(); $crate::std::io::b(); $std::io::c() }",
        "extern crate std;",
        "mod std { pub mod io {} }",
        "use core::time::Duration; use alloc::sync::Arc; use tokio::net::TcpStream;",
        "fn f<'a>() -> impl Sized + use<'a> {}",
        "// use std::io;\n/* std::io */ const A: &str = \"std::io\"; const B: &str = r#\"std::io\"#;",
        "//! use std::io;\n/// std::io::Read\n/** std::io */ struct A;",
    ] {
        stays(source);
    }
}

#[test]
fn imports_of_both_become_two() {
    for (source, expected) in [
        (
            "use std::{io, net::TcpStream, collections::HashMap};",
            "use std::collections::HashMap;\nuse uthread::{io, net::TcpStream};",
        ),
        (
            "use std::{fmt, io::{self, Read}};",
            "use std::fmt;\nuse uthread::io::{self, Read};",
        ),
        (
            "use std::{io::{self}, fmt::{self}};",
            "use std::fmt::{self};\nuse uthread::io::{self};",
        ),
        (
            "use std::{fmt, os::unix::{ffi::OsStrExt as _, net::{UnixStream as Stream, UnixListener}}, sync::{Arc, atomic::*}};",
            "use std::{fmt, os::unix::ffi::OsStrExt as _};\nuse uthread::{os::unix::net::{UnixStream as Stream, UnixListener}, sync::{Arc, atomic::*}};",
        ),
        (
            "use ::std::{fmt, io};",
            "use ::std::fmt;\nuse ::uthread::io;",
        ),
        (
            "mod a {\n    #[cfg(unix)]\n    pub(crate) use std::{fmt, io};\n}",
            "mod a {\n    #[cfg(unix)]\n    pub(crate) use std::fmt;\n    #[cfg(unix)]\n    pub(crate) use uthread::io;\n}",
        ),
        (
            "/// Doc.\n#[a([b])] #[c] pub use std::{fmt, io};",
            "/// Doc.\n#[a([b])] #[c] pub use std::fmt;\n#[a([b])] #[c] pub use uthread::io;",
        ),
        (
            "use {std::{fmt, io}, a::b, std::fs};",
            "use {std::fmt, uthread::io, a::b, uthread::fs};",
        ),
    ] {
        becomes(source, expected);
    }
}

#[test]
fn comments_in_a_group_stay_with_their_elements() {
    becomes(
        "use std::{\n    // The map { of all.\n    collections::HashMap,\n    io, // } ours\n    fmt, /* the end */\n};\n",
        "use std::{\n    // The map { of all.\n    collections::HashMap,  // } ours\n    fmt/* the end */};\nuse uthread::io;\n",
    );
    becomes(
        "use std::{\n    fmt, // why\n    io // ours\n};",
        "use std::fmt;\nuse uthread::{ // why\n    io // ours\n};",
    );
}

#[test]
fn code_that_needs_a_look_is_noted() {
    notes("use std::*;\nuse std as s;", &[(1, "std::*"), (2, "std")]);
    notes("use std::{self, fmt};", &[(1, "std")]);
    notes(
        "use std::{\n    fmt,\n    os::unix::process::CommandExt,\n};",
        &[(3, "std::os::unix::process::CommandExt")],
    );
    notes(
        "\nfn f() { std::thread::sleep_ms(1) }",
        &[(2, "std::thread::sleep_ms")],
    );
    notes(
        "thread_local! { static A: u8 = 0; }",
        &[(1, "thread_local!")],
    );
    notes(
        "std::thread_local!(static A: u8 = 0);",
        &[(1, "thread_local!")],
    );
    notes("fn f( {", &[(1, "the file")]);
    let source = "use std::{fmt, sync::{Arc, ONCE_INIT}};";
    let expected = "use std::{fmt, sync::ONCE_INIT};\nuse uthread::sync::Arc;";
    let left = check(Options::default(), source, expected);
    assert_eq!(
        (left.len(), left[0].what.as_str()),
        (1, "std::sync::ONCE_INIT")
    );
}

#[test]
fn locals_take_the_place_of_thread_locals() {
    let options = Options {
        locals: true,
        ..Options::default()
    };
    for (source, expected) in [
        (
            "thread_local!(static A: u8 = 0);",
            "uthread::local!(static A: u8 = 0);",
        ),
        (
            "std::thread_local! { static A: u8 = 0 }",
            "uthread::local! { static A: u8 = 0 }",
        ),
        (
            "fn f(_: &'static std::thread::LocalKey<u8>) {}",
            "fn f(_: &'static uthread::local::Key<u8>) {}",
        ),
        (
            "macro_rules! thread_local { () => {} }",
            "macro_rules! thread_local { () => {} }",
        ),
        ("crate::thread_local!(a);", "crate::thread_local!(a);"),
    ] {
        assert_eq!(check(options, source, expected), []);
    }
}

#[test]
fn main_and_tests_run_in_fibers() {
    let options = Options {
        main: true,
        tests: true,
        locals: false,
    };
    for (source, expected) in [
        ("fn main() {}", "#[uthread::main]\nfn main() {}"),
        (
            "/// A.\n#[a]\npub fn main() {}",
            "/// A.\n#[a]\n#[uthread::main]\npub fn main() {}",
        ),
        (
            "#[uthread::main(workers = 2)]\n#[a]\npub(crate) fn main() {}",
            "#[uthread::main(workers = 2)]\n#[a]\npub(crate) fn main() {}",
        ),
        (
            "async fn main() {} mod a { fn main() {} } fn main_2() {}",
            "async fn main() {} mod a { fn main() {} } fn main_2() {}",
        ),
        (
            "#[test]\n#[should_panic]\nfn a() {}",
            "#[uthread::test]\n#[should_panic]\nfn a() {}",
        ),
        (
            "#[cfg(test)]\nmod tests { #[test] fn a() {} }",
            "#[cfg(test)]\nmod tests { #[uthread::test] fn a() {} }",
        ),
    ] {
        assert_eq!(check(options, source, expected), []);
    }
}
