//! `cargo xtask kernel-patch`: builds Debian's longterm kernel without and with the patches of
//! `kernel`, and tests both under qemu.
//!
//! Debian packages the [`source`]. The [`build`] is small, because only io_uring matters. The first
//! process of the guest is the program in `dev/kernel/guest`; its output becomes the [`results`], and
//! the [`report`] draws them. On the kernel without the patches, the tests of the order have to
//! fail.

mod source;

mod build;

mod results;

mod report;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::kernels::archive::Archive;
use crate::kernels::cpio::Cpio;
use crate::kernels::guest::{Execution, Guest};
use crate::kernels::{programs, tools};
use results::Results;
use source::Source;

/// The Debian suite of the sources.
const SUITE: &str = "trixie";

const PATCHES: &str = "dev/kernel/patches";
const CONFIG: &str = "dev/kernel/config";
const REPORT: &str = "docs/results/kernel-patch.md";

/// The program that tests, and its profile: it also measures.
const GUEST: &str = "uthread-kernel-guest";
const GUEST_PROFILE: &str = "release";
/// Lets the library use the flag of the patches.
const GUEST_FLAGS: &str = "--cfg uthread_urgent";

/// Folders that the program mounts file systems on.
const FOLDERS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Programs and files that building a kernel takes, with the Debian package of each.
const TOOLS: [(&str, &str); 9] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
    ("patch", "patch"),
    ("/usr/include/libelf.h", "libelf-dev"),
];

/// The two runs of a guest: the name, the kernel parameters, which pass arguments to the program,
/// and the execution.
const RUNS: [(&str, &str, Execution); 2] = [
    ("tests", "", Execution::Emulated),
    ("cost", "-- cost", Execution::Counted),
];

/// Time limit of a run, which takes less than a minute.
const LIMIT: Duration = Duration::from_secs(10 * 60);

/// Builds and tests both kernels, and writes the report; returns true if everything was as
/// expected.
pub(crate) fn run(root: &Path) -> io::Result<bool> {
    tools::check(&TOOLS)?;
    let folder = programs::target(root).join("kernel-patch");
    fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let initramfs = folder.join("initramfs");
    fs::write(&initramfs, pack(root)?)?;
    let archive = Archive::of_this_machine(&folder)?;
    let source = Source::unpack(&archive.suite(SUITE)?.linux_sources()?, &folder)?;
    source.restore()?;
    let build = folder.join("build");
    build::configure(&source.tree, &build, &root.join(CONFIG))?;

    eprintln!("without the patches:");
    let kernel = build::image(&source.tree, &build, "")?;
    let without = test(&kernel, &initramfs, &folder.join("without"))?;
    eprintln!("with the patches:");
    source.apply(&root.join(PATCHES))?;
    let kernel = build::image(&source.tree, &build, "-urgent")?;
    let with = test(&kernel, &initramfs, &folder.join("with"))?;

    let report = report::markdown(&without, &with);
    println!("{report}");
    fs::write(root.join(REPORT), &report)?;
    let unexpected = report::unexpected(&without, &with);
    for text in &unexpected {
        eprintln!("unexpected: {text}");
    }
    Ok(unexpected.is_empty())
}

/// Packs the file system of the guest: the program, as the first process, with its libraries.
fn pack(root: &Path) -> io::Result<Vec<u8>> {
    let program = programs::only(root, GUEST_PROFILE, GUEST, GUEST_FLAGS)?.file;
    let mut cpio = Cpio::default();
    for folder in FOLDERS {
        cpio.folder(folder);
    }
    cpio.file("/init", &fs::read(&program)?);
    for library in programs::libraries(&program)? {
        cpio.file(&library.to_string_lossy(), &fs::read(&library)?);
    }
    Ok(cpio.finish())
}

/// Runs the program on a kernel. The output stays in `folder`.
fn test(kernel: &Path, initramfs: &Path, folder: &Path) -> io::Result<Results> {
    let mut output = String::new();
    for (name, arguments, execution) in RUNS {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        let guest = Guest {
            kernel,
            initramfs,
            arguments,
            execution,
            limit: LIMIT,
        };
        output.push_str(&guest.run(&folder)?);
    }
    Ok(Results::parse(&output))
}
