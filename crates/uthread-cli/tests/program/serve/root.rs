//! The served directory is the one that the path of the command line leads to, at any time.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use crate::harness::{Program, command, site};

#[test]
fn a_switched_link_leads_to_the_new_release() {
    let site = site(&[("rel1/a", "one"), ("rel2/a", "two"), ("rel2/b", "new")]);
    let current = site.path().join("current");
    symlink("rel1", &current).unwrap();
    let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--log", "off"]);
    // The path is relative to the directory that the server was started in.
    let program = Program::serving(command.arg("current").current_dir(site.path()));
    assert_eq!(program.get("/a").text(), "one");
    assert_eq!(program.get("/b").status, 404);
    symlink("rel2", site.path().join("next")).unwrap();
    fs::rename(site.path().join("next"), &current).unwrap();
    assert_eq!(program.get("/a").text(), "two");
    assert_eq!(program.get("/b").text(), "new");
    fs::remove_file(&current).unwrap();
    for path in ["/", "/a"] {
        assert_eq!(program.get(path).status, 404, "{path}");
    }
    symlink("rel1", &current).unwrap();
    assert_eq!(program.get("/a").text(), "one");
}

#[test]
fn a_directory_that_was_built_anew_is_served() {
    let site = site(&[("dist/a", "one")]);
    let dist = site.path().join("dist");
    for arguments in [&["."][..], &[]] {
        let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--log", "off"]);
        command.args(arguments).stdin(Stdio::null());
        let program = Program::serving(command.current_dir(&dist));
        fs::write(dist.join("a"), "one").unwrap();
        assert_eq!(program.get("/a").text(), "one");
        fs::remove_dir_all(&dist).unwrap();
        for path in ["/", "/a"] {
            assert_eq!(program.get(path).status, 404, "{path}");
        }
        fs::create_dir(&dist).unwrap();
        fs::write(dist.join("b"), "two").unwrap();
        assert!(program.get("/").text().contains(">b</a>"));
        assert_eq!(program.get("/b").text(), "two");
        assert_eq!(program.get("/a").status, 404);
    }
}
