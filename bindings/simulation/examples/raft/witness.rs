//! What has to hold at every time, whatever the clients see: a witness of what the nodes do.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::message::Entry;

#[derive(Debug, Default)]
pub(crate) struct Witness(Mutex<Facts>);

#[derive(Debug, Default)]
struct Facts {
    leaders: BTreeMap<u64, String>,
    /// The entries that are committed, and the term in which they were.
    committed: Vec<(Entry, u64)>,
    violation: Option<String>,
}

impl Witness {
    /// A term has one leader, and its log has all that was committed in earlier terms.
    pub(crate) fn leads(&self, term: u64, name: &str, log: &[Entry]) {
        self.with(|facts| {
            let leader = facts.leaders.entry(term).or_insert_with(|| name.to_owned());
            if leader != name {
                return Some(format!("{leader} and {name} lead in term {term}"));
            }
            let earlier = facts.committed.iter().zip(1..);
            let mut earlier = earlier.filter(|((_, in_term), _)| *in_term < term);
            let lost = earlier.find(|((entry, _), index)| log.get(index - 1) != Some(entry));
            lost.map(|(_, index)| format!("{name} leads without the committed entry {index}"))
        });
    }

    /// All nodes commit the same entries. The first to do so leads in this term.
    pub(crate) fn committed(&self, index: u64, entry: &Entry, term: u64) {
        self.with(|facts| match facts.committed.get(index as usize - 1) {
            Some((first, _)) if first == entry => None,
            Some(_) => Some(format!("two entries with index {index} are committed")),
            None => {
                facts.committed.push((entry.clone(), term));
                None
            }
        });
    }

    /// Returns the first violation.
    pub(crate) fn violation(&self) -> Option<String> {
        self.with(|_| None)
    }

    fn with(&self, look: impl FnOnce(&mut Facts) -> Option<String>) -> Option<String> {
        let mut facts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let violation = look(&mut facts);
        let first = facts.violation.take().or(violation);
        facts.violation.clone_from(&first);
        first
    }
}
