//! How much gathers before a disk gets it.
//!
//! What waits for the end of a round keeps the disk waiting too: it has nothing to do while fibers run, and then they wait
//! for it, as all their reads begin together and end together. So what goes past the page cache is handed over in portions
//! while others are still being made: the first operation alone, then twice as many each time, as the disk has something to
//! do by then.

/// For so many, the call costs each little; and a disk is seldom done with half as many before they come.
const PORTION_MAX: u32 = 16;

/// Of one ring.
#[derive(Debug)]
pub(super) struct Portions {
    gathered: u32,
    portion: u32,
}

impl Portions {
    pub(super) fn new() -> Portions {
        Portions {
            gathered: 0,
            portion: 1,
        }
    }

    /// Counts an operation for a disk.
    pub(super) fn gather(&mut self) {
        self.gathered += 1;
    }

    /// Whether enough has gathered.
    pub(super) fn is_due(&self) -> bool {
        self.gathered >= self.portion
    }

    /// What gathered is handed over.
    pub(super) fn hand_over(&mut self) {
        if self.is_due() {
            self.portion = (2 * self.portion).min(PORTION_MAX);
        }
        self.gathered = 0;
    }

    /// The same before a sleep, in which the disk may come to its end.
    pub(super) fn begin_anew(&mut self) {
        *self = Portions::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many gather before each of so many portions is handed over.
    fn sizes(portions: &mut Portions, count: usize) -> Vec<u32> {
        let size = |_| {
            let mut size = 0;
            while !portions.is_due() {
                portions.gather();
                size += 1;
            }
            portions.hand_over();
            size
        };
        (0..count).map(size).collect()
    }

    #[test]
    fn portions_grow_up_to_a_bound_and_begin_anew_after_a_sleep() {
        let mut portions = Portions::new();
        assert!(!portions.is_due(), "nothing has gathered");
        assert_eq!(sizes(&mut portions, 6), [1, 2, 4, 8, 16, 16]);
        portions.begin_anew();
        assert_eq!(sizes(&mut portions, 2), [1, 2]);
    }

    #[test]
    fn what_is_handed_over_for_other_reasons_is_no_portion() {
        let mut portions = Portions::new();
        assert_eq!(sizes(&mut portions, 2), [1, 2]);
        portions.gather();
        portions.hand_over();
        assert_eq!(sizes(&mut portions, 1), [4]);
    }
}
