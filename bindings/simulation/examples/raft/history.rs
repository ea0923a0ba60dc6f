//! The history of what clients asked and were told, and whether one store could have answered so.
//!
//! A history is linearizable if each operation could have happened at one moment between its call and
//! its return. Keys do not depend on each other, so each key is checked by itself, by the algorithm
//! of Wing, Gong and Lowe.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{self, Action};
use todc_utils::specifications::Specification;

use crate::client::Client;
use crate::store::{Operation, Output};

/// An operation, and its output once it has returned.
type Event = (Operation, Option<Output>);

/// What happened to a key, in order, with the numbers of the clients.
type Actions = Vec<(usize, Action<Event>)>;

#[derive(Debug, Default)]
pub(crate) struct History(Mutex<BTreeMap<String, Actions>>);

/// One value, as the store has for each key.
struct Value;

impl Specification for Value {
    type State = Option<String>;
    type Operation = Event;

    fn init() -> Self::State {
        None
    }

    fn apply((operation, output): &Event, state: &Self::State) -> (bool, Self::State) {
        let mut next = state.clone();
        let expected = operation.apply(&mut next);
        (Some(expected) == *output, next)
    }
}

impl History {
    /// Lets a client, which has this number, execute an operation.
    pub(crate) fn execute(
        &self,
        number: usize,
        client: &mut Client,
        key: &str,
        operation: Operation,
    ) {
        self.add(number, key, Action::Call((operation.clone(), None)));
        let output = client.execute(key, operation.clone());
        self.add(number, key, Action::Response((operation, Some(output))));
    }

    fn add(&self, number: usize, key: &str, action: Action<Event>) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let actions = keys.entry(key.to_owned()).or_default();
        actions.push((number, action));
    }

    /// Returns a key whose history is not linearizable. All operations have returned.
    pub(crate) fn violation(&self) -> Option<String> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut wrong = keys.iter().filter(|(_, actions)| {
            let history = history::History::from_actions(actions.to_vec());
            !WGLChecker::<Value>::is_linearizable(history)
        });
        wrong.next().map(|(key, _)| key.clone())
    }
}
