//! The dependencies of a program, as cargo resolves them.

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;

/// A crate that the program contains.
#[derive(Debug)]
pub(super) struct Dependency {
    pub(super) name: String,
    pub(super) version: String,
    /// The root of its package, and within that the folder of its library.
    pub(super) package: PathBuf,
    pub(super) sources: PathBuf,
    /// The library of C that it links.
    pub(super) links: Option<String>,
}

impl Dependency {
    /// Returns `true` for a crate that declares functions of C, and calls none.
    pub(super) fn is_of_declarations(&self) -> bool {
        self.name == "libc" || self.name.ends_with("-sys")
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
    /// `None` for a package in a folder of the program.
    source: Option<String>,
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

/// Returns the dependencies of the package or workspace in a folder, by name. Leaves out those of
/// builds and tests, macros, and uthread.
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
    let mut found = Vec::new();
    while let Some(id) = open.pop() {
        let (Some(package), Some(node)) = (packages.get(id), nodes.get(id)) else {
            continue;
        };
        let is_own = package.source.is_none();
        if package.name == "uthread" || package.is_macro() {
            continue;
        }
        if !is_own && let Some(dependency) = package.to_dependency() {
            found.push(dependency);
        }
        let of_program = |edge: &&Edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let next = node.deps.iter().filter(of_program).map(|edge| &edge.pkg);
        open.extend(next.filter(|id| seen.insert(id)));
    }
    found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(found)
}

fn metadata(folder: &Path) -> anyhow::Result<Metadata> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let platform = format!("{}-unknown-linux-gnu", env::consts::ARCH);
    let output = Command::new(&cargo)
        .args([
            "metadata",
            "--format-version=1",
            "--filter-platform",
            &platform,
        ])
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
    serde_json::from_slice(&output.stdout).context("unexpected output of cargo metadata")
}

impl Package {
    fn is_macro(&self) -> bool {
        self.has_target("proc-macro").is_some()
    }

    fn has_target(&self, kind: &str) -> Option<&Target> {
        let is_of_kind = |target: &&Target| target.kind.iter().any(|own| own == kind);
        self.targets.iter().find(is_of_kind)
    }

    /// Returns `None` for a package without a library.
    fn to_dependency(&self) -> Option<Dependency> {
        let library = self.has_target("lib").or_else(|| self.has_target("rlib"))?;
        Some(Dependency {
            name: self.name.clone(),
            version: self.version.clone(),
            package: self.manifest_path.parent()?.to_owned(),
            sources: library.src_path.parent()?.to_owned(),
            links: self.links.clone(),
        })
    }
}
