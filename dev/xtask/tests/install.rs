//! Installs what cargo has built, as into a package, and compiles and runs programs with that.

#[path = "../../../bindings/pthread/tests/compiled/mod.rs"]
mod compiled;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use compiled::{Server, assert_passed, check_echo};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Installs into a package in `folder`, and returns the installed prefix; or `None` if the tests were
/// built without the program and the libraries.
fn install(folder: &Path) -> Option<PathBuf> {
    let xtask = Path::new(env!("CARGO_BIN_EXE_xtask"));
    let built = xtask.parent().unwrap();
    let needed = [
        "uthread",
        "deps/libuthread_preload.so",
        "deps/libuthread_pthread.a",
        "deps/libuthread_ring.a",
    ];
    if let Some(missing) = needed.iter().find(|file| !built.join(file).exists()) {
        eprintln!("not checked: {missing} is not built, as by `cargo test` for all packages");
        return None;
    }
    // Twice: the second time over the first.
    for _ in 0..2 {
        let mut install = Command::new(xtask);
        install.current_dir(root()).env("DESTDIR", folder);
        install.args(["install", "--prefix", "/opt/uthread", "--built"]);
        succeed(install.arg(built));
    }
    Some(folder.join("opt/uthread"))
}

/// Runs a command, and returns what it prints.
fn succeed(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let errors = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}: {errors}");
    String::from_utf8(stdout).unwrap()
}

/// Returns the arguments that compile and link a program with a library.
fn arguments(prefix: &Path, package: &Path, library: &str, options: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_LIBDIR", prefix.join("lib/pkgconfig"));
    command.env("PKG_CONFIG_SYSROOT_DIR", package);
    let printed = succeed(command.args(["--cflags", "--libs", library]).args(options));
    printed.split_whitespace().map(str::to_owned).collect()
}

/// Ways to link a program: the options of the compiler, and those of `pkg-config`.
fn ways(prefix: &Path) -> Vec<(String, &'static [&'static str])> {
    let path = format!("-Wl,-rpath,{}", prefix.join("lib").display());
    let mut ways = vec![(path, &[] as &[_])];
    let archive = succeed(Command::new("cc").arg("-print-file-name=libc.a"));
    if archive.starts_with('/') {
        ways.push(("-static".into(), &["--static"]));
    } else {
        eprintln!("not checked: there is no static C library");
    }
    ways
}

#[test]
fn what_is_installed_is_found_and_works() {
    let package = tempfile::tempdir().unwrap();
    let Some(prefix) = install(package.path()) else {
        return;
    };
    check_names(&prefix);
    check_preloading(&prefix);
    check_programs(&prefix, package.path());
}

/// Checks that programs compile with what is installed, and run.
fn check_programs(prefix: &Path, package: &Path) {
    if Command::new("pkg-config")
        .arg("--version")
        .output()
        .is_err()
    {
        eprintln!("not checked: there is no pkg-config");
        return;
    }
    for (option, options) in ways(prefix) {
        let program = package.join(format!("program{}", options.len()));
        let compile = |source: &str, library: &str, more: &[&str]| {
            let mut cc = Command::new("cc");
            cc.current_dir(root()).arg(source).args(more).arg(&option);
            cc.args(arguments(prefix, package, library, options));
            succeed(cc.arg("-o").arg(&program));
        };
        let for_fibers = ["-pthread", "-include", "uthread_pthread.h"];
        let tests = "bindings/pthread/tests/threads.c";
        compile(tests, "uthread_pthread", &for_fibers);
        assert_passed(&Command::new(&program).output().unwrap(), &option);
        let example = "bindings/pthread/examples/echo.c";
        compile(example, "uthread_pthread", &for_fibers);
        let server = Server::start(&mut Command::new(&program));
        for _ in 0..10 {
            check_echo(&server.connect(), [1, 2, 3, 4]);
        }
        let mappings = fs::read_to_string(format!("/proc/{}/maps", server.process.id())).unwrap();
        let loaded = prefix.join("lib/libuthread_pthread.so.");
        assert_eq!(
            mappings.contains(loaded.to_str().unwrap()),
            options.is_empty()
        );
        drop(server);
        compile("bindings/c/tests/manager.c", "uthread_ring", &[]);
        // On epoll, which each kernel allows.
        succeed(Command::new(&program).args(["promises", "2"]));
    }
}

/// Checks the names of libraries and pages.
fn check_names(prefix: &Path) {
    for name in ["uthread_pthread", "uthread_ring"] {
        let loaded = format!("lib{name}.so.{}", env!("CARGO_PKG_VERSION_MAJOR"));
        let file = prefix.join("lib").join(&loaded);
        let target = format!("lib{name}.so.{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(fs::read_link(&file).unwrap(), Path::new(&target));
        let header = succeed(Command::new("objdump").arg("-p").arg(file));
        let mut lines = header
            .lines()
            .filter_map(|line| line.trim().strip_prefix("SONAME"));
        assert_eq!(lines.next().map(str::trim), Some(&*loaded));
    }
    for page in [
        "man1/uthread.1",
        "man1/uthread-run.1",
        "man7/uthread_pthread.7",
        "man7/uthread_ring.7",
    ] {
        assert!(prefix.join("share/man").join(page).is_file(), "{page}");
    }
}

/// Checks that the program finds the library that it preloads.
fn check_preloading(prefix: &Path) {
    if cfg!(not(all(target_arch = "x86_64", target_env = "gnu"))) {
        return;
    }
    let mut run = Command::new(prefix.join("bin/uthread"));
    let mappings = succeed(run.args(["run", "cat", "/proc/self/maps"]));
    let library = prefix.join("lib/libuthread_preload.so");
    assert!(mappings.contains(library.to_str().unwrap()), "{mappings}");
}
