//! The diagnosis of the kernel's features works in every place.

use uthread::runtime::diagnose;
use uthread::spawn;

use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, behaviours};

behaviours![(EVERYWHERE, [a_diagnosis_is_made_wherever_it_is_asked_for])];

fn a_diagnosis_is_made_wherever_it_is_asked_for(place: Place) {
    let names = |diagnosis: uthread::runtime::Diagnosis| {
        let features = diagnosis.ring_features.into_iter();
        Vec::from_iter(features.map(|feature| feature.name))
    };
    let outside = names(diagnose());
    let [first, second] = place.run(|| {
        [(); 2]
            .map(|()| spawn(diagnose))
            .map(|fiber| fiber.join().unwrap())
    });
    assert_eq!(names(first), outside);
    assert_eq!(names(second), outside);
}
