//! Opening files: options that `std` accepts are accepted, and others fail with the same error.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};
use rustix::fs::OFlags;
use tempfile::tempdir;
use uthread::fs::{self, File, OpenOptions};

behaviours![(
    EVERYWHERE,
    [
        every_combination_of_options_does_what_std_does,
        the_short_forms_do_what_those_of_std_do,
        a_new_file_has_the_mode_that_std_gives_it,
        opening_fails_as_with_std,
        custom_flags_reach_the_kernel,
        a_file_without_a_name_can_be_written_and_leaves_nothing,
        names_are_bytes_and_paths_may_be_relative_or_long,
        a_path_with_a_nul_byte_is_refused_by_every_call,
        devices_answer_as_they_do_to_std,
        reads_and_writes_against_the_grain_fail_as_with_std
    ]
)];

/// Options of both kinds, made alike.
#[derive(Debug, Clone)]
struct Pair {
    ours: OpenOptions,
    theirs: std::fs::OpenOptions,
}

impl Pair {
    /// Creates both with the same options, one for each bit.
    fn new(bits: u32) -> Pair {
        let on = |bit: u32| bits & 1 << bit != 0;
        let mut ours = OpenOptions::new();
        let mut theirs = std::fs::OpenOptions::new();
        ours.read(on(0)).write(on(1)).append(on(2));
        theirs.read(on(0)).write(on(1)).append(on(2));
        ours.create(on(3)).truncate(on(4)).create_new(on(5));
        theirs.create(on(3)).truncate(on(4)).create_new(on(5));
        Pair { ours, theirs }
    }

    fn reading() -> Pair {
        Pair::new(0b1)
    }

    fn writing() -> Pair {
        Pair::new(0b10)
    }

    fn flags(mut self, flags: OFlags) -> Pair {
        self.ours.custom_flags(flags.bits().cast_signed());
        self.theirs.custom_flags(flags.bits().cast_signed());
        self
    }

    fn mode(mut self, mode: u32) -> Pair {
        self.ours.mode(mode);
        self.theirs.mode(mode);
        self
    }
}

/// The parts of an error in which two calls have to agree: its kind, its errno if there is one, and
/// its text.
type Failure = (ErrorKind, Option<i32>, String);

fn failure(error: &io::Error) -> Failure {
    (error.kind(), error.raw_os_error(), error.to_string())
}

fn failures<T>(result: io::Result<T>) -> Result<T, Failure> {
    result.map_err(|error| failure(&error))
}

fn flag(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

/// Returns the results of opening, writing and reading a file, and what it contains afterwards.
fn effect(
    path: &Path,
    opened: io::Result<impl Read + Write>,
) -> (Vec<Result<usize, Failure>>, Option<Vec<u8>>) {
    let steps = match opened {
        Err(error) => vec![Err(failure(&error))],
        Ok(mut file) => vec![
            failures(file.write(b"new")),
            failures(file.read(&mut [0; 100])),
            failures(file.write(b"er")),
        ],
    };
    (steps, std::fs::read(path).ok())
}

fn every_combination_of_options_does_what_std_does(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        for bits in 0..1 << 6 {
            for before in [None, Some("contents before")] {
                let prepare = || {
                    let _ = std::fs::remove_file(&path);
                    if let Some(text) = before {
                        std::fs::write(&path, text).unwrap();
                    }
                };
                let pair = Pair::new(bits);
                prepare();
                let ours = effect(&path, pair.ours.open(&path));
                prepare();
                let theirs = effect(&path, pair.theirs.open(&path));
                assert_eq!(ours, theirs, "{before:?} {pair:?}");
            }
        }
    });
}

fn the_short_forms_do_what_those_of_std_do(place: Place) {
    type Open<F> = fn(&Path) -> io::Result<F>;
    let pairs: [(Open<File>, Open<std::fs::File>); 3] = [
        (|path| File::open(path), |path| std::fs::File::open(path)),
        (
            |path| File::create(path),
            |path| std::fs::File::create(path),
        ),
        (
            |path| File::create_new(path),
            |path| std::fs::File::create_new(path),
        ),
    ];
    place.run(|| {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        for (ours, theirs) in pairs {
            for exists in [false, true] {
                let prepare = || {
                    let _ = std::fs::remove_file(&path);
                    if exists {
                        std::fs::write(&path, "before").unwrap();
                    }
                };
                prepare();
                let ours = effect(&path, ours(&path));
                prepare();
                assert_eq!(ours, effect(&path, theirs(&path)));
            }
        }
        assert!(File::options().open(&path).is_err());
    });
}

fn a_new_file_has_the_mode_that_std_gives_it(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let mode_of = |name: &str, opened: io::Result<()>| {
            opened.unwrap();
            let path = directory.path().join(name);
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            std::fs::remove_file(path).unwrap();
            mode
        };
        for mode in [0o666, 0o600, 0o777, 0o000, 0o444, 0o4755, 0o1644] {
            let pair = Pair::new(0b100010).mode(mode);
            let ours = pair.ours.open(directory.path().join("ours")).map(drop);
            let theirs = pair.theirs.open(directory.path().join("theirs")).map(drop);
            assert_eq!(
                mode_of("ours", ours),
                mode_of("theirs", theirs),
                "{mode:#o}"
            );
        }
        // An existing file keeps its own.
        let path = directory.path().join("existing");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        Pair::new(0b1010).mode(0o777).ours.open(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640);
    });
}

fn opening_fails_as_with_std(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::fs::write(at("private"), "text").unwrap();
        std::fs::set_permissions(at("private"), fs::Permissions::from_mode(0o000)).unwrap();
        std::fs::create_dir(at("directory")).unwrap();
        symlink("loop", at("loop")).unwrap();
        symlink("nothing", at("dangling")).unwrap();
        symlink("file", at("link")).unwrap();
        let new = Pair::new(0b100010);
        let cases = [
            (at("missing"), Pair::reading()),
            (at("missing"), Pair::writing()),
            (at("missing/file"), Pair::new(0b1010)),
            (at("file/below"), Pair::reading()),
            (at("file/"), Pair::reading()),
            (at("directory"), Pair::writing()),
            (at("directory"), Pair::new(0b1011)),
            (at("directory"), new.clone()),
            (at("private"), Pair::reading()),
            (at("loop"), Pair::reading()),
            (at("dangling"), Pair::reading()),
            (at("dangling"), new.clone()),
            (at("file"), new),
            (at(&"n".repeat(256)), Pair::reading()),
            (at(&"deep/".repeat(1000)), Pair::reading()),
            (at("link"), Pair::reading().flags(OFlags::NOFOLLOW)),
            (at("file"), Pair::reading().flags(OFlags::DIRECTORY)),
            (std::env::current_exe().unwrap(), Pair::writing()),
            (PathBuf::new(), Pair::reading()),
            (at("file\0"), Pair::reading()),
            (PathBuf::from("/proc/self/mounts"), Pair::writing()),
            (PathBuf::from("/proc/version/"), Pair::reading()),
        ];
        for (path, pair) in cases {
            let ours = failures(pair.ours.open(&path).map(drop));
            let theirs = failures(pair.theirs.open(&path).map(drop));
            assert_eq!(ours, theirs, "{} {pair:?}", path.display());
        }
        assert!(!at("nothing").exists());
    });
}

fn custom_flags_reach_the_kernel(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "contents").unwrap();

        let mut emptying = OpenOptions::new();
        emptying.write(true).custom_flags(flag(OFlags::TRUNC));
        emptying.open(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");

        let mut creating = OpenOptions::new();
        creating.write(true).custom_flags(flag(OFlags::CREATE));
        let made = directory.path().join("made");
        creating.mode(0o600).open(&made).unwrap();
        let mode = std::fs::metadata(&made).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);

        // The access is what `read` and `write` say.
        let mut widening = OpenOptions::new();
        widening.read(true).custom_flags(flag(OFlags::RDWR));
        let error = widening.open(&path).unwrap().write(b"x").unwrap_err();
        assert_eq!(
            error.raw_os_error(),
            Some(rustix::io::Errno::BADF.raw_os_error())
        );

        // Flags that `open` ignores, and `openat2` would refuse.
        let mut ignored = OpenOptions::new();
        ignored.write(true).custom_flags(flag(OFlags::PATH));
        ignored.open(&path).unwrap();
        let mut unknown = OpenOptions::new();
        unknown.read(true).custom_flags(0x4000_0000);
        unknown.open(&path).unwrap();
    });
}

fn a_file_without_a_name_can_be_written_and_leaves_nothing(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options.custom_flags(flag(OFlags::TMPFILE)).mode(0o600);
        let file = options.open(directory.path()).unwrap();
        (&file).write_all(b"text").unwrap();
        assert_eq!(
            file.metadata().unwrap().permissions().mode() & 0o7777,
            0o600
        );
        drop(file);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        // To read alone it makes no sense.
        let error = options.write(false).open(directory.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

fn names_are_bytes_and_paths_may_be_relative_or_long(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        for name in [&b"not utf-8 \xff\xfe"[..], b"\n", b" ", b"-", &[b'n'; 255]] {
            let path = directory.path().join(OsStr::from_bytes(name));
            fs::write(&path, name).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), name);
            assert_eq!(fs::read(&path).unwrap(), name);
        }
        let roundabout = directory.path().join("./".repeat(1500)).join("-");
        assert_eq!(fs::read(roundabout).unwrap(), b"-");
        assert!(fs::read("Cargo.toml").unwrap().starts_with(b"[package]"));
    });
}

fn a_path_with_a_nul_byte_is_refused_by_every_call(place: Place) {
    place.run(|| {
        let path = Path::new("Cargo.toml\0.lock");
        let results = [
            File::open(path).map(drop),
            File::create(path).map(drop),
            fs::read(path).map(drop),
            fs::write(path, b"").map(drop),
            fs::metadata(path).map(drop),
            fs::symlink_metadata(path).map(drop),
            fs::read_dir(path).map(drop),
            fs::Dir::open(path).map(drop),
            fs::Dir::open(".")
                .unwrap()
                .open_beneath(path, OpenOptions::new().read(true))
                .map(drop),
        ];
        for result in results {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    });
}

fn devices_answer_as_they_do_to_std(place: Place) {
    place.run(|| {
        let full = Pair::writing().ours.open("/dev/full").unwrap();
        let error = (&full).write(b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert_eq!(
            fs::write("/dev/full", b"x").unwrap_err().kind(),
            ErrorKind::StorageFull
        );
        fs::write("/dev/full", b"").unwrap();
        fs::write("/dev/null", b"text").unwrap();
        assert_eq!(fs::read("/dev/null").unwrap(), b"");
        let mut zeroes = [1; 100_000];
        File::open("/dev/zero")
            .unwrap()
            .read_exact(&mut zeroes)
            .unwrap();
        assert!(zeroes.iter().all(|byte| *byte == 0));
        assert!(fs::read_to_string("/proc/self/status").unwrap().len() > 500);
    });
}

fn reads_and_writes_against_the_grain_fail_as_with_std(place: Place) {
    place.run(|| {
        let directory = tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "text").unwrap();
        let read_only = File::open(&path).unwrap();
        let write_only = OpenOptions::new().write(true).open(&path).unwrap();
        let itself = File::open(directory.path()).unwrap();
        let badf = Some(rustix::io::Errno::BADF.raw_os_error());
        assert_eq!((&read_only).write(b"x").unwrap_err().raw_os_error(), badf);
        assert_eq!(
            (&write_only).read(&mut [0]).unwrap_err().raw_os_error(),
            badf
        );
        let error = (&itself).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        let error = fs::read(directory.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
    });
}
