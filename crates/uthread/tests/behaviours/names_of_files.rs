//! Queries and changes of directory entries: each call has the same effect on a tree as that of
//! `std`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Debug;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{
    DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, PermissionsExt,
};
use std::path::{Path, PathBuf};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use rustix::fs::{CWD, FileType, Mode};
use tempfile::{TempDir, tempdir};

behaviours![(
    EVERYWHERE,
    [
        queries_return_the_same,
        renames_and_links_do_the_same,
        removals_do_the_same,
        created_directories_are_the_same,
        copies_are_the_same,
        long_files_are_copied_whole,
        changed_attributes_are_the_same,
        every_call_takes_and_refuses_the_paths_that_std_does
    ]
)];

/// A call's result, and the tree that it leaves behind.
type Effect = (String, BTreeMap<PathBuf, String>);

/// Makes a path in the tree of a name.
type At<'a> = &'a dyn Fn(&str) -> PathBuf;

/// A call, made through this crate and through `std`.
type Call = (&'static str, fn(At<'_>) -> String, fn(At<'_>) -> String);

/// Each expression means our modules first, and `std`'s then.
macro_rules! calls {
    ($at:ident; $($call:expr),* $(,)?) => {
        &[$((
            stringify!($call),
            |$at| {
                #[allow(unused_imports, reason = "not each call needs both")]
                use uthread::{fs, os::unix::fs as unix};
                let _ = $at;
                described($call)
            },
            |$at| {
                #[allow(unused_imports, reason = "not each call needs both")]
                use std::{fs, os::unix::fs as unix};
                let _ = $at;
                described($call)
            },
        )),*]
    };
}

/// Formats the part of a result in which both calls have to agree.
fn described<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?} {:?}", error.kind(), error.raw_os_error()),
    }
}

/// Creates a tree with one file of each kind.
fn tree() -> TempDir {
    let directory = tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["file", "longer", "full/file", "full/deep/file"] {
        std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        std::fs::write(at(name), name.repeat(3)).unwrap();
    }
    for (name, mode) in [("file", 0o604), ("longer", 0o4755)] {
        std::fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    std::fs::create_dir(at("empty")).unwrap();
    for (target, link) in [
        ("file", "link"),
        ("full", "link_to_full"),
        ("nothing", "dangling"),
        ("loop", "loop"),
        ("../file", "full/up"),
    ] {
        std::os::unix::fs::symlink(target, at(link)).unwrap();
    }
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, mode, 0).unwrap();
    directory
}

/// Records all that is known of each path of a tree.
fn snapshot(root: &Path, directory: &Path, seen: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let found = std::fs::symlink_metadata(&path).unwrap();
        let kind = found.file_type();
        let contents = match (kind.is_dir(), kind.is_symlink(), kind.is_fifo()) {
            (true, ..) => String::new(),
            (_, true, _) => format!("{:?}", std::fs::read_link(&path).unwrap()),
            (.., true) => "fifo".to_owned(),
            _ => format!("{} bytes, {:?}", found.len(), std::fs::read(&path).unwrap()),
        };
        let owner = (found.uid(), found.gid());
        let all = format!("{:o} {owner:?} {} {contents}", found.mode(), found.nlink());
        seen.insert(path.strip_prefix(root).unwrap().to_owned(), all);
        if kind.is_dir() {
            snapshot(root, &path, seen);
        }
    }
}

/// Returns the effect of a call on a new tree. Two effects may differ only in the path of the tree.
fn effect(call: fn(At<'_>) -> String) -> Effect {
    let directory = tree();
    let root = std::fs::canonicalize(directory.path()).unwrap();
    let result = call(&|name| root.join(name)).replace(root.to_str().unwrap(), "ROOT");
    let mut seen = BTreeMap::new();
    snapshot(&root, &root, &mut seen);
    (result, seen)
}

fn check(place: Place, calls: &[Call]) {
    place.run(|| {
        for (name, ours, theirs) in calls {
            assert_eq!(effect(*ours), effect(*theirs), "{name}");
        }
    });
}

fn queries_return_the_same(place: Place) {
    check(
        place,
        calls![at;
            fs::exists(at("file")),
            fs::exists(at("missing")),
            fs::exists(at("dangling")),
            fs::exists(at("loop")),
            fs::exists(at("file/below")),
            fs::read_link(at("link")),
            fs::read_link(at("full/up")),
            fs::read_link(at("file")),
            fs::read_link(at("missing")),
            fs::canonicalize(at("full/up")),
            fs::canonicalize(at("link_to_full/../link_to_full/./deep")),
            fs::canonicalize(at("dangling")),
            fs::canonicalize(at("loop")),
            fs::canonicalize(at("file/")),
            fs::canonicalize(""),
            fs::canonicalize("."),
            fs::metadata(at("link_to_full")).map(|found| found.file_type()),
            fs::symlink_metadata(at("link_to_full")).map(|found| found.file_type()),
            fs::metadata(at("fifo")).map(|found| found.permissions()),
            fs::metadata("/proc/self/exe").map(|found| found.ino()),
            fs::metadata("/dev/null").map(|found| (found.dev(), found.rdev(), found.mode())),
            fs::read_dir(at("full")).map(|entries| {
                let entries = entries.map(|entry| entry.unwrap());
                let found = entries.map(|entry| (entry.path(), entry.file_type().unwrap()));
                found.map(|found| format!("{found:?}")).collect::<BTreeSet<_>>()
            }),
            fs::read_dir(at("full")).map(|mut entries| {
                entries.all(|entry| {
                    let entry = entry.unwrap();
                    let found = fs::symlink_metadata(entry.path()).unwrap();
                    entry.metadata().unwrap().ino() == found.ino() && entry.ino() == found.ino()
                })
            }),
            fs::read_dir(at("file")).map(drop),
        ],
    );
}

fn renames_and_links_do_the_same(place: Place) {
    check(
        place,
        calls![at;
            fs::rename(at("file"), at("new")),
            fs::rename(at("file"), at("full/file")),
            fs::rename(at("file"), at("file")),
            fs::rename(at("file"), at("empty")),
            fs::rename(at("file"), at("missing/new")),
            fs::rename(at("link"), at("renamed_link")),
            fs::rename(at("full"), at("empty")),
            fs::rename(at("empty"), at("full")),
            fs::rename(at("full"), at("file")),
            fs::rename(at("full"), at("full/deep/inside")),
            fs::rename(at("missing"), at("new")),
            fs::rename(at("file"), "/proc/new"),
            fs::hard_link(at("file"), at("new")),
            fs::hard_link(at("link"), at("new")),
            fs::hard_link(at("file"), at("longer")),
            fs::hard_link(at("empty"), at("new")),
            fs::hard_link(at("missing"), at("new")),
            #[allow(deprecated, reason = "std has it")]
            fs::soft_link("anything", at("new")),
            unix::symlink("file", at("new")),
            unix::symlink("", at("new")),
            unix::symlink("file", at("longer")),
            unix::symlink("file", at("missing/new")),
        ],
    );
}

fn removals_do_the_same(place: Place) {
    check(
        place,
        calls![at;
            fs::remove_file(at("file")),
            fs::remove_file(at("link_to_full")),
            fs::remove_file(at("fifo")),
            fs::remove_file(at("empty")),
            fs::remove_file(at("missing")),
            fs::remove_file(at("file/")),
            fs::remove_dir(at("empty")),
            fs::remove_dir(at("full")),
            fs::remove_dir(at("file")),
            fs::remove_dir(at("link_to_full")),
            fs::remove_dir(at("empty/.")),
            fs::remove_dir(at("missing")),
            fs::remove_dir_all(at("full")),
            fs::remove_dir_all(at("empty")),
            fs::remove_dir_all(at("file")),
            fs::remove_dir_all(at("link_to_full")),
            fs::remove_dir_all(at("dangling")),
            fs::remove_dir_all(at("missing")),
        ],
    );
}

fn created_directories_are_the_same(place: Place) {
    check(
        place,
        calls![at;
            fs::create_dir(at("new")),
            fs::create_dir(at("empty")),
            fs::create_dir(at("dangling")),
            fs::create_dir(at("missing/new")),
            fs::create_dir_all(at("missing/new/deep")),
            fs::create_dir_all(at("full/deep/new")),
            fs::create_dir_all(at("link_to_full/new")),
            fs::create_dir_all(at("empty")),
            fs::create_dir_all(at("link_to_full")),
            fs::create_dir_all(at("file")),
            fs::create_dir_all(at("file/below")),
            fs::create_dir_all(at("dangling/below")),
            fs::create_dir_all(""),
            fs::DirBuilder::new().mode(0o710).create(at("new")),
            fs::DirBuilder::new().mode(0o1777).recursive(true).create(at("new/deep")),
            fs::DirBuilder::new().recursive(true).recursive(false).create(at("new/deep")),
            fs::DirBuilder::new().recursive(true).create(at("full")),
        ],
    );
}

fn copies_are_the_same(place: Place) {
    check(
        place,
        calls![at;
            fs::copy(at("file"), at("new")),
            fs::copy(at("longer"), at("new")),
            fs::copy(at("file"), at("longer")),
            fs::copy(at("longer"), at("file")),
            fs::copy(at("file"), at("file")),
            fs::copy(at("link"), at("new")),
            fs::copy(at("file"), at("full/up")),
            fs::copy(at("longer"), at("dangling")),
            fs::copy(at("file"), at("empty")),
            fs::copy(at("file"), at("missing/new")),
            fs::copy(at("empty"), at("new")),
            fs::copy(at("missing"), at("longer")),
            fs::copy("/dev/null", at("longer")),
            fs::copy(at("longer"), "/dev/null"),
            fs::copy(at("longer"), "/dev/full"),
            fs::copy("/proc/version", at("new")),
            fs::copy("/proc/version", at("longer")),
        ],
    );
}

fn long_files_are_copied_whole(place: Place) {
    const COPIED_AT_ONCE: u64 = 16 * 1024 * 1024;
    place.run(|| {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        let islands = [
            0,
            COPIED_AT_ONCE - 3,
            2 * COPIED_AT_ONCE,
            2 * COPIED_AT_ONCE + 10,
        ];
        for at in islands {
            file.write_all_at(b"island", at).unwrap();
        }
        let copy = path.with_extension("copy");
        let length = 2 * COPIED_AT_ONCE + 16;
        assert_eq!(uthread::fs::copy(&path, &copy).unwrap(), length);
        let copy = std::fs::File::open(&copy).unwrap();
        assert_eq!(copy.metadata().unwrap().len(), length);
        for at in islands {
            let mut island = [0; 6];
            copy.read_exact_at(&mut island, at).unwrap();
            assert_eq!(island, *b"island");
        }
    });
}

fn changed_attributes_are_the_same(place: Place) {
    check(
        place,
        calls![at;
            fs::set_permissions(at("file"), fs::Permissions::from_mode(0o440)),
            fs::set_permissions(at("link"), fs::Permissions::from_mode(0o1700)),
            fs::set_permissions(at("empty"), fs::Permissions::from_mode(0o777)),
            fs::set_permissions(at("dangling"), fs::Permissions::from_mode(0o777)),
            fs::set_permissions(at("missing"), fs::Permissions::from_mode(0o777)),
            unix::chown(at("link"), Some(12), Some(34)),
            unix::chown(at("file"), None, Some(34)),
            unix::chown(at("dangling"), Some(12), None),
            unix::lchown(at("link"), Some(12), Some(34)),
            unix::lchown(at("missing"), None, None),
            unix::fchown(std::fs::File::open(at("longer")).unwrap(), Some(12), None),
        ],
    );
}

type CallOnAPath = (&'static str, fn(&Path) -> String, fn(&Path) -> String);

/// Calls on one path each, whatever it is.
const ON_A_PATH: &[CallOnAPath] = calls![path;
    fs::canonicalize(path),
    fs::copy(path, "/nonexistent/directory/file"),
    fs::copy("Cargo.toml", path),
    fs::create_dir(path),
    fs::create_dir_all(path),
    fs::exists(path),
    fs::hard_link(path, "/nonexistent/directory/file"),
    fs::hard_link(beside(path), path),
    fs::metadata(path).map(|found| found.is_file()),
    fs::read(path),
    fs::read_dir(path).map(drop),
    fs::read_link(path),
    fs::read_to_string(path),
    fs::remove_dir(path),
    fs::remove_dir_all(path),
    fs::remove_file(path),
    fs::rename(path, "/nonexistent/directory/file"),
    fs::rename("/nonexistent/file", path),
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)),
    fs::symlink_metadata(path).map(|found| found.is_file()),
    fs::write(path, b"written"),
    fs::File::open(path).map(drop),
    fs::File::create(path).map(drop),
    fs::File::create_new(path).map(drop),
    unix::chown(path, None, None),
    unix::lchown(path, None, None),
    unix::symlink("target", path),
    unix::symlink(path, "/nonexistent/directory/file"),
];

/// Returns the file in the directory of the call alone, because the number of its names is compared
/// too.
fn beside(path: &Path) -> PathBuf {
    let files = path.ancestors().map(|directory| directory.join("file"));
    let mut of_call = files.filter(|file| file.is_file());
    of_call.next().unwrap_or_else(|| "Cargo.toml".into())
}

fn every_call_takes_and_refuses_the_paths_that_std_does(place: Place) {
    let names: [&[u8]; 9] = [
        b"new",
        b"with\0nul",
        b"\0",
        b"not \xff utf-8",
        b"\n",
        b"file/below",
        b"",
        &[b'n'; 255],
        &[b'n'; 256],
    ];
    let long: PathBuf = ["deep/"; 1000].iter().collect();
    place.run(|| {
        for (name, ours, theirs) in ON_A_PATH {
            for path in names
                .map(|name| Path::new(OsStr::from_bytes(name)))
                .iter()
                .chain([&&*long])
            {
                let effect = |call: fn(&Path) -> String| {
                    let directory = tempdir().unwrap();
                    let root = directory.path();
                    std::fs::write(root.join("file"), "text").unwrap();
                    // Without a slash at its end, where it is empty.
                    let path = if path.as_os_str().is_empty() {
                        path.to_path_buf()
                    } else {
                        root.join(path)
                    };
                    let result = call(&path).replace(root.to_str().unwrap(), "ROOT");
                    let mut seen = BTreeMap::new();
                    snapshot(root, root, &mut seen);
                    (result, seen)
                };
                assert_eq!(effect(*ours), effect(*theirs), "{name} {path:?}");
            }
        }
    });
}
