//! Checks that every dependency has a reason in ARCHITECTURE.md.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::Finding;
use super::tree::{Tree, line_at};

const REASONS: &str = "ARCHITECTURE.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut own, mut used) = (Vec::new(), BTreeMap::new());
    for (path, text) in tree
        .files()
        .filter(|(path, _)| path.rsplit('/').next() == Some("Cargo.toml"))
    {
        let manifest = match DeTable::parse(text) {
            Ok(manifest) => manifest.into_inner(),
            Err(error) => {
                findings.push(Finding::new(
                    path,
                    1,
                    format!("not TOML ({})", error.message()),
                    "correct it",
                ));
                continue;
            }
        };
        own.extend(
            manifest
                .get("package")
                .and_then(|package| text_at(package.get_ref(), "name")),
        );
        collect(&manifest, &mut |name, start| {
            used.entry(name).or_insert((path, line_at(text, start)));
        });
    }
    used.retain(|name, _| !own.contains(name));

    let reasons = reasons(tree.text(REASONS));
    for (name, (path, line)) in used
        .iter()
        .filter(|(name, _)| !reasons.contains_key(name.as_str()))
    {
        let what = format!("the dependency {name} has no reason in {REASONS}");
        findings.push(Finding::new(
            path,
            *line,
            what,
            "add a line \"- `name`: reason\" to the section Dependencies",
        ));
    }
    for (name, line) in reasons
        .iter()
        .filter(|(name, _)| !used.contains_key(**name))
    {
        let what = format!("no crate depends on {name}");
        findings.push(Finding::new(REASONS, *line, what, "delete the line"));
    }
    findings
}

/// Passes every dependency to `found`, by its name in the registry and the offset of its declaration, in any table: at
/// the top level, below `target` or below `workspace`.
fn collect(table: &DeTable<'_>, found: &mut impl FnMut(String, usize)) {
    for (key, value) in table {
        let DeValue::Table(inner) = value.get_ref() else {
            continue;
        };
        if !key.get_ref().ends_with("dependencies") {
            collect(inner, found);
            continue;
        }
        for (name, details) in inner {
            let renamed = text_at(details.get_ref(), "package");
            found(
                renamed.unwrap_or_else(|| name.get_ref().to_string()),
                name.span().start,
            );
        }
    }
}

fn text_at(value: &DeValue<'_>, key: &str) -> Option<String> {
    Some(value.get(key)?.get_ref().as_str()?.to_owned())
}

/// Returns the names in the lines "- `name`: reason" below the heading Dependencies, with their line numbers.
fn reasons(text: &str) -> BTreeMap<&str, usize> {
    let section = text
        .lines()
        .zip(1..)
        .skip_while(|(line, _)| *line != "## Dependencies")
        .skip(1);
    let entries = section.take_while(|(line, _)| !line.starts_with("## "));
    entries
        .filter_map(|(text, line)| Some((name_with_reason(text)?, line)))
        .collect()
}

fn name_with_reason(text: &str) -> Option<&str> {
    let (name, reason) = text.strip_prefix("- `")?.split_once("`: ")?;
    (!reason.trim().is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const MANIFEST: &str = r#"
[package]
name = "ours"

[dependencies]
here = "1"
ours = { path = "." }

[dev-dependencies]
there = { package = "named-elsewhere", version = "1" }

[target.'cfg(unix)'.build-dependencies.below]
version = "1"
"#;

    const ARCHITECTURE: &str = "\
# A

- `not-a-dependency`: this is another section.

## Dependencies

For the library:

- `here`: because.
- `named-elsewhere`: because.
- `below`: because.

## Z

- `neither`: is this.
";

    #[test]
    fn every_dependency_needs_a_reason() {
        let good = [("a/Cargo.toml", MANIFEST), (REASONS, ARCHITECTURE)];
        let more = MANIFEST.replace("here = \"1\"", "here = \"1\"\nmore = \"1\"");
        plant(
            check,
            &good,
            ("a/Cargo.toml", &more),
            &["a/Cargo.toml:7: the dependency more has no"],
        );
        for (name, line) in [("here", 6), ("named-elsewhere", 10), ("below", 12)] {
            let without = ARCHITECTURE.replace(&format!("- `{name}`: because.\n"), "");
            let expected = format!("a/Cargo.toml:{line}: the dependency {name} has no reason");
            plant(check, &good, (REASONS, &without), &[&expected]);
        }
        let empty = ARCHITECTURE.replace("- `here`: because.", "- `here`: ");
        plant(
            check,
            &good,
            (REASONS, &empty),
            &["a/Cargo.toml:6: the dependency here has no reason"],
        );
    }

    #[test]
    fn every_reason_needs_a_dependency() {
        let good = [("a/Cargo.toml", MANIFEST), (REASONS, ARCHITECTURE)];
        let less = MANIFEST.replace("here = \"1\"\n", "");
        let expected = ["ARCHITECTURE.md:9: no crate depends on here"];
        plant(check, &good, ("a/Cargo.toml", &less), &expected);
    }

    #[test]
    fn a_manifest_must_be_toml() {
        plant(
            check,
            &[],
            ("Cargo.toml", "a = "),
            &["Cargo.toml:1: not TOML"],
        );
    }
}
