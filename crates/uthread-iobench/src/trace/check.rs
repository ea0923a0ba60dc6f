//! The check: every urgent entry precedes all others that are submitted with it, order holds within
//! a class, and chains stay together.

use super::batch::Batch;
use super::tag::Tag;

/// Checks a batch against what the kernel has taken by each system call, in its order.
///
/// # Errors
///
/// A sentence on the first violation.
pub(super) fn check(batch: &Batch, flushes: &[Vec<Tag>]) -> Result<(), String> {
    let number = batch.number;
    // By entry: the call, and the place among all entries.
    let mut places = vec![None; batch.entries.len()];
    let calls = flushes.iter().enumerate();
    let seen = calls.flat_map(|(call, tags)| tags.iter().map(move |tag| (call, tag)));
    for (place, (call, tag)) in seen.enumerate() {
        let index = usize::from(tag.sequence);
        if index >= places.len() || *tag != batch.tag(index) {
            return Err(format!("batch {number}: {tag:?} is not one of its entries"));
        }
        if places[index].replace((call, place)).is_some() {
            return Err(format!("batch {number}: entry {index} was recorded twice"));
        }
    }
    let found = places.iter().flatten().count();
    let places: Option<Vec<(usize, usize)>> = places.into_iter().collect();
    let Some(places) = places else {
        let all = batch.entries.len();
        return Err(format!(
            "batch {number}: {found} of {all} entries were recorded"
        ));
    };
    in_order(batch, &places).map_err(|reason| format!("batch {number}: {reason}"))
}

/// Checks the order of entries that were all recorded.
fn in_order(batch: &Batch, places: &[(usize, usize)]) -> Result<(), String> {
    let chains: Vec<_> = batch.chains().collect();
    for chain in &chains {
        let mut steps = places[chain.clone()].windows(2);
        if steps.any(|pair| pair[1] != (pair[0].0, pair[0].1 + 1)) {
            return Err(format!("the chain {chain:?} was torn apart"));
        }
    }
    let mut by_place = chains;
    by_place.sort_by_key(|chain| places[chain.start]);
    for pair in by_place.windows(2) {
        let classes = [0, 1].map(|index| batch.class_of(&pair[index]));
        let [first, second] = [0, 1].map(|index| pair[index].start);
        if places[first].0 != places[second].0 {
            continue;
        }
        if classes[0] > classes[1] {
            return Err(format!(
                "entry {second} ({}) came after entry {first} ({})",
                classes[1].name(),
                classes[0].name()
            ));
        }
        if classes[0] == classes[1] && first > second {
            return Err(format!(
                "the {} entry {first} overtook entry {second}",
                classes[0].name()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::super::batch::tests::{batch, flushed, in_order_of_class};
    use super::*;

    #[test]
    fn each_violation_is_found() {
        let found = |letters: &str, flushes: &[&[usize]]| {
            let batch = batch(letters);
            check(&batch, &flushed(&batch, flushes))
        };
        assert_eq!(found("nubu", &[&[1, 3, 0, 2]]), Ok(()));
        assert_eq!(found("nUub", &[&[1, 2, 0, 3]]), Ok(()));
        // A later call cannot overtake an earlier one.
        assert_eq!(found("nbun", &[&[0, 1], &[2, 3]]), Ok(()));
        let fails = |letters: &str, flushes: &[&[usize]], reason: &str| {
            let error = found(letters, flushes).unwrap_err();
            assert!(error.contains(reason), "{error:?} has no {reason:?}");
        };
        fails(
            "nubu",
            &[&[0, 1, 3, 2]],
            "entry 1 (urgent) came after entry 0 (normal)",
        );
        fails(
            "nubu",
            &[&[1, 3, 2, 0]],
            "(normal) came after entry 2 (background)",
        );
        fails("nbnu", &[&[0, 1], &[2, 3]], "entry 3 (urgent) came after");
        fails(
            "nubu",
            &[&[3, 1, 0, 2]],
            "the urgent entry 3 overtook entry 1",
        );
        fails("Nnu", &[&[2, 1, 0]], "torn apart");
        fails("nUubB", &[&[1, 4, 2, 0, 3]], "torn apart");
        fails("nUub", &[&[0, 1], &[2, 3]], "torn apart");
        fails("nubu", &[&[1, 3, 0]], "3 of 4 entries");
        fails("nubu", &[&[1, 3], &[0, 2, 2]], "twice");
        let other = batch("nnnn").tag(1);
        let error = check(&batch("nubu"), &[vec![other]]).unwrap_err();
        assert!(error.contains("not one of its entries"), "{error}");
    }

    #[test]
    fn the_order_of_classes_passes_the_check_and_that_of_the_program_does_not() {
        let mut random = Rng::with_seed(1);
        let mut unordered = 0;
        for number in 0..1000 {
            let batch = Batch::random(number, &mut random);
            let ordered = in_order_of_class(&batch);
            assert_eq!(check(&batch, &flushed(&batch, &[&ordered])), Ok(()));
            let queued: Vec<usize> = (0..batch.entries.len()).collect();
            unordered += usize::from(check(&batch, &flushed(&batch, &[&queued])).is_err());
        }
        // A short batch may be in order by chance.
        assert!(unordered > 900, "{unordered}");
    }
}
