//! The manifests of cargo: each dependency has a reason, a comment above it, and a package is
//! published with all that a registry and its users need, or it says `publish = false`.
//!
//! The package contains its licences, as links to those of the project, and a README of its own,
//! because links to other files of the repository lead nowhere in it. A registry shows that README,
//! also for the parts of the program. Manifests are read by lines: each dependency has one.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::Tree;

/// Fields that every published package has.
const FIELDS: [&str; 8] = [
    "description",
    "license",
    "rust-version",
    "version",
    "include",
    "readme",
    "keywords",
    "categories",
];

const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

const COMPLETE: &str = "add it, or say `publish = false`";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let files = tree.files();
    let manifests = files.filter(|(path, _)| path.rsplit('/').next() == Some("Cargo.toml"));
    let manifests: Vec<Manifest<'_>> = manifests
        .map(|(path, text)| Manifest::new(path, text))
        .collect();
    let packages = manifests.iter();
    let packages = packages.filter_map(|manifest| Some((manifest.text("name")?, manifest)));
    let packages: BTreeMap<&str, &Manifest<'_>> = packages.collect();
    let mut findings = Vec::new();
    for manifest in &manifests {
        manifest.check_reasons(&packages, &mut findings);
    }
    for package in packages.values().filter(|package| package.is_public()) {
        package.check_package(tree, &mut findings);
        package.check_parts(&packages, &mut findings);
    }
    findings
}

struct Manifest<'a> {
    path: &'a str,
    /// The lines of the section `[package]`, by their key.
    package: BTreeMap<&'a str, &'a str>,
    dependencies: Vec<Dependency<'a>>,
    has_docs_metadata: bool,
}

struct Dependency<'a> {
    name: &'a str,
    value: &'a str,
    line: usize,
    has_reason: bool,
    is_of_tests: bool,
}

impl<'a> Manifest<'a> {
    fn new(path: &'a str, text: &'a str) -> Self {
        let mut manifest = Self {
            path,
            package: BTreeMap::new(),
            dependencies: Vec::new(),
            has_docs_metadata: text.contains("[package.metadata.docs.rs]"),
        };
        let (mut section, mut above) = ("", "");
        for (line, number) in text.lines().zip(1..) {
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']');
            }
            let has_key = line.starts_with(|first: char| first.is_alphabetic());
            if has_key && let Some((name, value)) = line.split_once([' ', '.', '=']) {
                if section == "package" {
                    manifest.package.insert(name, value);
                } else if section.ends_with("dependencies") {
                    manifest.dependencies.push(Dependency {
                        name,
                        value,
                        line: number,
                        has_reason: above.starts_with("# "),
                        is_of_tests: section.ends_with("dev-dependencies"),
                    });
                }
            }
            above = line;
        }
        manifest
    }

    /// Returns the text that is the value of a field.
    fn text(&self, field: &str) -> Option<&'a str> {
        self.package.get(field)?.split('"').nth(1)
    }

    fn is_public(&self) -> bool {
        !self.package.contains_key("publish")
    }

    /// Returns the path of a file of this package from the root of the repository.
    fn file(&self, name: &str) -> String {
        let folder = self.path.trim_end_matches("Cargo.toml");
        format!("{folder}{name}")
    }

    fn check_reasons(&self, own: &BTreeMap<&str, &Manifest<'_>>, out: &mut Vec<Finding>) {
        for dependency in &self.dependencies {
            let name = dependency.name;
            let is_own = own.contains_key(name) || dependency.value.contains("path = ");
            if !is_own && !dependency.has_reason {
                let what = format!("the dependency {name} has no reason");
                let remedy = "write a comment above it";
                out.push(Finding::new(self.path, dependency.line, what, remedy));
            }
        }
    }

    fn check_package(&self, tree: &Tree, out: &mut Vec<Finding>) {
        let mut lacks = |what: String| {
            let what = format!("a published package has no {what}");
            out.push(Finding::new(self.path, 1, what, COMPLETE));
        };
        for name in FIELDS {
            // A package with `readme = false` has no page in a registry.
            let value = self.package.get(name);
            if value.is_none_or(|value| value.ends_with("false")) {
                lacks(format!("`{name}`"));
            }
        }
        if tree.exists(&self.file("src/lib.rs")) && !self.has_docs_metadata {
            lacks("`[package.metadata.docs.rs]`".to_owned());
        }
        let readme = self.text("readme");
        for name in LICENCES.into_iter().chain(readme) {
            if !tree.exists(&self.file(name)) {
                lacks(format!("file `{name}`"));
            }
        }
        let page = self.file(readme.unwrap_or_default());
        for (line, number) in tree.text(&page).lines().zip(1..) {
            if line.contains("](../") {
                let what = "a link leads out of the package";
                out.push(Finding::new(&page, number, what, "name the thing instead"));
            }
        }
    }

    /// Checks that a published package depends only on published ones, with versions. Tests and
    /// examples are not part of a package.
    fn check_parts(&self, packages: &BTreeMap<&str, &Manifest<'_>>, out: &mut Vec<Finding>) {
        let parts = self.dependencies.iter();
        for part in parts.filter(|part| !part.is_of_tests && part.value.contains("path = ")) {
            let name = part.name;
            if !part.value.contains("version = ") {
                let what = format!("the dependency {name} of a published package has no version");
                out.push(Finding::new(self.path, part.line, what, "add it"));
            }
            if packages.get(name).is_some_and(|part| !part.is_public()) {
                let what = format!("a published package depends on {name}, which is not");
                let remedy = "publish both or none";
                out.push(Finding::new(self.path, part.line, what, remedy));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const OURS: &str = r#"[package]
name = "ours"
description = "Ours"
readme = "README.md"
version.workspace = true
rust-version.workspace = true
license.workspace = true
include.workspace = true
keywords = ["ours"]
categories = ["concurrency"]

[package.metadata.docs.rs]
targets = ["x86_64-unknown-linux-gnu"]

[dependencies]
part = { path = "../part", version = "=0.1.0" }
# Needed there.
theirs = "1"

[target.'cfg(unix)'.dev-dependencies]
private = { path = "../private" }
"#;

    #[test]
    fn each_fault_of_a_manifest_is_found() {
        let part = OURS.replace("\"ours\"", "\"part\"");
        let part = part.split("part = {").next().expect("it depends on itself");
        let private = "[package]\nname = \"private\"\npublish = false\n";
        let page = "[MIT](LICENSE-MIT)\n";
        let good = [
            ("/private/Cargo.toml", private),
            ("/part/Cargo.toml", part),
            ("/part/README.md", page),
            ("/part/LICENSE-APACHE", ""),
            ("/part/LICENSE-MIT", ""),
            ("Cargo.toml", OURS),
            ("README.md", page),
            ("LICENSE-APACHE", ""),
            ("LICENSE-MIT", ""),
            ("src/lib.rs", "//! Ours.\n"),
        ];
        let own = "part = { path = \"../part\"";
        let other = "private = { path = \"../private\"";
        #[rustfmt::skip]
        let cases = [
            ("# Needed there.\n", "", "17: the dependency theirs has no reason"),
            ("license.w", "w", "1: a published package has no `license`"),
            ("\"README.md\"", "false", "1: a published package has no `readme`"),
            ("[package.metadata.docs.rs]", "[docs]", "1: a published package has no `[package.me"),
            ("README.md", "other.md", "1: a published package has no file `other.md`"),
            (", version = \"=0.1.0\"", "", "16: the dependency part of a published package has no"),
            (own, other, "16: a published package depends on private"),
        ];
        for (text, other, fault) in cases {
            let text = OURS.replace(text, other);
            let case = ("Cargo.toml", &*text, &*format!("Cargo.toml:{fault}"));
            plant(check, "ours/", &good, &[case]);
        }
        let (page, fault) = (
            "A\n[b](../b.md)\n",
            "README.md:2: a link leads out of the package",
        );
        plant(check, "ours/", &good, &[("README.md", page, fault)]);
    }
}
