//! Debian's archive: the packages of a suite, by apt with a configuration and a state of its own.
//!
//! The mirror is the one that this machine uses. What was taken out of a package is kept, and fetched again
//! only after it was deleted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tools::{KEYS, output};

/// The package that depends on the newest kernel of a suite: the flavour for virtual machines, which has
/// the same source and half the size.
const KERNEL: &str = "linux-image-cloud-amd64";

/// The tools of the guest in one program that needs no library.
const BUSYBOX: &str = "busybox-static";

/// The sources of the standard library, its tests among them.
const RUST: &str = "rust-src";

pub(crate) struct Archive {
    mirror: String,
    folder: PathBuf,
}

impl Archive {
    /// The archive as this machine reaches it; files go below `folder`.
    pub(crate) fn of_this_machine(folder: &Path) -> io::Result<Archive> {
        let mut command = Command::new("apt-get");
        command.args(["indextargets", "--format", "$(REPO_URI)"]);
        command.args(["Created-By: Packages", "Origin: Debian", "Component: main"]);
        let mirrors = output(&mut command)?;
        // Those of security updates and the like have longer names.
        let Some(mirror) = mirrors.lines().min_by_key(|line| line.len()) else {
            let text =
                "apt knows no mirror of Debian: see /etc/apt/sources.list, and run apt-get update";
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

/// Lets apt read and write nothing of the system but how the network is reached.
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

/// The packages of one release of Debian.
pub(crate) struct Suite {
    folder: PathBuf,
}

impl Suite {
    /// The image of its kernel, which the package of that name has, or in newer releases one that it
    /// depends on.
    pub(crate) fn kernel(&self) -> io::Result<PathBuf> {
        self.cached("vmlinuz", || {
            let mut package = KERNEL.to_owned();
            for start in ["linux-image-", "linux-binary-"] {
                package = self.dependency(&package, start)?;
                if let Some(image) = image(&self.unpack(&package)?)? {
                    return Ok(image);
                }
            }
            Err(io::Error::other(format!("{package} has no kernel")))
        })
    }

    /// Its busybox, linked statically.
    pub(crate) fn busybox(&self) -> io::Result<PathBuf> {
        self.cached("busybox", || {
            let unpacked = self.unpack(BUSYBOX)?;
            let places = ["bin/busybox", "usr/bin/busybox"].map(|place| unpacked.join(place));
            let found = places.into_iter().find(|place| place.exists());
            found.ok_or_else(|| io::Error::other(format!("{BUSYBOX} has no busybox")))
        })
    }

    /// The sources of Rust's standard library: the folder `library` of the compiler's repository.
    pub(crate) fn rust_library(&self) -> io::Result<PathBuf> {
        self.cached("library", || {
            let sources = self.unpack(RUST)?.join("usr/src");
            let places = entries(&sources)?.into_iter();
            let mut places = places.map(|place| place.join("library"));
            // A link stands beside the folder that has the version in its name.
            let found = places.find(|place| place.exists());
            found.ok_or_else(|| io::Error::other(format!("{RUST} has no library")))
        })
    }

    /// The file of that name in our folder; where there is none yet, the one that `fetch` returns moves
    /// there.
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

    /// The package that begins so and that this one depends on.
    fn dependency(&self, package: &str, start: &str) -> io::Result<String> {
        let about = output(self.apt("apt-cache").args(["show", package]))?;
        let found = dependency(&about, start).map(str::to_owned);
        found
            .ok_or_else(|| io::Error::other(format!("{package} depends on no {start}..:\n{about}")))
    }

    /// The folder with what a package has, below the one of all that was fetched.
    fn unpack(&self, package: &str) -> io::Result<PathBuf> {
        let folder = self.fetched().join(package);
        fs::create_dir_all(&folder)?;
        let mut download = self.apt("apt-get");
        download.args(["--quiet=2", "download", package]);
        output(download.current_dir(&folder))?;
        let is_package = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "deb");
        let file = entries(&folder)?.into_iter().find(is_package);
        let file = file.ok_or_else(|| io::Error::other(format!("apt-get left no {package}")))?;
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

/// The first package that begins so among the dependencies in what apt tells about one.
fn dependency<'a>(about: &'a str, start: &str) -> Option<&'a str> {
    let depends = about
        .lines()
        .find_map(|line| line.strip_prefix("Depends: "))?;
    let mut names = depends
        .split(", ")
        .filter_map(|part| part.split(' ').next());
    names.find(|name| name.starts_with(start))
}

/// The kernel in an unpacked package: in one of its two usual places.
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

/// What is in a folder: nothing where there is none.
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
