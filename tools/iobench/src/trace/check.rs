//! The check: every urgent entry precedes all others of its batch, order holds within a class, and chains stay together.

use super::batch::Batch;
use super::tag::Tag;

/// Checks a batch against what the kernel has taken, in its order.
///
/// # Errors
///
/// A sentence on the first violation.
pub(super) fn check(batch: &Batch, seen: &[Tag]) -> Result<(), String> {
    let number = batch.number;
    let mut places = vec![None; batch.entries.len()];
    for (place, tag) in seen.iter().enumerate() {
        let index = usize::from(tag.sequence);
        if index >= places.len() || *tag != batch.tag(index) {
            return Err(format!("batch {number}: {tag:?} is not one of its entries"));
        }
        if places[index].replace(place).is_some() {
            return Err(format!("batch {number}: entry {index} was recorded twice"));
        }
    }
    let places: Option<Vec<usize>> = places.into_iter().collect();
    let Some(places) = places else {
        let (all, found) = (batch.entries.len(), seen.len());
        return Err(format!(
            "batch {number}: {found} of {all} entries were recorded"
        ));
    };
    let chains: Vec<_> = batch.chains().collect();
    for chain in &chains {
        let mut steps = places[chain.clone()].windows(2);
        if steps.any(|pair| pair[1] != pair[0] + 1) {
            return Err(format!(
                "batch {number}: the chain {chain:?} was torn apart"
            ));
        }
    }
    let mut by_place = chains;
    by_place.sort_by_key(|chain| places[chain.start]);
    for pair in by_place.windows(2) {
        let classes = [0, 1].map(|index| batch.class_of(&pair[index]));
        let [first, second] = [0, 1].map(|index| pair[index].start);
        if classes[0] > classes[1] {
            return Err(format!(
                "batch {number}: entry {second} ({}) came after entry {first} ({})",
                classes[1].name(),
                classes[0].name()
            ));
        }
        if classes[0] == classes[1] && first > second {
            return Err(format!(
                "batch {number}: the {} entry {first} overtook entry {second}",
                classes[0].name()
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use uthread_load::SplitMix;

    use super::super::batch::tests::batch;
    use super::super::order::urgent_first;
    use super::*;

    fn found(letters: &str, order: &[usize]) -> Result<(), String> {
        let batch = batch(letters);
        let seen: Vec<Tag> = order.iter().map(|&index| batch.tag(index)).collect();
        check(&batch, &seen)
    }

    #[test]
    fn each_violation_is_found() {
        assert_eq!(found("nubu", &[1, 3, 0, 2]), Ok(()));
        assert_eq!(found("nNub", &[1, 2, 0, 3]), Ok(()));
        let fails = |letters: &str, order: &[usize], reason: &str| {
            let error = found(letters, order).unwrap_err();
            assert!(error.contains(reason), "{error:?} has no {reason:?}");
        };
        fails(
            "nubu",
            &[0, 1, 3, 2],
            "entry 1 (urgent) came after entry 0 (normal)",
        );
        fails(
            "nubu",
            &[1, 3, 2, 0],
            "(normal) came after entry 2 (background)",
        );
        fails("nubu", &[3, 1, 0, 2], "the urgent entry 3 overtook entry 1");
        fails("Nnu", &[2, 1, 0], "torn apart");
        fails("nNubU", &[1, 4, 2, 0, 3], "torn apart");
        fails("nubu", &[1, 3, 0], "3 of 4 entries");
        fails("nubu", &[1, 3, 0, 2, 2], "twice");
        let other = batch("nnnn").tag(1);
        assert!(
            check(&batch("nubu"), &[other])
                .unwrap_err()
                .contains("not one of its entries")
        );
    }

    #[test]
    fn the_order_passes_the_check_and_the_program_order_does_not() {
        let mut random = SplitMix::new(1);
        let mut unordered = 0;
        for number in 0..1000 {
            let batch = Batch::random(number, &mut random);
            let tags = |order: &[usize]| -> Vec<Tag> {
                order.iter().map(|&index| batch.tag(index)).collect()
            };
            assert_eq!(check(&batch, &tags(&urgent_first(&batch))), Ok(()));
            let queued: Vec<usize> = (0..batch.entries.len()).collect();
            unordered += usize::from(check(&batch, &tags(&queued)).is_err());
        }
        // A short batch may be in order by chance.
        assert!(unordered > 900, "{unordered}");
    }
}
