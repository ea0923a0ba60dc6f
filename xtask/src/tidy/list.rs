//! Lists of exceptions: text files with a subject and its reason per line, and `#` before a remark.
//! An entry excuses a fault. An entry without a fault is itself a finding, so a list can only
//! shrink.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::Tree;

/// Returns the faults whose subject the list at `path` does not name, and the list's own wrong
/// entries.
pub(crate) fn forgive(tree: &Tree, path: &str, faults: Vec<(String, Finding)>) -> Vec<Finding> {
    let mut listed = BTreeSet::new();
    let mut findings = Vec::new();
    let lines = tree
        .text(path)
        .lines()
        .zip(1..)
        .map(|(text, line)| (text.trim(), line));
    for (text, line) in lines.filter(|(text, _)| !text.is_empty() && !text.starts_with('#')) {
        let (subject, reason) = text.split_once(' ').unwrap_or((text, ""));
        if reason.is_empty() {
            findings.push(Finding::new(
                path,
                line,
                format!("{subject} has no reason"),
                "write one after it",
            ));
        }
        if !faults.iter().any(|(fault, _)| fault == subject) {
            let what = format!("{subject} no longer needs to be listed");
            findings.push(Finding::new(path, line, what, "delete the line"));
        }
        listed.insert(subject);
    }
    findings.extend(
        faults
            .into_iter()
            .filter(|(subject, _)| !listed.contains(subject.as_str()))
            .map(|(_, fault)| fault),
    );
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    fn one_fault(tree: &Tree) -> Vec<Finding> {
        forgive(
            tree,
            "list.txt",
            vec![(
                "a.rs".to_owned(),
                Finding::new("a.rs", 3, "fault", "mend it"),
            )],
        )
    }

    #[test]
    fn a_fault_must_be_listed_with_a_reason() {
        let good = [("list.txt", "# A remark.\na.rs because\n")];
        plant(one_fault, &good, ("list.txt", ""), &["a.rs:3: fault"]);
        plant(
            one_fault,
            &good,
            ("list.txt", "\na.rs\n"),
            &["list.txt:2: a.rs has no reason"],
        );
    }

    #[test]
    fn an_entry_must_be_needed() {
        let stale = "a.rs because\nb.rs because\n";
        plant(
            one_fault,
            &[("list.txt", "a.rs because")],
            ("list.txt", stale),
            &["list.txt:2: b.rs no longer"],
        );
    }
}
