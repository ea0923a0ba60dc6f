//! The open connections of a server: their number, its limits, and those that are refused.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uthread::spawn;

use crate::stream::Client;

/// Maximum number of refused connections that receive a response at the same time. Each lasts a few
/// seconds at most; further ones are closed without a response.
const REFUSALS_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Connections<C> {
    open: Mutex<Open<C>>,
    refusals: AtomicUsize,
}

#[derive(Debug)]
struct Open<C> {
    count_max: NonZeroUsize,
    per_client_max: Option<NonZeroUsize>,
    next_id: u64,
    connections: HashMap<u64, Arc<C>>,
    /// Number of connections of each client.
    clients: HashMap<Client, usize>,
}

impl<C: Send + Sync + 'static> Connections<C> {
    pub(crate) fn new(
        count_max: NonZeroUsize,
        per_client_max: Option<NonZeroUsize>,
    ) -> Arc<Connections<C>> {
        Arc::new(Connections {
            open: Mutex::new(Open {
                count_max,
                per_client_max,
                next_id: 0,
                connections: HashMap::new(),
                clients: HashMap::new(),
            }),
            refusals: AtomicUsize::new(0),
        })
    }

    /// Sets the limits for connections that are added from now on.
    pub(crate) fn set_limits(&self, count_max: NonZeroUsize, per_client_max: Option<NonZeroUsize>) {
        let mut open = self.lock();
        open.count_max = count_max;
        open.per_client_max = per_client_max;
    }

    /// Adds a connection, or returns it if there are too many.
    pub(crate) fn admit(self: &Arc<Self>, client: Client, connection: C) -> Result<Admitted<C>, C> {
        let mut open = self.lock();
        let of_client = open.clients.get(&client).copied().unwrap_or_default();
        let is_enough = |most: NonZeroUsize| of_client >= most.get();
        if open.connections.len() >= open.count_max.get()
            || open.per_client_max.is_some_and(is_enough)
        {
            return Err(connection);
        }
        open.clients.insert(client, of_client + 1);
        let id = open.next_id;
        open.next_id += 1;
        let connection = Arc::new(connection);
        open.connections.insert(id, Arc::clone(&connection));
        Ok(Admitted {
            connection,
            id,
            client,
            connections: Arc::clone(self),
        })
    }

    /// Starts a fiber that responds to a refused connection, unless there are too many of them.
    pub(crate) fn refuse(self: &Arc<Self>, respond: impl FnOnce() + Send + 'static) {
        if self.refusals.fetch_add(1, Ordering::Relaxed) >= REFUSALS_MAX {
            self.refusals.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let connections = Arc::clone(self);
        spawn(move || {
            respond();
            connections.refusals.fetch_sub(1, Ordering::Relaxed);
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().connections.len()
    }

    /// Calls `f` with every connection, under a lock: `f` must not wait.
    pub(crate) fn for_each(&self, f: impl FnMut(&C)) {
        self.lock()
            .connections
            .values()
            .map(|connection| &**connection)
            .for_each(f);
    }
}

impl<C> Connections<C> {
    fn lock(&self) -> MutexGuard<'_, Open<C>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that counts as open while this value lives.
#[derive(Debug)]
pub(crate) struct Admitted<C> {
    pub(crate) connection: Arc<C>,
    id: u64,
    client: Client,
    connections: Arc<Connections<C>>,
}

impl<C> Deref for Admitted<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.connection
    }
}

impl<C> Drop for Admitted<C> {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        // Not dropped under the lock, as `self` refers to the connection.
        open.connections.remove(&self.id);
        if let Entry::Occupied(mut of_client) = open.clients.entry(self.client) {
            *of_client.get_mut() -= 1;
            if *of_client.get() == 0 {
                of_client.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_limits_hold_and_an_ended_connection_makes_room() {
        let connections = Connections::new(nonzero(2), Some(nonzero(1)));
        let [one, two, three] =
            [1, 2, 3].map(|byte| Client::Ip(Ipv4Addr::new(127, 0, 0, byte).into()));
        let first = connections.admit(one, "first").unwrap();
        assert_eq!(
            connections.admit(one, "its second").unwrap_err(),
            "its second"
        );
        let _second = connections.admit(two, "second").unwrap();
        assert!(connections.admit(three, "too many").is_err());
        assert_eq!(connections.count(), 2);
        drop(first);
        let _again = connections.admit(one, "again").unwrap();
        assert_eq!(connections.count(), 2);
    }

    fn nonzero(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }
}
