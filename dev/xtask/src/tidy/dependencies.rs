//! Checks that every dependency has a reason: a comment above it in its manifest.

use toml::de::{DeTable, DeValue};

use super::Finding;
use super::tree::{Tree, line_at};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut own, mut used) = (Vec::new(), Vec::new());
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
            used.push((name, path, text, line_at(text, start)));
        });
    }
    used.retain(|(name, ..)| !own.contains(name));

    for (name, path, text, line) in used {
        if !has_reason(text, line) {
            findings.push(Finding::new(
                path,
                line,
                format!("the dependency {name} has no reason"),
                "write a comment above it",
            ));
        }
    }
    findings
}

/// Passes every dependency to `found`, by its name in the registry and the offset of its
/// declaration, in any table: at the top level, below `target` or below `workspace`.
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

/// Returns `true` if there is a comment above this line.
fn has_reason(text: &str, line: usize) -> bool {
    let above = line
        .checked_sub(2)
        .and_then(|index| text.lines().nth(index));
    above.is_some_and(|above| {
        above
            .strip_prefix('#')
            .is_some_and(|text| !text.trim().is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const MANIFEST: &str = r#"
[package]
name = "ours"

[dependencies]
# Here it is needed.
here = "1"
ours = { path = "." }

[dev-dependencies]
# There it is needed.
there = { package = "named-elsewhere", version = "1" }

# Below it is needed.
[target.'cfg(unix)'.build-dependencies.below]
version = "1"
"#;

    #[test]
    fn every_dependency_needs_a_reason() {
        let good = [("a/Cargo.toml", MANIFEST)];
        let more = MANIFEST.replace("here = \"1\"\n", "here = \"1\"\nmore = \"1\"\n");
        let expected = "a/Cargo.toml:8: the dependency more has no reason";
        plant(check, &good, ("a/Cargo.toml", &more), &[expected]);
        for (comment, name, line) in [
            ("Here", "here", 7),
            ("There", "named-elsewhere", 12),
            ("Below", "below", 15),
        ] {
            let without = MANIFEST.replace(&format!("# {comment} it is needed."), "#");
            let expected = format!("a/Cargo.toml:{line}: the dependency {name} has no reason");
            plant(check, &good, ("a/Cargo.toml", &without), &[&expected]);
        }
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
