//! Names that were replaced by the terms of the field stay replaced.

use super::Finding;
use super::tree::Tree;

/// The folders whose code is checked.
const FOLDERS: [&str; 2] = ["crates/uthread/src/", "checks/"];

const REMEDY: &str = "use the term of the field: one word means one thing in this repository";

/// The former names, and the terms in their place.
const FORMER: [(&str, &str); 32] = [
    ("Desk", "Reactor"),
    ("Door", "ReapGate"),
    ("Held", "LocalOrShared"),
    ("Offer", "StealHandle"),
    ("Watch", "Monitor"),
    ("Bell", "Notifier"),
    ("Orders", "Config"),
    ("Line", "WaitQueue"),
    ("Place", "Waiter, ArmHandle, slot or index"),
    ("Places", "Queues, Permits or slots"),
    ("Turns", "TicketLock"),
    ("Turn", "Ticket or Tick"),
    ("Intake", "MultishotQueue"),
    ("Meaning", "Decode"),
    ("Note", "CompletionSink"),
    ("Noted", "Accepted"),
    ("Watcher", "FdState"),
    ("Watched", "InterestTable"),
    ("Seat", "ThreadContext"),
    ("Berth", "Parker"),
    ("summon", "interrupt"),
    ("whereabouts", "last_worker"),
    ("Whereabouts", "LastWorker"),
    ("Crew", "Backend"),
    ("News", "PendingSubmissions"),
    ("Kept", "Resource"),
    ("Portions", "BatchSizer"),
    ("Choice", "Select"),
    ("Case", "Arm"),
    ("Candidate", "AnyArm"),
    ("Promised", "Waiter"),
    ("Home", "Scheduler"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let checked = |path: &str| FOLDERS.iter().any(|folder| path.starts_with(folder));
    for (path, source) in tree.sources().filter(|(path, _)| checked(path)) {
        for token in &source.tokens {
            if let Some((former, term)) = FORMER.iter().find(|(former, _)| *former == token.text) {
                let what = format!("`{former}` is {term}");
                findings.push(Finding::new(path, token.line, what, REMEDY));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn a_former_name_is_found_in_code_but_not_in_words() {
        plant(
            check,
            &[("crates/uthread-cli/src/main.rs", "struct Case;")],
            (
                "crates/uthread/src/sched/desk.rs",
                "//! Case by case.\nstruct Reactor;\nfn desk() -> Desk { open(\"Desk\") }",
            ),
            &["crates/uthread/src/sched/desk.rs:3: `Desk` is Reactor"],
        );
    }
}
