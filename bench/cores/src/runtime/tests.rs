//! The accesses of the library's own files.

use std::collections::VecDeque;

use super::{Remedy, Runtime};
use crate::machine::Step;
use crate::memory::{Costs, Kind, Memory};

const COSTS: Costs = Costs {
    load_ns: 100,
    rmw_ns: 100,
    owned_rmw_ns: 5,
};

/// Returns the modifications of lines that two workers share, of the calls that `action` makes.
fn modifications(action: impl FnOnce(&mut super::Calls<'_>)) -> Vec<&'static str> {
    let mut memory = Memory::new(COSTS);
    let mut runtime = Runtime::new(&mut memory, 2, Remedy::default());
    let mut steps = VecDeque::new();
    action(&mut runtime.on(0, &mut steps));
    let modified = steps.into_iter().filter_map(|step| match step {
        Step::Access(line, Kind::Modify) => Some(memory.name(line)),
        _ => None,
    });
    modified.filter(|name| !name.starts_with("epoch")).collect()
}

#[test]
fn a_sleep_and_its_end_modify_the_line_of_idle_four_times() {
    let modified = modifications(|calls| {
        assert_eq!(calls.search(), None);
        assert!(calls.announce_sleep());
        calls.wake_up();
    });
    let expected = ["Idle", "Idle", "Idle", "Remote: sleeper", "Idle"];
    assert_eq!(modified, expected);
}

#[test]
fn a_search_that_succeeds_modifies_the_line_of_idle_twice() {
    let modified = modifications(|calls| {
        calls.push_new(7);
        assert_eq!(calls.search(), None, "a worker does not steal from itself");
        calls.end_search();
    });
    assert_eq!(modified, ["Idle", "Idle"]);
}

#[test]
fn a_message_to_a_sleeper_locks_its_inbox_and_claims_it() {
    let modified = modifications(|calls| {
        assert_eq!(calls.search(), None);
        assert!(calls.announce_sleep());
        calls.mail(0, 7);
        calls.wake_up();
        assert_eq!(calls.take_mail(), [7]);
        calls.end_search();
    });
    let expected = [
        "Idle",
        "Idle",
        "Idle",
        "Remote: inbox",
        "Remote: inbox",
        "Remote: sleeper",
        "Idle",
        "Idle",
        "Remote: waker and handles",
        "Remote: waker and handles",
        "Remote: inbox",
        "Remote: inbox",
        "Idle",
    ];
    assert_eq!(modified, expected);
}
