//! Paths that are served, and paths that never are.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::harness::{Program, site};

#[test]
fn names_are_decoded_once() {
    let program = Program::serve(
        &[
            ("a b", "space"),
            ("a%20b", "percent"),
            ("\u{e9}", "accent"),
            ("a\\b", "backslash"),
            ("sub/c", "c"),
        ],
        &[],
    );
    for (path, expected) in [
        ("/a%20b", "space"),
        ("/a%2520b", "percent"),
        ("/%C3%A9", "accent"),
        ("/a\\b", "backslash"),
        ("/a%5Cb", "backslash"),
        ("//sub///c", "c"),
        ("/sub/c?../../x", "c"),
        ("http://elsewhere/sub/c", "c"),
    ] {
        let response = program.get(path);
        assert_eq!(
            (response.status, response.text()),
            (200, expected),
            "{path}"
        );
    }
}

#[test]
fn refused_names() {
    let files = [
        ("a", "a"),
        (".git/config", "x"),
        ("sub/.env", "x"),
        (".well-known/b", "b"),
    ];
    let program = Program::serve(&files, &[]);
    for (path, status) in [
        ("/../a", 400),
        ("/sub/../a", 400),
        ("/%2e%2e/a", 400),
        ("/..%2fa", 400),
        ("/sub%2Fx", 400),
        ("/a%00", 400),
        ("/a%", 400),
        ("/a%zz", 400),
        ("/.git/config", 404),
        ("/%2Egit/config", 404),
        ("/sub/.env", 404),
        ("/a/", 404),
        ("/a/b", 404),
        ("/.well-known/b", 200),
    ] {
        assert_eq!(program.get(path).status, status, "{path}");
    }
    let long = format!("/{}", "x".repeat(5000));
    assert_eq!(program.get(&long).status, 404);
}

#[test]
fn symbolic_links_stay_inside() {
    let outside = site(&[("secret", "secret")]);
    let inside = site(&[("a", "a"), ("sub/", "")]);
    let dir = inside.path();
    symlink(outside.path().join("secret"), dir.join("absolute")).unwrap();
    symlink(outside.path(), dir.join("away")).unwrap();
    symlink("../../../../../../../../etc/passwd", dir.join("sub/climb")).unwrap();
    symlink("/proc/self/root", dir.join("magic")).unwrap();
    symlink("../a", dir.join("sub/fine")).unwrap();
    symlink("loop", dir.join("loop")).unwrap();
    let program = Program::serve_site(inside, &[]);
    for path in [
        "/absolute",
        "/away/secret",
        "/away/",
        "/sub/climb",
        "/magic/etc/passwd",
        "/loop",
    ] {
        let response = program.get(path);
        assert_eq!(response.status, 404, "{path}");
        assert!(!response.text().contains("secret"));
    }
    assert_eq!(program.get("/sub/fine").text(), "a");
    let listing = program.get("/");
    assert!(!listing.text().contains("absolute") && !listing.text().contains("magic"));
}

#[test]
fn special_files_are_refused_without_waiting() {
    let inside = site(&[]);
    mknodat(
        CWD,
        inside.path().join("fifo"),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(inside.path().join("socket")).unwrap();
    let program = Program::serve_site(inside, &[]);
    assert_eq!(program.get("/fifo").status, 403);
    assert_eq!(program.get("/socket").status, 403);
}

#[test]
fn unreadable_files_are_forbidden() {
    if rustix::process::geteuid().is_root() {
        // Root may read everything.
        return;
    }
    let program = Program::serve(&[("a", "a")], &[]);
    fs::set_permissions(program.dir().join("a"), Permissions::from_mode(0o000)).unwrap();
    assert_eq!(program.get("/a").status, 403);
}

#[test]
fn directories_get_their_slash_and_lead_nowhere_else() {
    let program = Program::serve(
        &[("sub/index.html", "index"), ("evil/a", "a"), ("a b/", "")],
        &[],
    );
    for (path, location) in [
        ("/sub", "/sub/"),
        ("/sub?q=1&r", "/sub/?q=1&r"),
        ("//evil", "/evil/"),
        ("http://x//evil", "/evil/"),
        ("/a%20b", "/a%20b/"),
    ] {
        let response = program.get(path);
        assert_eq!(
            (response.status, response.field("location")),
            (301, Some(location)),
            "{path}"
        );
    }
    assert_eq!(program.get("/sub/").text(), "index");
}
