//! The order in which the entries of a batch are submitted: this file stands for the runtime's priorities.

use super::batch::Batch;

/// Returns the places of the entries, the most urgent first. Chains stay together, and entries of one class in their order.
pub(super) fn urgent_first(batch: &Batch) -> Vec<usize> {
    let mut chains: Vec<_> = batch.chains().collect();
    // The sort is stable.
    chains.sort_by_key(|chain| batch.class_of(chain));
    chains.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::batch::tests::batch;
    use super::*;

    #[test]
    fn urgent_entries_come_first_and_chains_stay_together() {
        let check = |letters: &str, expected: &[usize]| {
            assert_eq!(urgent_first(&batch(letters)), expected, "{letters}");
        };
        check("nubu", &[1, 3, 0, 2]);
        check("uuu", &[0, 1, 2]);
        // The urgent entry takes its chain along.
        check("nNuBnu", &[1, 2, 5, 0, 3, 4]);
    }
}
