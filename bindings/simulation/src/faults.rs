//! The faults of a world by their numbers, in the order in which they happen.
//!
//! `UTHREAD_FAULTS=3,7-9` lets only these happen, and an empty one none: a run that fails by few of its
//! faults is easier to understand. A run with other faults may take another way, and has others then.

use std::collections::BTreeSet;
use std::{env, fmt};

/// The variable that chooses faults.
pub(crate) const VARIABLE: &str = "UTHREAD_FAULTS";

const COUNT: &str = "uthread: faults of the world: ";

/// Numbers of faults, as ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Set(BTreeSet<u64>);

impl Set {
    fn parse(text: &str) -> Option<Set> {
        let mut set = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            set.extend(first.parse::<u64>().ok()?..=last.parse().ok()?);
        }
        Some(Set(set))
    }

    pub(crate) fn has(&self, fault: u64) -> bool {
        self.0.contains(&fault)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<u64> for Set {
    fn from_iter<I: IntoIterator<Item = u64>>(faults: I) -> Set {
        Set(faults.into_iter().collect())
    }
}

impl fmt::Display for Set {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut faults = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = faults.next() {
            let mut last = first;
            while let Some(next) = faults.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(formatter, "{separator}{first}")?;
            if last > first {
                write!(formatter, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Returns the faults that may happen; `None` for all.
///
/// # Panics
///
/// Panics if the variable has another form.
pub(crate) fn chosen() -> Option<Set> {
    let text = env::var(VARIABLE).ok()?;
    let set = Set::parse(&text);
    Some(set.unwrap_or_else(|| panic!("{VARIABLE}={text}: give numbers, as in 3,7-9")))
}

/// Returns what a world says of the number of its faults, when it fails.
pub(crate) fn count_line(count: u64) -> String {
    format!("{COUNT}{count}")
}

/// Returns that number from what a program has written.
pub(crate) fn count_in(output: &str) -> Option<u64> {
    let mut lines = output.lines();
    lines.find_map(|line| line.strip_prefix(COUNT)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_as_it_was_written() {
        for text in ["", "1", "1-2", "1,3-5,9", "7-100000"] {
            assert_eq!(Set::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Set::parse("3-5,,5,4").unwrap().to_string(), "3-5");
        for text in ["a", "1-", "-1", "1..2"] {
            assert_eq!(Set::parse(text), None);
        }
    }

    #[test]
    fn the_number_is_found_in_the_output() {
        let output = format!("panicked\n{}\nmore", count_line(43));
        assert_eq!(count_in(&output), Some(43));
        assert_eq!(count_in("panicked"), None);
    }
}
