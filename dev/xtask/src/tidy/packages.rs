//! A package is published with all that a registry and its users need, or it says
//! `publish = false`.
//!
//! The package contains its licences, as links to those of the project, and a README of its own,
//! because links to other files of the repository lead nowhere in it. A registry shows that README,
//! also for the parts of the program.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::Finding;
use super::tree::{Tree, line_at};

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

const REMEDY: &str = "add it, or say `publish = false`";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let packages: Vec<Package<'_>> = tree
        .files()
        .filter_map(|(path, text)| Package::parse(path, text))
        .collect();
    let published: BTreeMap<&str, bool> = packages
        .iter()
        .map(|package| {
            (
                package.text("name").unwrap_or_default(),
                package.is_public(),
            )
        })
        .collect();
    let is_published = |name: &str| published.get(name) != Some(&false);
    let mut findings = Vec::new();
    for package in packages.iter().filter(|package| package.is_public()) {
        package.check_fields(&mut findings);
        package.check_files(tree, &mut findings);
        package.check_dependencies(is_published, &mut findings);
    }
    findings
}

/// The manifest of a package.
struct Package<'a> {
    path: &'a str,
    source: &'a str,
    manifest: DeTable<'a>,
}

impl<'a> Package<'a> {
    /// Returns `None` for other files, for a manifest without a package, and for one that is not
    /// TOML, which another check reports.
    fn parse(path: &'a str, source: &'a str) -> Option<Self> {
        path.ends_with("Cargo.toml").then_some(())?;
        let manifest = DeTable::parse(source).ok()?.into_inner();
        manifest.get("package")?;
        Some(Self {
            path,
            source,
            manifest,
        })
    }

    fn field(&self, name: &str) -> Option<&DeValue<'a>> {
        let package = self.manifest.get("package")?.get_ref();
        Some(package.get(name)?.get_ref())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.field(name)?.as_str()
    }

    fn is_public(&self) -> bool {
        self.field("publish").and_then(DeValue::as_bool) != Some(false)
    }

    /// Returns the path of a file of this package from the root of the repository.
    fn file(&self, name: &str) -> String {
        let folder = self.path.trim_end_matches("Cargo.toml");
        format!("{folder}{name}")
    }

    fn check_fields(&self, findings: &mut Vec<Finding>) {
        for name in FIELDS {
            // A package with `readme = false` has no page in a registry.
            let is_false = self.field(name).and_then(DeValue::as_bool) == Some(false);
            if is_false || self.field(name).is_none() {
                let what = format!("a published package has no `{name}`");
                findings.push(Finding::new(self.path, 1, what, REMEDY));
            }
        }
    }

    fn check_files(&self, tree: &Tree, findings: &mut Vec<Finding>) {
        let has_library = tree.exists(&self.file("src/lib.rs"));
        let metadata = self.field("metadata").and_then(|table| table.get("docs"));
        if has_library && metadata.is_none() {
            let what = "a published library has no `[package.metadata.docs.rs]`";
            findings.push(Finding::new(self.path, 1, what, REMEDY));
        }
        let readme = self.text("readme");
        for name in LICENCES.into_iter().chain(readme) {
            if !tree.exists(&self.file(name)) {
                let what = format!("a published package has no file `{name}`");
                findings.push(Finding::new(self.path, 1, what, REMEDY));
            }
        }
        let Some(page) = readme.map(|name| self.file(name)) else {
            return;
        };
        for (line, number) in tree.text(&page).lines().zip(1..) {
            if line.contains("](../") {
                let what = "a link leads out of the package";
                findings.push(Finding::new(&page, number, what, "name the thing instead"));
            }
        }
    }

    /// Checks that a published package depends only on published ones, with versions. Tests and
    /// examples are not part of a package.
    fn check_dependencies(&self, is_published: impl Fn(&str) -> bool, findings: &mut Vec<Finding>) {
        let kinds = ["dependencies", "build-dependencies"].into_iter();
        let tables = kinds.filter_map(|kind| self.manifest.get(kind)?.get_ref().as_table());
        for (name, details) in tables.flatten() {
            let details_of = |key: &str| details.get_ref().get(key);
            if details_of("path").is_none() {
                continue;
            }
            let line = line_at(self.source, name.span().start);
            let name = name.get_ref();
            if details_of("version").is_none() {
                let what = format!("the dependency {name} of a published package has no version");
                findings.push(Finding::new(self.path, line, what, "add it"));
            }
            if !is_published(name) {
                let what = format!("a published package depends on {name}, which is not");
                findings.push(Finding::new(self.path, line, what, "publish both or none"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const MANIFEST: &str = r#"[package]
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
theirs = "1"

[dev-dependencies]
private = { path = "../private" }
"#;

    const PART: &str = r#"[package]
name = "part"
description = "Part of ours"
readme = "README.md"
version = "0.1.0"
rust-version = "1.95"
license = "MIT"
include = ["/src"]
keywords = ["part"]
categories = ["concurrency"]

[package.metadata.docs.rs]
targets = ["x86_64-unknown-linux-gnu"]
"#;

    const PRIVATE: &str = "[package]\nname = \"private\"\npublish = false\n";

    /// Plants a file in a tree with a published package, a part of it and a private package.
    #[track_caller]
    fn plant_file(path: &str, text: &str, expected: &[&str]) {
        let good = [
            ("Cargo.toml", "[workspace]\nmembers = [\"*\"]\n"),
            ("ours/Cargo.toml", MANIFEST),
            ("ours/README.md", "[MIT](LICENSE-MIT)\n"),
            ("ours/LICENSE-MIT", ""),
            ("ours/LICENSE-APACHE", ""),
            ("ours/src/lib.rs", "//! Ours.\n"),
            ("part/Cargo.toml", PART),
            ("part/README.md", "Part of ours.\n"),
            ("part/LICENSE-MIT", ""),
            ("part/LICENSE-APACHE", ""),
            ("part/src/lib.rs", "//! Part.\n"),
            ("private/Cargo.toml", PRIVATE),
        ];
        plant(check, &good, (path, text), expected);
    }

    #[test]
    fn a_published_package_has_every_field() {
        for name in FIELDS {
            let lines = MANIFEST.split_inclusive('\n');
            let without: String = lines.filter(|line| !line.starts_with(name)).collect();
            let expected = format!("ours/Cargo.toml:1: a published package has no `{name}`");
            plant_file("ours/Cargo.toml", &without, &[&expected]);
        }
        let without = MANIFEST.replace("readme = \"README.md\"", "readme = false");
        let expected = "ours/Cargo.toml:1: a published package has no `readme`";
        plant_file("ours/Cargo.toml", &without, &[expected]);
        let without = MANIFEST.replace("[package.metadata.docs.rs]\ntargets", "keys");
        let expected = "ours/Cargo.toml:1: a published library has no `[package.metadata";
        plant_file("ours/Cargo.toml", &without, &[expected]);
    }

    #[test]
    fn a_published_package_has_its_files() {
        let other = MANIFEST.replace("README.md", "other.md");
        let expected = "ours/Cargo.toml:1: a published package has no file `other.md`";
        plant_file("ours/Cargo.toml", &other, &[expected]);
        plant_file(
            "new/Cargo.toml",
            &PART.replace("part", "new"),
            &[
                "new/Cargo.toml:1: a published package has no file `LICENSE-APACHE`",
                "new/Cargo.toml:1: a published package has no file `LICENSE-MIT`",
                "new/Cargo.toml:1: a published package has no file `README.md`",
            ],
        );
    }

    #[test]
    fn the_page_of_a_package_links_to_its_own_files() {
        let expected = "ours/README.md:2: a link leads out of the package";
        plant_file("ours/README.md", "A\n[b](../b.md)\n", &[expected]);
    }

    #[test]
    fn a_published_package_depends_on_published_versions() {
        let without = MANIFEST.replace(", version = \"=0.1.0\"", "");
        let expected = "ours/Cargo.toml:16: the dependency part of a published package has no";
        plant_file("ours/Cargo.toml", &without, &[expected]);
        let private = PART.replace("description", "publish = false\ndescription");
        let expected = "ours/Cargo.toml:16: a published package depends on part, which is not";
        plant_file("part/Cargo.toml", &private, &[expected]);
    }
}
