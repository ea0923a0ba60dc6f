//! Where labels go so that none covers another.

/// Places for labels that want to be at `wanted`, `step` apart from each other and between `low` and `high`, moved as
/// little as possible (in the sum of squares). Without room for all, they reach beyond `high`.
pub(super) fn spread(wanted: &[f64], step: f64, (low, high): (f64, f64)) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    // Less its rank's share of the room, a label only must not come before the one above it: neighbours that would are
    // put at their mean, again and again. The mean and the number of each such group:
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for (rank, &label) in order.iter().enumerate() {
        let mut group = (wanted[label] - rank as f64 * step, 1);
        while let Some(above) = groups.pop_if(|above| above.0 > group.0) {
            let size = above.1 + group.1;
            let sum = above.0 * above.1 as f64 + group.0 * group.1 as f64;
            group = (sum / size as f64, size);
        }
        groups.push(group);
    }
    let last = high - wanted.len().saturating_sub(1) as f64 * step;
    let means = groups.iter();
    let bases = means.flat_map(|&(mean, size)| vec![mean.min(last).max(low); size]);
    let mut places = vec![0.0; wanted.len()];
    for (rank, (base, &label)) in bases.zip(&order).enumerate() {
        places[label] = base + rank as f64 * step;
    }
    places
}

/// Which of the labels, each a middle and a width, can stay; the earlier one has precedence.
pub(super) fn thin(labels: &[(f64, f64)], gap: f64) -> Vec<bool> {
    let overlap = |a: (f64, f64), b: (f64, f64)| (a.0 - b.0).abs() < (a.1 + b.1) / 2.0 + gap;
    let mut stays: Vec<bool> = Vec::with_capacity(labels.len());
    for (index, &label) in labels.iter().enumerate() {
        let mut before = labels[..index].iter().zip(&stays);
        stays.push(!before.any(|(&other, &other_stays)| other_stays && overlap(label, other)));
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wanted: &[f64], expected: &[f64]) {
        let places = spread(wanted, 10.0, (0.0, 100.0));
        let near = places
            .iter()
            .zip(expected)
            .all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(
            near && places.len() == expected.len(),
            "{wanted:?}: {places:?}"
        );
    }

    #[test]
    fn labels_move_only_as_far_as_they_must() {
        check(&[], &[]);
        check(&[50.0], &[50.0]);
        check(&[20.0, 80.0], &[20.0, 80.0]);
        check(&[80.0, 20.0], &[80.0, 20.0]);
        check(&[50.0, 50.0], &[45.0, 55.0]);
        check(&[50.0, 52.0, 54.0], &[42.0, 52.0, 62.0]);
        // Two groups that meet become one.
        check(&[40.0, 40.0, 48.0, 48.0], &[29.0, 39.0, 49.0, 59.0]);
        // At the ends of the room.
        check(&[-5.0, 0.0], &[0.0, 10.0]);
        check(&[100.0, 99.0, 120.0], &[90.0, 80.0, 100.0]);
    }

    #[test]
    fn no_two_labels_overlap_wherever_they_want_to_be() {
        let mut random = uthread_load::SplitMix::new(17);
        for count in 0..=11 {
            for _ in 0..200 {
                let wanted: Vec<f64> = (0..count)
                    .map(|_| random.below(140) as f64 - 20.0)
                    .collect();
                let mut places = spread(&wanted, 10.0, (0.0, 100.0));
                places.sort_by(f64::total_cmp);
                let apart = places
                    .windows(2)
                    .all(|pair| pair[1] - pair[0] > 10.0 - 1e-9);
                let inside = places
                    .iter()
                    .all(|place| (-1e-9..=100.0 + 1e-9).contains(place));
                assert!(apart && inside, "{wanted:?}: {places:?}");
            }
        }
    }

    #[test]
    fn the_earlier_of_two_labels_stays() {
        let check = |labels: &[(f64, f64)], expected: &[bool]| {
            assert_eq!(thin(labels, 2.0), expected, "{labels:?}");
        };
        check(&[], &[]);
        check(
            &[(0.0, 10.0), (12.0, 10.0), (24.0, 10.0)],
            &[true, true, true],
        );
        check(
            &[(0.0, 10.0), (11.0, 10.0), (22.0, 10.0)],
            &[true, false, true],
        );
        check(
            &[(11.0, 10.0), (0.0, 10.0), (22.0, 10.0)],
            &[true, false, false],
        );
    }
}
