//! What the kernel can register with a ring.

use crate::harness::lacks;
use crate::harness::place::Place;

pub(crate) const BUFFERS: &str = "registered buffers";
pub(crate) const FILES: &str = "fixed files";

/// Whether the kernel has this feature, in a place with a ring. Takes more stack than a fiber has.
pub(crate) fn has(place: Place, name: &str) -> bool {
    let mut features = uthread::diagnose().ring_features.into_iter();
    let found = features.find(|feature| feature.name == name);
    place.is_of_uring() && found.unwrap().available == Some(true)
}

/// The same where a behaviour is about that.
pub(crate) fn require(place: Place, name: &'static str) {
    if !has(place, name) {
        lacks(name);
    }
}
