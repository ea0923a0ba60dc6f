//! Debian's archive: packages of a suite, fetched by apt with its own configuration and state.
//!
//! Uses the mirror of this machine. Files taken from a package are kept, and fetched again only
//! after they were deleted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools::{KEYS, output};

/// The package that depends on the newest kernel of a suite: the flavour for virtual machines, with
/// the same source and half the size.
const KERNEL: &str = "linux-image-cloud-amd64";

/// The tools of the guest in one static program.
const BUSYBOX: &str = "busybox-static";

/// The sources of the longterm kernel that the patches in `kernel` are for.
const LINUX: &str = "linux-source-6.12";

/// The C library and its loader.
const C_LIBRARY: &str = "libc6";

/// The sources of the standard library, including its tests.
const RUST: &str = "rust-src";

pub(crate) struct Archive {
    mirror: String,
    folder: PathBuf,
}

impl Archive {
    /// Uses the archive as this machine reaches it; stores files below `folder`.
    pub(crate) fn of_this_machine(folder: &Path) -> io::Result<Archive> {
        let mut command = Command::new("apt-get");
        command.args(["indextargets", "--format", "$(REPO_URI)"]);
        command.args(["Created-By: Packages", "Origin: Debian", "Component: main"]);
        let mirrors = output(&mut command)?;
        // Suites with security updates have longer names.
        let Some(mirror) = mirrors.lines().min_by_key(|line| line.len()) else {
            let text =
                "apt has no mirror of Debian: check /etc/apt/sources.list, and run apt-get update";
            return Err(io::Error::other(text));
        };
        Ok(Archive {
            mirror: mirror.to_owned(),
            folder: folder.to_owned(),
        })
    }

    pub(crate) fn suite(&self, name: &str) -> io::Result<Suite> {
        let folder = self.folder.join(name);
        for part in ["state/lists/partial", "cache/archives/partial", "none"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let sources = format!("deb [signed-by={KEYS}] {} {name} main\n", self.mirror);
        fs::write(folder.join("sources.list"), sources)?;
        fs::write(folder.join("status"), "")?;
        fs::write(folder.join("apt.conf"), configuration(&folder))?;
        Ok(Suite { folder })
    }
}

/// Returns a configuration with which apt reads and writes nothing of the system except the network
/// settings.
fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        r#"Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::SourceList "{folder}/sources.list";
Dir::Etc::SourceParts "-";
Dir::Etc::Preferences "{folder}/none";
Dir::Etc::PreferencesParts "{folder}/none";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
APT::Sandbox::User "root";
#clear APT::Update;
#clear DPkg;
"#
    )
}

/// The packages of one Debian release.
pub(crate) struct Suite {
    folder: PathBuf,
}

impl Suite {
    /// Returns the kernel image of the suite. It is in the package of that name or, in newer
    /// releases, in a dependency.
    pub(crate) fn kernel(&self) -> io::Result<PathBuf> {
        self.cached("vmlinuz", || {
            let mut package = KERNEL.to_owned();
            for start in ["linux-image-", "linux-binary-"] {
                package = self.dependency(&package, start)?;
                if let Some(image) = image(&self.unpack(&package)?)? {
                    return Ok(image);
                }
            }
            Err(io::Error::other(format!("{package} contains no kernel")))
        })
    }

    /// Returns the statically linked busybox of the suite.
    pub(crate) fn busybox(&self) -> io::Result<PathBuf> {
        self.cached("busybox", || {
            let unpacked = self.unpack(BUSYBOX)?;
            let places = ["bin/busybox", "usr/bin/busybox"].map(|place| unpacked.join(place));
            let found = places.into_iter().find(|place| place.exists());
            found.ok_or_else(|| io::Error::other(format!("{BUSYBOX} contains no busybox")))
        })
    }

    /// Returns the archive of the sources of the longterm kernel, with Debian's patches.
    pub(crate) fn linux_sources(&self) -> io::Result<PathBuf> {
        self.cached("linux.tar.xz", || {
            let sources = self.unpack(LINUX)?.join("usr/src");
            Ok(sources.join(format!("{LINUX}.tar.xz")))
        })
    }

    /// Returns the folder with the C library of the suite and its loader.
    pub(crate) fn c_library(&self) -> io::Result<PathBuf> {
        self.cached("libc", || {
            let unpacked = self.unpack(C_LIBRARY)?;
            let places = ["lib", "usr/lib"].map(|place| unpacked.join(place));
            let mut places = places
                .map(|place| place.join("x86_64-linux-gnu"))
                .into_iter();
            let found = places.find(|place| place.join("libc.so.6").exists());
            found.ok_or_else(|| io::Error::other(format!("{C_LIBRARY} contains no library")))
        })
    }

    /// Returns the sources of Rust's standard library: the folder `library` of the compiler's
    /// repository.
    pub(crate) fn rust_library(&self) -> io::Result<PathBuf> {
        self.cached("library", || {
            let sources = self.unpack(RUST)?.join("usr/src");
            let places = entries(&sources)?.into_iter();
            let mut places = places.map(|place| place.join("library"));
            // A symbolic link is next to the folder that has the version in its name.
            let found = places.find(|place| place.exists());
            found.ok_or_else(|| io::Error::other(format!("{RUST} contains no library")))
        })
    }

    /// Returns the file of that name in the cache; if it is missing, moves the file that `fetch`
    /// returns there.
    fn cached(
        &self,
        name: &str,
        fetch: impl FnOnce() -> io::Result<PathBuf>,
    ) -> io::Result<PathBuf> {
        let place = self.folder.join(name);
        if !place.exists() {
            output(self.apt("apt-get").args(["--quiet=2", "update"]))?;
            fs::rename(fetch()?, &place)?;
            fs::remove_dir_all(self.fetched())?;
        }
        Ok(place)
    }

    /// Returns the dependency of the package whose name begins with `start`.
    fn dependency(&self, package: &str, start: &str) -> io::Result<String> {
        let about = output(self.apt("apt-cache").args(["show", package]))?;
        let found = dependency(&about, start).map(str::to_owned);
        found.ok_or_else(|| {
            io::Error::other(format!("{package} has no dependency {start}..:\n{about}"))
        })
    }

    /// Returns the folder with the files of a package, below the folder of all fetched packages.
    fn unpack(&self, package: &str) -> io::Result<PathBuf> {
        let folder = self.fetched().join(package);
        fs::create_dir_all(&folder)?;
        let mut download = self.apt("apt-get");
        download.args(["--quiet=2", "download", package]);
        output(download.current_dir(&folder))?;
        let is_package = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "deb");
        let file = entries(&folder)?.into_iter().find(is_package);
        let file =
            file.ok_or_else(|| io::Error::other(format!("apt-get did not download {package}")))?;
        let unpacked = folder.join("unpacked");
        let mut extract = Command::new("dpkg-deb");
        output(extract.arg("--extract").args([&file, &unpacked]))?;
        Ok(unpacked)
    }

    fn fetched(&self) -> PathBuf {
        self.folder.join("fetched")
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .arg("--config-file")
            .arg(self.folder.join("apt.conf"));
        command
    }
}

/// Returns the first dependency with that beginning in apt's description of a package.
fn dependency<'a>(about: &'a str, start: &str) -> Option<&'a str> {
    let depends = about
        .lines()
        .find_map(|line| line.strip_prefix("Depends: "))?;
    let mut names = depends
        .split(", ")
        .filter_map(|part| part.split(' ').next());
    names.find(|name| name.starts_with(start))
}

/// Returns the kernel in an unpacked package, in one of its two usual places.
fn image(unpacked: &Path) -> io::Result<Option<PathBuf>> {
    let mut found = entries(&unpacked.join("boot"))?;
    for release in entries(&unpacked.join("usr/lib/modules"))? {
        found.extend(entries(&release)?);
    }
    let is_image = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("vmlinuz")
    };
    Ok(found.into_iter().find(is_image))
}

/// Returns the entries of a folder; none if the folder does not exist.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    paths.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_its_package_depends_on() {
        let about = "Package: a\nVersion: 1\nDepends: linux-base (>= 4), linux-image-1-cloud-amd64 (= 1-1)\n";
        assert_eq!(
            dependency(about, "linux-image-"),
            Some("linux-image-1-cloud-amd64")
        );
        assert_eq!(dependency(about, "linux-modules-"), None);
        assert_eq!(dependency("Package: a\n", "linux-image-"), None);
    }
}
