//! A batch: entries in the order in which fibers request them, some of them linked to chains.

use std::ops::Range;

use fastrand::Rng;

use super::tag::{Class, Tag};

/// Maximum number of entries: a worker submits after about as many at the latest.
const ENTRIES_MAX: usize = 64;
const ENTRIES_MIN: usize = 2;
/// Mean number of entries for each that begins or continues a chain.
const LINKED_ONE_IN: usize = 8;

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
    pub(super) fn random(number: u32, random: &mut Rng) -> Batch {
        let count = random.usize(ENTRIES_MIN..=ENTRIES_MAX);
        let mut entries: Vec<Entry> = Vec::new();
        for index in 0..count {
            let drawn = Class::ALL[random.usize(..Class::ALL.len())];
            let chain = entries.last().filter(|previous| previous.is_linked);
            entries.push(Entry {
                class: chain.map_or(drawn, |previous| previous.class),
                // The last one has no successor.
                is_linked: random.usize(..LINKED_ONE_IN) == 0 && index + 1 < count,
            });
        }
        Batch { number, entries }
    }

    /// Returns ten normal entries, and an urgent one after them.
    pub(super) fn example() -> Batch {
        let entry = |class| Entry {
            class,
            is_linked: false,
        };
        let mut entries = vec![entry(Class::Normal); 10];
        entries.push(entry(Class::Urgent));
        Batch { number: 0, entries }
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

    /// Returns the class of a chain, which is that of each of its entries: one call submits them.
    pub(super) fn class_of(&self, chain: &Range<usize>) -> Class {
        self.entries[chain.start].class
    }

    /// Returns what an entry carries.
    pub(super) fn tag(&self, index: usize) -> Tag {
        Tag {
            class: self.entries[index].class,
            sequence: index as u8,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a batch by letters: `u`, `n` or `b` for the class, capital if the next entry is
    /// linked.
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

    /// Returns the tags of entries, given for each system call.
    pub(crate) fn flushed(batch: &Batch, flushes: &[&[usize]]) -> Vec<Vec<Tag>> {
        let tags = |flush: &&[usize]| flush.iter().map(|&index| batch.tag(index)).collect();
        flushes.iter().map(tags).collect()
    }

    /// Returns the entries as the runtime should order them in one flush.
    pub(crate) fn in_order_of_class(batch: &Batch) -> Vec<usize> {
        let mut chains: Vec<_> = batch.chains().collect();
        // The sort is stable.
        chains.sort_by_key(|chain| batch.class_of(chain));
        chains.into_iter().flatten().collect()
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
        assert_eq!(batch("nUub").class_of(&(1..3)), Class::Urgent);
    }

    #[test]
    fn random_batches_have_all_classes_and_some_chains() {
        let mut random = Rng::with_seed(1);
        let batches: Vec<Batch> = (0..100)
            .map(|number| Batch::random(number, &mut random))
            .collect();
        for batch in &batches {
            assert!((ENTRIES_MIN..=ENTRIES_MAX).contains(&batch.entries.len()));
            assert!(!batch.entries.last().unwrap().is_linked);
            for chain in batch.chains() {
                let class = batch.class_of(&chain);
                let entries = &batch.entries[chain];
                assert!(entries.iter().all(|entry| entry.class == class));
            }
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
