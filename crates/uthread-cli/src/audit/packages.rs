//! The dependencies of a program, as cargo resolves them.

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;
use uthread_report::file::write_whole;

use crate::output::tell;

/// A crate that the program contains.
#[derive(Debug)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) version: String,
    /// The folder of its package, and within that the root file of its library and its folder.
    pub(super) package: PathBuf,
    pub(super) root: PathBuf,
    pub(super) sources: PathBuf,
    /// The root files of its binaries, tests and examples, and its build script.
    pub(super) other_roots: Vec<PathBuf>,
    /// Its features, of which some may be those of builds and tests.
    pub(super) features: Vec<String>,
    /// The library of C that it links.
    pub(super) links: Option<String>,
    /// The names of the packages that it uses.
    pub(super) uses: Vec<String>,
}

impl Dependency {
    /// Returns `true` for a crate that uses this one of declarations, or has the name of its
    /// library: `zstd` calls `zstd-sys` through another crate.
    pub(super) fn is_caller_of(&self, declarations: &str) -> bool {
        let has_its_name = declarations.strip_suffix("-sys") == Some(&self.name);
        has_its_name || self.uses.iter().any(|used| used == declarations)
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
    workspace_members: Vec<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    manifest_path: PathBuf,
    links: Option<String>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
    root: Option<String>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
    features: Vec<String>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    /// `None` for one of the program, not of its build or tests.
    kind: Option<String>,
}

/// Returns the dependencies of the package or workspace in a folder, by name, also those in other
/// folders of the program. Leaves out those of builds and tests, macros, and uthread.
///
/// # Errors
///
/// `NotFound` if there is no cargo or no such folder; the message of `cargo metadata` if that
/// fails, such as for a missing `Cargo.toml`.
pub(super) fn of(folder: &Path) -> anyhow::Result<Vec<Dependency>> {
    let metadata = metadata(folder)?;
    let packages: HashMap<_, _> = metadata
        .packages
        .iter()
        .map(|package| (&package.id, package))
        .collect();
    let nodes: HashMap<_, _> = metadata
        .resolve
        .nodes
        .iter()
        .map(|node| (&node.id, node))
        .collect();
    let mut open = match &metadata.resolve.root {
        Some(root) => vec![root],
        None => metadata.workspace_members.iter().collect(),
    };
    let mut seen: BTreeSet<_> = open.iter().copied().collect();
    let mut used = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(id) = open.pop() {
        let (Some(package), Some(node)) = (packages.get(id), nodes.get(id)) else {
            continue;
        };
        if package.is_left_out() {
            continue;
        }
        let of_program = |edge: &&Edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let next = node.deps.iter().filter(of_program).map(|edge| &edge.pkg);
        let next = next.filter(|id| packages.get(id).is_some_and(|next| !next.is_left_out()));
        let next: Vec<_> = next.collect();
        let uses = next.iter().map(|id| packages[id].name.clone()).collect();
        used.extend(next.iter().copied());
        open.extend(next.into_iter().filter(|id| seen.insert(id)));
        found.extend(
            package
                .to_dependency(uses, &node.features)
                .map(|dependency| (id, dependency)),
        );
    }
    // A package of the program itself is one if another package uses it.
    let found = found.into_iter().filter(|(id, _)| used.contains(id));
    let mut found: Vec<_> = found.map(|(_, dependency)| dependency).collect();
    found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(found)
}

/// Resolves the dependencies, and leaves the program's `Cargo.lock` as it is: also where there is
/// none, or one that is out of date.
fn metadata(folder: &Path) -> anyhow::Result<Metadata> {
    let platform = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let metadata = [
        "metadata",
        "--format-version=1",
        "--filter-platform",
        &platform,
    ];
    let locked = [&metadata[..], &["--locked"]].concat();
    let text = cargo(folder, &locked).or_else(|refusal| {
        if !refusal.to_string().contains("--locked") {
            return Err(refusal);
        }
        let manifest = cargo(
            folder,
            &["locate-project", "--workspace", "--message-format=plain"],
        )?;
        let _restored = Lock::keep(Path::new(manifest.trim_end()).with_file_name("Cargo.lock"))?;
        cargo(folder, &metadata)
    })?;
    serde_json::from_str(&text).context("unexpected output of cargo metadata")
}

/// Returns the output of cargo.
fn cargo(folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(&cargo)
        .args(arguments)
        .current_dir(folder)
        .output()
        .with_context(|| {
            if folder.is_dir() {
                format!("cannot run {}; is it installed?", cargo.display())
            } else {
                format!("cannot run cargo in {}", folder.display())
            }
        })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("cargo cannot list the dependencies: {}", message.trim());
    }
    String::from_utf8(output.stdout).context("unexpected output of cargo")
}

/// A `Cargo.lock` that is restored at the end. `cargo` has no stable option to write it elsewhere
/// before version 1.97.
struct Lock {
    path: PathBuf,
    before: Option<Vec<u8>>,
}

impl Lock {
    fn keep(path: PathBuf) -> anyhow::Result<Lock> {
        let before = match fs::read(&path) {
            Ok(before) => Some(before),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        Ok(Lock { path, before })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let is_as_before = fs::read(&self.path).ok() == self.before;
        let restored = match &self.before {
            _ if is_as_before => Ok(()),
            Some(before) => write_whole(&self.path, before),
            None => fs::remove_file(&self.path),
        };
        if let Err(error) = restored {
            tell(format_args!(
                "cannot restore {}: {error}",
                self.path.display()
            ));
        }
    }
}

impl Package {
    fn is_left_out(&self) -> bool {
        self.name == "uthread" || self.target("proc-macro").is_some()
    }

    fn target(&self, kind: &str) -> Option<&Target> {
        let is_of_kind = |target: &&Target| target.kind.iter().any(|own| own == kind);
        self.targets.iter().find(is_of_kind)
    }

    /// Returns `None` for a package without a library.
    fn to_dependency(&self, uses: Vec<String>, features: &[String]) -> Option<Dependency> {
        let library = self.target("lib").or_else(|| self.target("rlib"))?;
        let roots = self.targets.iter().map(|target| &target.src_path);
        Some(Dependency {
            name: self.name.clone(),
            version: self.version.clone(),
            package: self.manifest_path.parent()?.to_owned(),
            root: library.src_path.clone(),
            sources: library.src_path.parent()?.to_owned(),
            other_roots: roots
                .filter(|root| **root != library.src_path)
                .cloned()
                .collect(),
            features: features.to_vec(),
            links: self.links.clone(),
            uses,
        })
    }
}
