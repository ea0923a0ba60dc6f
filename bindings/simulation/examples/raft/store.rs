//! The state machine: values by key, and the last result of each client.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bug::Bug;

/// An operation on one key. A key without a value has `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Operation {
    Get,
    Put(String),
    CompareAndSet {
        expected: Option<String>,
        value: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Output {
    Value(Option<String>),
    Put,
    WasSet(bool),
}

/// What a client asks for. It numbers its requests, so that one that it repeats applies once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Command {
    pub(crate) client: usize,
    pub(crate) sequence: u64,
    pub(crate) key: String,
    pub(crate) operation: Operation,
}

#[derive(Debug)]
pub(crate) struct Store {
    values: BTreeMap<String, Option<String>>,
    /// The last command of each client, by its number, and the output.
    sessions: BTreeMap<usize, (u64, Output)>,
    bug: Option<Bug>,
}

impl Operation {
    /// Changes the value of a key.
    pub(crate) fn apply(&self, stored: &mut Option<String>) -> Output {
        match self {
            Operation::Get => Output::Value(stored.clone()),
            Operation::Put(value) => {
                *stored = Some(value.clone());
                Output::Put
            }
            Operation::CompareAndSet { expected, value } => {
                let is_equal = stored == expected;
                if is_equal {
                    *stored = Some(value.clone());
                }
                Output::WasSet(is_equal)
            }
        }
    }
}

impl Store {
    pub(crate) fn new(bug: Option<Bug>) -> Store {
        Store {
            values: BTreeMap::new(),
            sessions: BTreeMap::new(),
            bug,
        }
    }

    /// Applies a committed command, unless that was done. One that a client has sent again may arrive when
    /// later ones have been applied.
    pub(crate) fn apply(&mut self, command: &Command) {
        let session = self.sessions.get(&command.client);
        let is_applied = session.is_some_and(|(last, _)| *last >= command.sequence);
        if is_applied && self.bug != Some(Bug::RepeatedRetry) {
            return;
        }
        let value = self.values.entry(command.key.clone()).or_default();
        let output = command.operation.apply(value);
        let session = (command.sequence, output);
        self.sessions.insert(command.client, session);
    }

    /// Returns the output of a command that was applied, if it is the last of its client.
    pub(crate) fn output(&self, command: &Command) -> Option<Output> {
        let (sequence, output) = self.sessions.get(&command.client)?;
        (*sequence == command.sequence).then(|| output.clone())
    }

    pub(crate) fn value(&self, key: &str) -> Option<String> {
        self.values.get(key).cloned().flatten()
    }
}
