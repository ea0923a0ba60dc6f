//! A batch: entries in the order in which a program queued them, some of them linked to chains.

use std::ops::Range;

use uthread_load::SplitMix;

use super::tag::{Class, Tag};

/// Number of entries that fit into one submission.
pub(super) const ENTRIES_MAX: usize = 64;
const ENTRIES_MIN: usize = 2;
/// One entry in so many begins or continues a chain.
const LINKED_ONE_IN: usize = 8;

/// An entry without an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) class: Class,
    /// `true` if the next entry starts only after this one.
    pub(super) is_linked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) number: u32,
    pub(super) entries: Vec<Entry>,
}

impl Batch {
    /// Returns a batch of random length, classes and chains.
    pub(super) fn random(number: u32, random: &mut SplitMix) -> Batch {
        let count = ENTRIES_MIN + random.below(ENTRIES_MAX - ENTRIES_MIN + 1);
        let entry = |index| Entry {
            class: Class::ALL[random.below(Class::ALL.len())],
            // The last one has no successor.
            is_linked: random.below(LINKED_ONE_IN) == 0 && index + 1 < count,
        };
        Batch {
            number,
            entries: (0..count).map(entry).collect(),
        }
    }

    /// Returns the chains, in the program's order; a single entry is a chain of one.
    pub(super) fn chains(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        self.entries
            .iter()
            .enumerate()
            .filter_map(move |(index, entry)| {
                let is_last = !entry.is_linked || index + 1 == self.entries.len();
                let chain = start..index + 1;
                if is_last {
                    start = index + 1;
                }
                is_last.then_some(chain)
            })
    }

    /// Returns the class of a chain: that of its most urgent entry, which cannot overtake the others.
    pub(super) fn class_of(&self, chain: &Range<usize>) -> Class {
        let classes = self.entries[chain.clone()].iter().map(|entry| entry.class);
        classes.min().unwrap_or(Class::Normal)
    }

    /// Returns what an entry carries.
    pub(super) fn tag(&self, index: usize) -> Tag {
        Tag {
            batch: self.number,
            class: self.entries[index].class,
            sequence: index as u16,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a batch by letters: `u`, `n` or `b` for the class, capital if the next entry is linked.
    pub(crate) fn batch(letters: &str) -> Batch {
        let entry = |letter: char| Entry {
            class: match letter.to_ascii_lowercase() {
                'u' => Class::Urgent,
                'n' => Class::Normal,
                _ => Class::Background,
            },
            is_linked: letter.is_ascii_uppercase(),
        };
        Batch {
            number: 7,
            entries: letters.chars().map(entry).collect(),
        }
    }

    #[test]
    fn linked_entries_are_one_chain() {
        let check = |letters: &str, expected: &[Range<usize>]| {
            assert_eq!(
                batch(letters).chains().collect::<Vec<_>>(),
                expected,
                "{letters}"
            );
        };
        check("unb", &[0..1, 1..2, 2..3]);
        check("NNun", &[0..3, 3..4]);
        check("nN", &[0..1, 1..2]);
        assert_eq!(batch("NBun").class_of(&(0..3)), Class::Urgent);
    }

    #[test]
    fn random_batches_have_all_classes_and_some_chains() {
        let mut random = SplitMix::new(1);
        let batches: Vec<Batch> = (0..100)
            .map(|number| Batch::random(number, &mut random))
            .collect();
        for batch in &batches {
            assert!((ENTRIES_MIN..=ENTRIES_MAX).contains(&batch.entries.len()));
            assert!(!batch.entries.last().unwrap().is_linked);
        }
        let count = |class| {
            let entries = batches.iter().flat_map(|batch| &batch.entries);
            entries.filter(|entry| entry.class == class).count()
        };
        assert!(Class::ALL.into_iter().all(|class| count(class) > 500));
        let mut chains = batches
            .iter()
            .flat_map(|batch| batch.chains().map(|chain| chain.len()));
        assert!(chains.any(|length| length > 2));
    }
}
