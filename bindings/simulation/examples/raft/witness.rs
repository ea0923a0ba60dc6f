//! What has to hold at every time, whatever the clients see: a witness of what the nodes do.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::message::Entry;

#[derive(Debug, Default)]
pub(crate) struct Witness {
    facts: Mutex<Facts>,
    /// What happens is printed, for a witness in another process.
    prints: bool,
}

/// What a node does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    Leads {
        term: u64,
        name: String,
        log: Vec<Entry>,
    },
    Commits {
        index: u64,
        entry: Entry,
        term: u64,
    },
}

#[derive(Debug, Default)]
struct Facts {
    leaders: BTreeMap<u64, String>,
    /// The entries that are committed, by index, and the term in which they were. Processes may be heard late.
    committed: BTreeMap<u64, (Entry, u64)>,
    violation: Option<String>,
}

impl Witness {
    pub(crate) fn printing() -> Witness {
        Witness {
            prints: true,
            ..Witness::default()
        }
    }

    pub(crate) fn hear(&self, event: Event) {
        if self.prints {
            println!("{}", serde_json::to_string(&event).expect("text"));
            return;
        }
        self.with(|facts| match event {
            Event::Leads { term, name, log } => facts.lead(term, name, &log),
            Event::Commits { index, entry, term } => facts.commit(index, entry, term),
        });
    }

    /// Returns the first violation.
    pub(crate) fn violation(&self) -> Option<String> {
        self.with(|_| None)
    }

    fn with(&self, look: impl FnOnce(&mut Facts) -> Option<String>) -> Option<String> {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        let violation = look(&mut facts);
        let first = facts.violation.take().or(violation);
        facts.violation.clone_from(&first);
        first
    }
}

impl Facts {
    /// A term has one leader, and its log has all that was committed in earlier terms.
    fn lead(&mut self, term: u64, name: String, log: &[Entry]) -> Option<String> {
        let leader = self.leaders.entry(term).or_insert_with(|| name.clone());
        if *leader != name {
            return Some(format!("{leader} and {name} lead in term {term}"));
        }
        let mut lost = self.committed.iter().filter(|(index, (entry, in_term))| {
            *in_term < term && log.get(**index as usize - 1) != Some(entry)
        });
        let (index, _) = lost.next()?;
        Some(format!("{name} leads without the committed entry {index}"))
    }

    /// All nodes commit the same entries. The first to do so leads in this term.
    fn commit(&mut self, index: u64, entry: Entry, term: u64) -> Option<String> {
        let (first, _) = self.committed.entry(index).or_insert((entry.clone(), term));
        (*first != entry).then(|| format!("two entries with index {index} are committed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_may_be_heard_in_another_order() {
        let witness = Witness::default();
        let entry = |term| Entry {
            term,
            command: None,
        };
        let commit = |index, term| {
            witness.hear(Event::Commits {
                index,
                entry: entry(term),
                term,
            })
        };
        let lead = |term, log: &[u64]| {
            let (name, log) = (
                format!("node {term}"),
                log.iter().map(|term| entry(*term)).collect(),
            );
            witness.hear(Event::Leads { term, name, log });
        };
        commit(2, 2);
        commit(1, 1);
        lead(3, &[1, 2]);
        commit(1, 1);
        assert_eq!(witness.violation(), None);
        lead(4, &[1, 3]);
        let expected = "node 4 leads without the committed entry 2";
        assert_eq!(witness.violation().as_deref(), Some(expected));
    }
}
