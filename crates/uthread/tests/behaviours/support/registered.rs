//! Registration features of the kernel.

use crate::harness::lacks;
use crate::harness::place::Place;

pub(crate) const BUFFERS: &str = "registered buffers";
pub(crate) const FILES: &str = "fixed files";

/// Returns `true` if the kernel has this feature, in a place with a ring. Takes more stack than a fiber has.
pub(crate) fn has(place: Place, name: &str) -> bool {
    let mut features = uthread::diagnose().ring_features.into_iter();
    let found = features.find(|feature| feature.name == name);
    place.is_of_uring() && found.unwrap().available == Some(true)
}

/// Skips the behaviour if the kernel does not have this feature.
pub(crate) fn require(place: Place, name: &'static str) {
    if !has(place, name) {
        lacks(name);
    }
}
