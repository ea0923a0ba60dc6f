//! Directories: their entries, metadata, and paths that must not lead out of one.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tempfile::{TempDir, tempdir};
use uthread::fs::{self, Dir, File, OpenOptions};

behaviours![(
    EVERYWHERE,
    [
        every_entry_is_there_once_however_many_there_are,
        an_entry_has_its_name_path_type_and_metadata,
        an_entry_removed_since_has_no_metadata,
        an_entry_is_known_also_when_its_directory_has_another_name,
        files_cannot_be_read_as_directories,
        names_need_not_be_text,
        metadata_follows_links_and_symlink_metadata_does_not,
        a_path_that_stays_inside_is_opened,
        a_path_that_leads_out_is_refused,
        links_of_proc_are_not_followed,
        options_hold_beneath_a_directory_as_elsewhere,
        a_directory_stays_open_when_it_is_renamed,
        a_deep_tree_is_walked_from_its_root,
        a_tree_that_changes_meanwhile_never_leads_out
    ]
)];

/// Opens beneath a directory. The kernel gives up a path with `..` while anything anywhere is
/// renamed, as one of these tests does, and leaves it to the caller to try again.
fn open_beneath(dir: &Dir, path: impl AsRef<Path>, options: &OpenOptions) -> io::Result<File> {
    loop {
        match dir.open_beneath(&path, options) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            result => return result,
        }
    }
}

fn names(path: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(path).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

fn every_entry_is_there_once_however_many_there_are(place: Place) {
    let outside = tempfile::NamedTempFile::new().unwrap();
    let directory = tempdir().unwrap();
    let mut made = 0;
    // Around the sizes of one batch and of two.
    for count in [0, 1, 512, 513, 1025] {
        // Links cost less than files.
        for index in made..count {
            let link = directory.path().join(index.to_string());
            std::fs::hard_link(outside.path(), link).unwrap();
        }
        made = count;
        place.run(|| {
            let mut entries = fs::read_dir(directory.path()).unwrap();
            let seen: Vec<_> = entries
                .by_ref()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert!(entries.next().is_none() && entries.next().is_none());
            assert_eq!(seen.len(), count);
            let distinct: BTreeSet<_> = seen.into_iter().collect();
            assert!((0..count).all(|index| distinct.contains(OsStr::new(&index.to_string()))));
        });
    }
}

fn an_entry_has_its_name_path_type_and_metadata(place: Place) {
    let directory = tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("file"), "text").unwrap();
    std::fs::create_dir(at("directory")).unwrap();
    symlink("file", at("link")).unwrap();
    symlink("nothing", at("dangling")).unwrap();
    place.run(|| {
        for entry in fs::read_dir(directory.path()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name();
            assert_eq!(entry.path(), directory.path().join(&name));
            let theirs = std::fs::symlink_metadata(entry.path()).unwrap();
            assert_eq!(entry.file_type().unwrap(), theirs.file_type());
            let ours = entry.metadata().unwrap();
            assert_eq!(ours.ino(), theirs.ino());
            assert_eq!(ours.file_type(), theirs.file_type());
            assert_eq!(ours.is_symlink(), name == "link" || name == "dangling");
        }
        assert_eq!(names(directory.path()).len(), 4);
    });
}

fn an_entry_removed_since_has_no_metadata(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "").unwrap();
        let entry = fs::read_dir(directory.path())
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(entry.metadata().unwrap_err().kind(), ErrorKind::NotFound);
        assert!(entry.file_type().unwrap().is_file());
    });
}

/// Catches a lookup by the path of the entry: there is nothing any more, or another file.
fn an_entry_is_known_also_when_its_directory_has_another_name(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let (path, elsewhere) = (
            directory.path().join("here"),
            directory.path().join("there"),
        );
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("file"), "text").unwrap();
        let entry = fs::read_dir(&path).unwrap().next().unwrap().unwrap();
        std::fs::rename(&path, &elsewhere).unwrap();
        assert_eq!(entry.metadata().unwrap().len(), 4);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("file"), "another").unwrap();
        assert_eq!(entry.metadata().unwrap().len(), 4);
        assert_eq!(entry.ino(), entry.metadata().unwrap().ino());
    });
}

fn files_cannot_be_read_as_directories(place: Place) {
    place.run(|| {
        for (path, kind) in [
            ("Cargo.toml", ErrorKind::NotADirectory),
            ("no such thing", ErrorKind::NotFound),
            ("", ErrorKind::NotFound),
        ] {
            assert_eq!(fs::read_dir(path).map(drop).unwrap_err().kind(), kind);
            assert_eq!(Dir::open(path).map(drop).unwrap_err().kind(), kind);
        }
    });
}

fn names_need_not_be_text(place: Place) {
    let directory = tempdir().unwrap();
    let bytes: [&[u8]; 4] = [b"\xff\xfe", b"caf\xe9", b"line\nfeed", b"\x01"];
    let expected: BTreeSet<_> = bytes.map(|name| OsStr::from_bytes(name).to_owned()).into();
    for name in &expected {
        std::fs::write(directory.path().join(name), name.as_bytes()).unwrap();
    }
    place.run(|| {
        assert_eq!(names(directory.path()), expected);
        let dir = Dir::open(directory.path()).unwrap();
        for name in &expected {
            let mut read = Vec::new();
            let mut file = open_beneath(&dir, name, OpenOptions::new().read(true)).unwrap();
            file.read_to_end(&mut read).unwrap();
            assert_eq!(read, name.as_bytes());
        }
    });
}

fn metadata_follows_links_and_symlink_metadata_does_not(place: Place) {
    let directory = tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("file"), "text").unwrap();
    std::fs::set_permissions(at("file"), fs::Permissions::from_mode(0o000)).unwrap();
    symlink("file", at("link")).unwrap();
    symlink("nothing", at("dangling")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let paths = [
        "file",
        "link",
        "dangling",
        "loop",
        "missing",
        "file/below",
        ".",
    ];
    place.run(|| {
        for name in paths {
            let tell = |result: std::io::Result<fs::Metadata>| {
                let result = result.map(|found| (found.ino(), found.mode(), found.len()));
                result.map_err(|error| error.raw_os_error())
            };
            let path = at(name);
            assert_eq!(tell(fs::metadata(&path)), tell(std::fs::metadata(&path)));
            assert_eq!(
                tell(fs::symlink_metadata(&path)),
                tell(std::fs::symlink_metadata(&path))
            );
        }
    });
}

/// Creates a directory `root` full of paths that lead here and there, beside a file that is
/// `outside`.
fn maze() -> (TempDir, PathBuf) {
    let directory = tempdir().unwrap();
    let root = directory.path().join("root");
    let at = |name: &str| root.join(name);
    std::fs::create_dir_all(at("a/b")).unwrap();
    std::fs::write(directory.path().join("outside"), "outside").unwrap();
    std::fs::write(at("inside"), "inside").unwrap();
    std::fs::write(at("a/b/deep"), "inside").unwrap();
    for (target, link) in [
        (Path::new("../outside"), "out"),
        (Path::new("../../../outside"), "a/b/out"),
        (Path::new("../root/inside"), "out_and_in"),
        (Path::new(".."), "parent"),
        (Path::new("a/.."), "a_and_back"),
        (Path::new("inside"), "in"),
        (Path::new("../inside"), "a/up"),
        (Path::new("b/deep"), "a/down"),
        (Path::new("loop"), "loop"),
        (Path::new("pong"), "ping"),
        (Path::new("ping"), "pong"),
        (Path::new("../new"), "new_outside"),
        (Path::new("/proc/self/root"), "magic"),
        (&at("inside"), "absolute"),
        (Path::new("/proc/self/cwd"), "proc"),
    ] {
        symlink(target, at(link)).unwrap();
    }
    (directory, root)
}

fn a_path_that_stays_inside_is_opened(place: Place) {
    let (_directory, root) = maze();
    place.run(|| {
        let dir = Dir::open(&root).unwrap();
        for path in [
            "inside",
            "./inside",
            "a/../inside",
            "a/b/../../inside",
            "a//b///deep",
            "in",
            "a/up",
            "a/down",
            "a_and_back/inside",
            "a_and_back/a/up",
        ] {
            let mut text = String::new();
            let opened = open_beneath(&dir, path, OpenOptions::new().read(true));
            opened.unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "inside", "{path}");
        }
        // The directory itself is beneath itself.
        let itself = open_beneath(&dir, ".", OpenOptions::new().read(true)).unwrap();
        assert!(itself.metadata().unwrap().is_dir());
    });
}

fn a_path_that_leads_out_is_refused(place: Place) {
    let (directory, root) = maze();
    let absolute = root.join("inside");
    let errno = |path: &Path, options: &OpenOptions| {
        let opened = open_beneath(&Dir::open(&root).unwrap(), path, options);
        opened.map(drop).unwrap_err().raw_os_error()
    };
    place.run(|| {
        for (path, expected) in [
            ("..", Errno::XDEV),
            ("../outside", Errno::XDEV),
            ("../root/inside", Errno::XDEV),
            ("a/../../outside", Errno::XDEV),
            ("a/b/../../../root/inside", Errno::XDEV),
            ("/", Errno::XDEV),
            ("/etc/hostname", Errno::XDEV),
            ("//inside", Errno::XDEV),
            (absolute.to_str().unwrap(), Errno::XDEV),
            ("out", Errno::XDEV),
            ("a/b/out", Errno::XDEV),
            ("out_and_in", Errno::XDEV),
            ("parent/outside", Errno::XDEV),
            ("absolute", Errno::XDEV),
            ("magic", Errno::XDEV),
            ("proc/inside", Errno::XDEV),
            ("loop", Errno::LOOP),
            ("ping", Errno::LOOP),
            ("loop/inside", Errno::LOOP),
            ("inside/", Errno::NOTDIR),
            ("inside/..", Errno::NOTDIR),
            ("missing", Errno::NOENT),
            ("missing/../inside", Errno::NOENT),
            ("", Errno::NOENT),
        ] {
            let reading = OpenOptions::new().read(true).clone();
            let number = errno(Path::new(path), &reading);
            assert_eq!(number, Some(expected.raw_os_error()), "{path}");
        }
        // Nothing is made or emptied there either.
        let creating = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .clone();
        for path in [
            "../new",
            "new_outside",
            "out",
            "parent/new",
            "parent/outside",
        ] {
            let number = errno(Path::new(path), &creating);
            assert_eq!(number, Some(Errno::XDEV.raw_os_error()), "{path}");
        }
        assert!(!directory.path().join("new").exists());
        let outside = std::fs::read(directory.path().join("outside")).unwrap();
        assert_eq!(outside, b"outside");
    });
}

fn links_of_proc_are_not_followed(place: Place) {
    place.run(|| {
        let dir = Dir::open("/proc/self").unwrap();
        let reading = OpenOptions::new().read(true).clone();
        for path in ["root", "cwd", "exe", "fd/0", "root/etc"] {
            let error = open_beneath(&dir, path, &reading).map(drop).unwrap_err();
            let refused = [Errno::LOOP, Errno::XDEV].map(|errno| Some(errno.raw_os_error()));
            assert!(refused.contains(&error.raw_os_error()), "{path}: {error}");
        }
        assert!(open_beneath(&dir, "status", &reading).is_ok());
    });
}

fn options_hold_beneath_a_directory_as_elsewhere(place: Place) {
    place.run(|| {
        let (_directory, root) = maze();
        let dir = Dir::open(&root).unwrap();
        let mut new = OpenOptions::new();
        new.write(true).create_new(true).mode(0o600);
        open_beneath(&dir, "a/made", &new)
            .unwrap()
            .write_all(b"text")
            .unwrap();
        let made = std::fs::metadata(root.join("a/made")).unwrap();
        assert_eq!((made.mode() & 0o7777, made.len()), (0o600, 4));
        let error = open_beneath(&dir, "a/made", &new).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        let mut no_links = OpenOptions::new();
        no_links
            .read(true)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let error = open_beneath(&dir, "in", &no_links).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        let error = open_beneath(&dir, "inside", &OpenOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

fn a_directory_stays_open_when_it_is_renamed(place: Place) {
    place.run(|| {
        let (directory, root) = maze();
        let dir = Dir::open(&root).unwrap();
        std::fs::rename(&root, directory.path().join("elsewhere")).unwrap();
        let reading = OpenOptions::new().read(true).clone();
        assert!(open_beneath(&dir, "a/b/deep", &reading).is_ok());
        assert!(open_beneath(&dir, "../outside", &reading).is_err());
    });
}

fn a_deep_tree_is_walked_from_its_root(place: Place) {
    const DEPTH: usize = 100;
    let directory = tempdir().unwrap();
    let deep: PathBuf = std::iter::repeat_n("level", DEPTH).collect();
    std::fs::create_dir_all(directory.path().join(&deep)).unwrap();
    std::fs::write(directory.path().join(&deep).join("file"), "bottom").unwrap();
    place.run(|| {
        let dir = Dir::open(directory.path()).unwrap();
        let reading = OpenOptions::new().read(true).clone();
        let mut text = String::new();
        let mut file = open_beneath(&dir, deep.join("file"), &reading).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "bottom");
        let up: PathBuf = std::iter::repeat_n("..", DEPTH + 1).collect();
        let error = open_beneath(&dir, deep.join(up).join("file"), &reading).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CrossesDevices);
        let mut depth = 0;
        let mut path = directory.path().to_owned();
        while names(&path).contains(OsStr::new("level")) {
            path.push("level");
            depth += 1;
        }
        assert_eq!(depth, DEPTH);
    });
}

fn a_tree_that_changes_meanwhile_never_leads_out(place: Place) {
    let (_directory, root) = maze();
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            // The name is a file inside and a link outside by turns.
            while !stop.load(Ordering::Relaxed) {
                symlink("../outside", root.join("a/next")).unwrap();
                std::fs::rename(root.join("a/next"), root.join("turn")).unwrap();
                std::fs::write(root.join("a/next"), "inside").unwrap();
                std::fs::rename(root.join("a/next"), root.join("turn")).unwrap();
            }
        });
        let result = std::panic::catch_unwind(|| {
            place.run(|| {
                let dir = Dir::open(&root).unwrap();
                for _ in 0..30 {
                    let Ok(mut file) = open_beneath(&dir, "turn", OpenOptions::new().read(true))
                    else {
                        continue;
                    };
                    let mut text = String::new();
                    file.read_to_string(&mut text).unwrap();
                    assert_eq!(text, "inside");
                }
            });
        });
        stop.store(true, Ordering::Relaxed);
        assert!(result.is_ok());
    });
}
