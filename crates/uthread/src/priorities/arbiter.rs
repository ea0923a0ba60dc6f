//! Which priority comes next if several wait: urgent work first, but only so much of it in advance.
//!
//! ```text
//!   spent     urgent turns taken in advance while others waited; each turn of another priority pays one back
//!             at URGENT_AHEAD_MAX, an urgent turn and another one alternate
//!   normals   normal turns since background work waits or had its last turn
//!             at NORMAL_IN_A_ROW_MAX, the next turn that is not urgent is one of background work
//! ```
//!
//! So in any sequence of turns during which others wait, the urgent turns are at most
//! [`URGENT_AHEAD_MAX`] more than the others. The README of `sched` derives the bounds of each
//! priority.

use super::Priority;

/// Maximum number of urgent turns in advance: half of a scheduler's batch, so that every batch has
/// turns for others.
pub(crate) const URGENT_AHEAD_MAX: u32 = 32;

/// Maximum number of normal turns in a row while background work waits: small enough that it makes
/// progress, large enough that it takes an eighth of the normal work's turns at most.
pub(crate) const NORMAL_IN_A_ROW_MAX: u32 = 8;

/// The state of one place where priorities take turns: a worker, or the queue of the thread pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arbiter {
    /// At most [`URGENT_AHEAD_MAX`].
    spent: u32,
    /// At most [`NORMAL_IN_A_ROW_MAX`].
    normals: u32,
}

impl Arbiter {
    pub(crate) const fn new() -> Arbiter {
        Arbiter {
            spent: 0,
            normals: 0,
        }
    }

    /// Chooses a priority among those of which something waits, in the order of [`Priority::ALL`].
    /// Returns `None` if nothing waits.
    pub(crate) fn next(&mut self, [urgent, normal, background]: [bool; 3]) -> Option<Priority> {
        if !normal && !background {
            return urgent.then_some(Priority::Urgent);
        }
        if urgent && self.spent < URGENT_AHEAD_MAX {
            self.spent += 1;
            return Some(Priority::Urgent);
        }
        self.spent = self.spent.saturating_sub(1);
        if background && (!normal || self.normals == NORMAL_IN_A_ROW_MAX) {
            self.normals = 0;
            return Some(Priority::Background);
        }
        self.normals = if background { self.normals + 1 } else { 0 };
        Some(Priority::Normal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the turns while these priorities wait.
    fn turns(arbiter: &mut Arbiter, waiting: [bool; 3], count: usize) -> String {
        let letter = |priority| match priority {
            Priority::Urgent => 'u',
            Priority::Normal => 'n',
            Priority::Background => 'b',
        };
        let next = || arbiter.next(waiting).map(letter);
        std::iter::from_fn(next).take(count).collect()
    }

    #[test]
    fn the_most_urgent_priority_comes_first() {
        let cases = [
            ([true, true, true], "uuuu"),
            ([true, false, false], "uuuu"),
            ([false, true, true], "nnnnnnnnbnnnnnnnnb"),
            ([false, true, false], "nnnn"),
            ([false, false, true], "bbbb"),
            ([false, false, false], ""),
        ];
        for (waiting, expected) in cases {
            let found = turns(&mut Arbiter::new(), waiting, expected.len().max(1));
            assert_eq!(found, expected, "{waiting:?}");
        }
    }

    #[test]
    fn a_flood_of_urgent_work_degrades_to_alternation() {
        let mut flooded = Arbiter::new();
        let ahead = URGENT_AHEAD_MAX as usize;
        assert_eq!(turns(&mut flooded, [true; 3], ahead), "u".repeat(ahead));
        assert_eq!(turns(&mut flooded, [true; 3], 20), "nunununununununubunu");
        // Turns that are paid back while no urgent work waits may be spent again.
        assert_eq!(turns(&mut flooded, [false, true, false], 4), "nnnn");
        assert_eq!(turns(&mut flooded, [true; 3], 6), "uuuunu");
    }

    /// Checks the bounds of the README, for work that arrives in any order.
    #[test]
    fn work_at_the_head_of_its_queue_waits_for_a_bounded_number_of_turns() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut arbiter = Arbiter::new();
            // Turns of each priority since this one waits at its head; a flood of urgent work most
            // of the time.
            let mut since = [[0_u32; 3]; 3];
            let mut waiting = [false; 3];
            for _ in 0..2000 {
                let arrives = [
                    random.u32(..8) > 0,
                    random.u32(..3) > 0,
                    random.u32(..3) == 0,
                ];
                for (waiting, arrives) in waiting.iter_mut().zip(arrives) {
                    *waiting |= arrives;
                }
                let Some(next) = arbiter.next(waiting) else {
                    assert_eq!(waiting, [false; 3], "something waits and has no turn");
                    continue;
                };
                assert!(waiting[next as usize], "nothing of {next:?} waits");
                waiting[next as usize] = false;
                for (since, waits) in since.iter_mut().zip(waiting) {
                    if waits {
                        since[next as usize] += 1;
                    } else {
                        *since = [0; 3];
                    }
                }
                let [_, normal, background] = since;
                assert!(normal[0] <= URGENT_AHEAD_MAX + 1, "seed {seed}: {since:?}");
                assert!(normal[2] <= 1, "seed {seed}: {since:?}");
                assert!(
                    background[0] <= URGENT_AHEAD_MAX + NORMAL_IN_A_ROW_MAX,
                    "seed {seed}: {since:?}"
                );
                assert!(
                    background[1] <= NORMAL_IN_A_ROW_MAX,
                    "seed {seed}: {since:?}"
                );
            }
        }
    }
}
