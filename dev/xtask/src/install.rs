//! `cargo xtask install`: installs the program, the libraries for C, and what compilers and readers
//! look up, in the folders of the GNU conventions.
//!
//! `cargo-c` installs libraries for C, too. It contains all of cargo, builds each library once more,
//! and leaves out the program, the library that it preloads, and the manual pages.

use std::env;
use std::fs;
use std::io::{self, Error, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const VERSION_MAJOR: &str = env!("CARGO_PKG_VERSION_MAJOR");

/// A library for C.
struct Library {
    name: &'static str,
    description: &'static str,
    package: &'static str,
    /// In the repository: with its page, and its headers in `include`.
    folder: &'static str,
}

const LIBRARIES: [Library; 2] = [
    Library {
        name: "uthread_pthread",
        description: "The interface of pthreads for fibers",
        package: "uthread-pthread",
        folder: "bindings/pthread",
    },
    Library {
        name: "uthread_ring",
        description: "A ring manager: any io_uring request by one function",
        package: "uthread-c",
        folder: "bindings/c",
    },
];

/// Installs a release build, or with `--built DIR` what cargo has built in the folder of a profile.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> io::Result<()> {
    let (mut prefix, mut built) = (PathBuf::from("/usr/local"), None);
    for option in arguments.chunks(2) {
        match *option {
            ["--prefix", folder] => prefix = std::path::absolute(folder)?,
            ["--built", folder] => built = Some(std::path::absolute(folder)?),
            _ => return Err(Error::new(ErrorKind::InvalidInput, option.join(" "))),
        }
    }
    // The prefix itself may be a path of another machine.
    let mut place = env::var_os("DESTDIR").unwrap_or_default();
    place.push(&prefix);
    let installation = Installation {
        built: built.map_or_else(|| build(root), Ok)?,
        place: place.into(),
        prefix,
    };
    installation.install_program()?;
    for library in &LIBRARIES {
        installation.install_library(library, &root.join(library.folder))?;
    }
    println!("installed in {}", installation.place.display());
    Ok(())
}

fn build(root: &Path) -> io::Result<PathBuf> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root).args(["build", "--release"]);
    cargo.args(["--package=uthread-cli", "--package=uthread-preload"]);
    cargo.args(LIBRARIES.map(|library| format!("--package={}", library.package)));
    if !cargo.status()?.success() {
        return Err(Error::other("the build has failed"));
    }
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(root.join(target).join("release"))
}

struct Installation {
    built: PathBuf,
    /// Where the files will be used.
    prefix: PathBuf,
    /// Where they are put.
    place: PathBuf,
}

impl Installation {
    /// Installs the program, its pages, and the library that it preloads.
    fn install_program(&self) -> io::Result<()> {
        let (program, preloaded) = (self.built.join("uthread"), "libuthread_preload.so");
        self.copy(&program, "bin/uthread")?;
        self.copy(
            &self.built.join("deps").join(preloaded),
            &format!("lib/{preloaded}"),
        )?;
        let pages = self.place.join("share/man/man1");
        fs::create_dir_all(&pages)?;
        errors(Command::new(program).args(["man", "--into"]).arg(pages)).map(drop)
    }

    fn install_library(&self, library: &Library, folder: &Path) -> io::Result<()> {
        let (name, built) = (library.name, self.built.join("deps"));
        let (shared, archive) = (format!("lib{name}.so"), format!("lib{name}.a"));
        let file = format!("{shared}.{VERSION}");
        self.copy(&built.join(&shared), &format!("lib/{file}"))?;
        // That which programs load, and that which the linker looks for.
        for link in [format!("{shared}.{VERSION_MAJOR}"), shared] {
            symlink(&file, self.vacant(&format!("lib/{link}"))?)?;
        }
        self.copy(&built.join(&archive), &format!("lib/{archive}"))?;
        for header in fs::read_dir(folder.join("include"))? {
            let header = header?;
            let name = header.file_name();
            self.copy(&header.path(), &format!("include/{}", name.display()))?;
        }
        let page = format!("{name}.7");
        self.copy(&folder.join(&page), &format!("share/man/man7/{page}"))?;
        let description = self.vacant(&format!("lib/pkgconfig/{name}.pc"))?;
        fs::write(description, self.pkg_config(library)?)
    }

    fn pkg_config(&self, library: &Library) -> io::Result<String> {
        let (name, description, prefix) = (library.name, library.description, &self.prefix);
        let (prefix, native) = (prefix.display(), self.native_libraries()?);
        Ok(format!(
            "prefix={prefix}
includedir=${{prefix}}/include
libdir=${{prefix}}/lib

Name: {name}
Description: {description}
Version: {VERSION}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -l{name}
Libs.private: {native}
"
        ))
    }

    /// Returns what a static library of Rust needs, but for what a C compiler adds by itself: it
    /// chooses the unwinder that fits.
    fn native_libraries(&self) -> io::Result<String> {
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let archive = self.built.join(format!("libempty-{}.a", process::id()));
        rustc.args(["--crate-type=staticlib", "--print=native-static-libs"]);
        rustc.args(["--crate-name=empty", "-", "-o"]).arg(&archive);
        let said = errors(rustc.stdin(Stdio::null()))?;
        fs::remove_file(archive)?;
        let libraries = said.split_once("native-static-libs: ");
        let (_, libraries) = libraries.ok_or_else(|| Error::other("rustc names no libraries"))?;
        let line = libraries.lines().next().unwrap_or_default();
        Ok(line.replace("-lgcc_s ", ""))
    }

    fn copy(&self, from: &Path, to: &str) -> io::Result<()> {
        let copied = fs::copy(from, self.vacant(to)?);
        let named = |error: Error| Error::new(error.kind(), format!("{}: {error}", from.display()));
        copied.map(drop).map_err(named)
    }

    /// Returns the path of a file in a folder that exists, after removing an older file: a program
    /// that runs keeps that.
    fn vacant(&self, path: &str) -> io::Result<PathBuf> {
        let path = self.place.join(path);
        fs::create_dir_all(path.parent().expect("in a folder"))?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(path),
        }
    }
}

/// Runs a command, and returns what it writes to standard error.
fn errors(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        let program = command.get_program().display();
        return Err(Error::other(format!("{program}: {said}")));
    }
    Ok(said)
}
