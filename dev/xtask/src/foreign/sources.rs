//! Fetches sources with cargo, copies and ports them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::cargo::{cargo, executable};
use super::files::{copy, files, write};
use super::plan::{CRATES, Crate, DEPENDENCIES, Edit, FIBERS, STD, STD_CRATE, STD_SUITE};
use super::std_tests;
use crate::kernels::archive::Archive;
use crate::kernels::tools::output;

/// The program that ports, and its package.
const PROGRAM: &str = "uthread";
const PROGRAM_PACKAGE: &str = "uthread-cli";

/// Makes a crate the root of its own workspace, although it is in our folder.
const ROOT: &str = "\n[workspace]\n";

/// How a copy of a crate differs from the published one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The published crate.
    Plain,
    /// Paths are replaced by `uthread port`.
    Ported,
    /// Its threads become fibers, and everything else stays `std`'s.
    Fibers,
}

impl Form {
    pub(super) const ALL: [Form; 3] = [Form::Plain, Form::Ported, Form::Fibers];

    /// Returns the form of the crates that run in this column.
    pub(super) fn on(driver: &str) -> Form {
        match driver {
            STD => Form::Plain,
            FIBERS => Form::Fibers,
            _ => Form::Ported,
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Form::Plain => "std",
            Form::Ported => "ported",
            Form::Fibers => "fibers",
        }
    }
}

/// Folders of crates by their forms: `std/NAME`, `ported/NAME`, `fibers/NAME`.
pub(super) struct Sources {
    root: PathBuf,
    folder: PathBuf,
    pub(super) program: PathBuf,
    /// Cargo's metadata of the fetched crates.
    metadata: Value,
}

impl Sources {
    /// Fetches everything in the plan, and builds the program that ports.
    pub(super) fn fetch(root: &Path, folder: &Path) -> io::Result<Sources> {
        let manifest = folder.join("fetch/Cargo.toml");
        write(&folder.join("fetch/src/lib.rs"), "")?;
        write(&manifest, &fetching())?;
        let mut metadata = cargo(&folder.join("fetch"), &["metadata"]);
        let metadata = output(metadata.args(["--format-version", "1"]))?;
        let mut build = cargo(root, &["build", "--bin", PROGRAM]);
        build.args(["--package", PROGRAM_PACKAGE, "--message-format=json"]);
        let messages = output(&mut build)?;
        let program = messages.lines().find_map(executable);
        Ok(Sources {
            root: root.to_owned(),
            folder: folder.to_owned(),
            program: program.ok_or_else(|| io::Error::other("cargo built no program"))?,
            metadata: serde_json::from_str(&metadata)?,
        })
    }

    /// Returns the folder of a fresh copy of a crate in this form, and the tests of `std` that do
    /// not compile in it.
    pub(super) fn copy(&self, of: &Crate, form: Form) -> io::Result<(PathBuf, Vec<String>)> {
        let folder = self.folder.join(form.folder());
        if form == Form::Plain || of.behind.is_some() {
            self.plain(of, &folder.join(of.name))?;
        } else {
            let among = |it: &&Crate| of.with.contains(&it.name);
            for dependency in DEPENDENCIES.iter().filter(among) {
                self.change(dependency, form, &folder.join(dependency.name))?;
            }
            self.change(of, form, &folder.join(of.name))?;
        }
        let folder = folder.join(of.name);
        let refused = match of.name {
            STD_CRATE => std_tests::prune(&folder, &self.folder.join("build"))?,
            _ => Vec::new(),
        };
        Ok((folder, refused))
    }

    fn plain(&self, of: &Crate, folder: &Path) -> io::Result<String> {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        match of.name {
            STD_CRATE => self.std_tests(folder)?,
            _ => copy(&self.published(of)?, folder)?,
        }
        let manifest = folder.join("Cargo.toml");
        let mut text = fs::read_to_string(&manifest)?;
        if !text.contains(ROOT) {
            text += ROOT;
        }
        fs::write(&manifest, &text)?;
        for package in of.updated {
            output(&mut cargo(folder, &["update", "--package", package]))?;
        }
        Ok(text)
    }

    fn change(&self, of: &Crate, form: Form, folder: &Path) -> io::Result<()> {
        let manifest = self.plain(of, folder)?;
        match form {
            Form::Fibers => replace_threads(of, folder)?,
            _ => self.port(of, folder)?,
        }
        for Edit { file, old, new, .. } in of.edits {
            let file = folder.join(file);
            let text = fs::read_to_string(&file)?;
            fs::write(file, text.replace(old, new))?;
        }
        let library = self.root.join("crates/uthread");
        let text = dependent(&manifest, &library, of.with);
        fs::write(folder.join("Cargo.toml"), text)?;
        if is_of_2015(&manifest) {
            let mut roots = vec![folder.join("src/lib.rs")];
            if folder.join("tests").exists() {
                roots.extend(files(&folder.join("tests"))?);
            }
            for root in roots.iter().filter(|path| path.exists()) {
                let text = fs::read_to_string(root)?;
                fs::write(root, text + "\nextern crate uthread;\n")?;
            }
        }
        Ok(())
    }

    fn port(&self, of: &Crate, folder: &Path) -> io::Result<()> {
        let mut port = Command::new(&self.program);
        port.current_dir(folder).args(["port", "--main", "--tests"]);
        port.args(of.locals.then_some("--locals"));
        let present = ["src", "tests"].map(|name| folder.join(name));
        let present: Vec<_> = present.iter().filter(|path| path.exists()).collect();
        output(port.args(&present)).map(drop)
    }

    /// Returns the crate of std's tests that compile outside `std`, which is made once.
    fn std_tests(&self, folder: &Path) -> io::Result<()> {
        let made = self.folder.join(STD_CRATE);
        if !made.exists() {
            let suite = Archive::of_this_machine(&self.folder)?.suite(STD_SUITE)?;
            std_tests::make(&suite.rust_library()?, &made)?;
            std_tests::prune(&made, &self.folder.join("build"))?;
        }
        copy(&made, folder)
    }

    /// Returns cargo's folder of a published crate.
    fn published(&self, of: &Crate) -> io::Result<PathBuf> {
        let packages = self.metadata["packages"].as_array();
        let mut packages = packages.into_iter().flatten();
        // Cargo fetches a crate without a library, too, but does not list it.
        let listed = |it: &&Value| {
            it["source"].is_string()
                && (of.behind.is_some() || it["name"] == of.name && it["version"] == of.version)
        };
        let manifest = packages
            .find(listed)
            .and_then(|it| it["manifest_path"].as_str());
        let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
        let folder = folder.map(|folder| match of.behind {
            Some(_) => folder.with_file_name(format!("{}-{}", of.name, of.version)),
            None => folder.to_owned(),
        });
        let folder = folder.filter(|folder| folder.exists());
        folder.ok_or_else(|| io::Error::other(format!("cargo fetched no {}", of.name)))
    }
}

/// Returns a manifest with which cargo fetches all crates.
fn fetching() -> String {
    let mut text =
        "[package]\nname = \"fetch\"\nedition = \"2024\"\n\n[workspace]\n\n[dependencies]\n"
            .to_owned();
    let published = CRATES.iter().filter(|of| of.name != STD_CRATE);
    for Crate { name, version, .. } in published.chain(&DEPENDENCIES) {
        // Some appear twice.
        if text.contains(&format!("\n{name} = ")) {
            continue;
        }
        text += &format!("{name} = \"={version}\"\n");
    }
    text
}

/// Returns the manifest of a ported crate, which depends on the library and on ported crates next
/// to it. They are not patched in, because the library itself may depend on them.
fn dependent(manifest: &str, library: &Path, with: &[&str]) -> String {
    let mut text = String::new();
    for line in manifest.lines() {
        text += &format!("{line}\n");
        let name = with
            .iter()
            .find(|name| line.ends_with(&format!("dependencies.{name}]")));
        if let Some(name) = name {
            text += &format!("path = \"../{name}\"\n");
        }
    }
    let library = library.display();
    text + &format!("\n[dependencies.uthread]\npath = \"{library}\"\n")
}

/// Makes fibers of the threads in the planned files.
fn replace_threads(of: &Crate, folder: &Path) -> io::Result<()> {
    for path in of.threads {
        let path = folder.join(path);
        let files = if path.is_dir() {
            files(&path)?
        } else {
            vec![path]
        };
        for file in files {
            let text = fs::read_to_string(&file)?;
            fs::write(file, on_fibers(&text))?;
        }
    }
    Ok(())
}

/// Returns the text with fibers instead of threads, also for the tests themselves.
fn on_fibers(text: &str) -> String {
    /// Items that have no counterpart, as thread-locals stay those of `std`.
    const KEPT: [&str; 2] = ["LocalKey", "AccessError"];
    let mut text = text.replace("#[test]", "#[uthread::test]");
    for end in [";", "::"] {
        text = text.replace(
            &format!("std::thread{end}"),
            &format!("uthread::thread{end}"),
        );
    }
    for item in KEPT {
        text = text.replace(
            &format!("uthread::thread::{item}"),
            &format!("std::thread::{item}"),
        );
    }
    text
}

fn is_of_2015(manifest: &str) -> bool {
    let mut editions = manifest.lines();
    !editions.any(|line| line.starts_with("edition = ") && !line.contains("2015"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ported_manifest_depends_on_the_library_and_on_ported_crates() {
        let manifest = "[package]\nname = \"a\"\n\n[dependencies.b]\nversion = \"1\"\n";
        let expected = "[package]\nname = \"a\"\n\n[dependencies.b]\npath = \"../b\"\n\
                        version = \"1\"\n\n[dependencies.uthread]\npath = \"/u\"\n";
        assert_eq!(dependent(manifest, Path::new("/u"), &["b", "c"]), expected);
    }

    #[test]
    fn only_threads_become_fibers() {
        let text = "use std::thread;\nuse std::thread::LocalKey;\nuse std::sync::Mutex;\n\
                    #[test]\nfn f() { std::thread::spawn(g); std::thread_local!(); }\n";
        let expected = "use uthread::thread;\nuse std::thread::LocalKey;\nuse std::sync::Mutex;\n\
                        #[uthread::test]\nfn f() { uthread::thread::spawn(g); std::thread_local!(); }\n";
        assert_eq!(on_fibers(text), expected);
    }

    #[test]
    fn the_first_edition_is_that_of_manifests_without() {
        assert!(is_of_2015("name = \"a\"\n"));
        assert!(is_of_2015("edition = \"2015\"\n"));
        assert!(!is_of_2015("edition = \"2018\"\n"));
    }

    #[test]
    fn every_crate_is_fetched_and_dependencies_are_known() {
        let manifest = fetching();
        for of in CRATES.iter().filter(|of| of.name != STD_CRATE) {
            assert!(manifest.contains(&format!("\n{} = \"=", of.name)));
            for name in of.with {
                assert!(DEPENDENCIES.iter().any(|it| it.name == *name), "{name}");
            }
        }
    }
}
