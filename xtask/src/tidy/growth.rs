//! The public API can grow without breaking programs: its enums, and its structs that programs can
//! construct, are `#[non_exhaustive]`, and the documentation of a trait states whether programs may
//! implement it. ARCHITECTURE.md has the reasons of the exceptions.

use super::Finding;
use super::items::{Item, public_items};
use super::tree::Tree;

/// Types that programs construct, compare with or match completely.
const COMPLETE: [&str; 7] = [
    "Cancelled",
    "Elapsed",
    "Keepalive",
    "RecvError",
    "RecvTimeoutError",
    "SendTimeoutError",
    "TryRecvError",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let items = public_items(tree);
    let findings = items.iter().filter_map(|item| {
        let (what, remedy) = match item.kind {
            "trait" if !item.docs.contains("implement") => (
                "does not state whether programs may implement it",
                "state it, or seal the trait and state that",
            ),
            "enum" | "struct" if !COMPLETE.contains(&item.name) && is_complete(tree, item) => (
                "is not `#[non_exhaustive]`",
                "make it so, or list it in ARCHITECTURE.md and in xtask/src/tidy/growth.rs",
            ),
            _ => return None,
        };
        let what = format!("the {} `{}` {what}", item.kind, item.name);
        Some(Finding::new(item.path, item.line, what, remedy))
    });
    findings.collect()
}

/// Returns `true` if a new variant or field breaks programs.
fn is_complete(tree: &Tree, item: &Item<'_>) -> bool {
    let lines: Vec<&str> = tree.text(item.path).lines().collect();
    let (above, from) = lines.split_at(item.line - 1);
    let mut attributes = above.iter().rev().take_while(|line| line.starts_with('#'));
    if attributes.any(|line| line.starts_with("#[non_exhaustive]")) {
        return false;
    }
    let Some(head) = from.first().filter(|_| item.kind == "struct") else {
        return true;
    };
    let is_unit = head.ends_with(';') && !head.contains('(');
    let body = from.iter().take_while(|line| !line.starts_with('}'));
    let fields = body.filter_map(|line| line.strip_prefix("    "));
    let is_field = |line: &&str| line.starts_with(|first: char| first.is_alphabetic());
    let mut fields = fields.filter(is_field).peekable();
    let has_fields = !head.ends_with(';') && fields.peek().is_some();
    let all_public = fields.all(|line| line.starts_with("pub "));
    is_unit || has_fields && all_public || head.contains("(pub ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const PLACE: &str = "crates/uthread/src/lib.rs";

    /// Expects one finding if `fault` is given, and otherwise none.
    #[track_caller]
    fn plant_code(code: &str, fault: Option<&str>) {
        let expected: Vec<String> = fault
            .map(|fault| format!("{PLACE}:{fault}"))
            .into_iter()
            .collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        plant(check, &[(PLACE, "//! A.\n")], (PLACE, code), &expected);
    }

    #[test]
    fn a_type_that_programs_could_construct_or_match_is_open() {
        for body in [
            "enum A {\n    B,\n}\n",
            "struct A;\n",
            "struct A(pub u8);\n",
            "struct A {\n    /// B.\n    pub b: u8,\n    pub c: u8,\n}\n",
        ] {
            let kind = body.split(' ').next().unwrap_or_default();
            let fault = format!("2: the {kind} `A` is not `#[non_exhaustive]`");
            plant_code(&format!("#[derive(Debug)]\npub {body}"), Some(&fault));
            let open = format!("#[non_exhaustive]\n#[derive(Debug)]\npub {body}");
            plant_code(&open, None);
            plant_code(&format!("pub {}", body.replace('A', "Elapsed")), None);
        }
        for body in [
            "struct A(u8);\n",
            "struct A {\n    b: u8,\n}\n",
            "struct A {\n    b: u8,\n    pub c: u8,\n}\n",
        ] {
            plant_code(&format!("pub {body}pub fn c() {{\n    pub d\n}}\n"), None);
        }
    }

    #[test]
    fn a_trait_states_who_may_implement_it() {
        plant_code(
            "/// A.\npub trait A {}\n",
            Some("2: the trait `A` does not state"),
        );
        let stated = "/// A. Programs may implement it.\npub trait A {}\n";
        plant_code(stated, None);
    }
}
