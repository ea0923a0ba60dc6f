//! The open connections: their number, and the reasons to end them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use uthread::JoinHandle;

use super::relay::Moved;
use crate::stream::Client;

/// Limits of the connections.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) connections_max: usize,
    pub(crate) per_client_max: usize,
    pub(crate) idle_time_max: Duration,
    pub(crate) lifetime_max: Option<Duration>,
}

/// State of a connection for other fibers.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) moved: Moved,
    /// Set when the target is connected.
    pub(crate) relays: AtomicBool,
    /// Why it was ended by another fiber.
    pub(crate) ended: OnceLock<&'static str>,
}

impl Progress {
    pub(crate) fn bytes(&self) -> u64 {
        self.moved.up.load(Ordering::Relaxed) + self.moved.down.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Connection {
    start: Instant,
    progress: Arc<Progress>,
    /// Bytes at the last change that was seen, and its time.
    seen: (u64, Instant),
    /// Set as soon as the fiber has been spawned.
    handle: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(crate) struct Open {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    connections: HashMap<u64, Connection>,
    next_id: u64,
    /// Number of connections of each client.
    clients: HashMap<Client, usize>,
}

impl Open {
    pub(crate) fn new(limits: Limits) -> Open {
        Open {
            limits,
            state: Mutex::default(),
        }
    }

    /// Adds a connection, unless there are too many.
    pub(crate) fn admit(self: &Arc<Self>, client: Client) -> Option<Admitted> {
        let mut state = self.lock();
        if state.connections.len() >= self.limits.connections_max {
            return None;
        }
        let of_client = state.clients.entry(client).or_default();
        if *of_client >= self.limits.per_client_max {
            return None;
        }
        *of_client += 1;
        let id = state.next_id;
        state.next_id += 1;
        let (start, progress) = (Instant::now(), Arc::<Progress>::default());
        let connection = Connection {
            start,
            progress: Arc::clone(&progress),
            seen: (0, start),
            handle: None,
        };
        state.connections.insert(id, connection);
        Some(Admitted {
            id,
            client,
            start,
            progress,
            open: Arc::clone(self),
        })
    }

    /// Makes a connection one that can be ended, unless it has ended already.
    pub(crate) fn attach(&self, id: u64, handle: JoinHandle<()>) {
        if let Some(connection) = self.lock().connections.get_mut(&id) {
            connection.handle = Some(handle);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().connections.len()
    }

    /// Ends connections that are idle or open for too long.
    pub(crate) fn expire(&self) {
        let limits = &self.limits;
        self.end(|connection| {
            let bytes = connection.progress.bytes();
            let relays = connection.progress.relays.load(Ordering::Relaxed);
            if bytes != connection.seen.0 || !relays {
                connection.seen = (bytes, Instant::now());
            }
            let is_old = limits
                .lifetime_max
                .is_some_and(|most| connection.start.elapsed() >= most);
            if connection.seen.1.elapsed() >= limits.idle_time_max {
                Some("idle")
            } else {
                is_old.then_some("lifetime")
            }
        });
    }

    /// Ends all connections, and returns their number.
    pub(crate) fn cut(&self) -> usize {
        let count = self.count();
        self.end(|_| Some("shutdown"));
        count
    }

    /// Cancels the fibers of connections for which there is a reason.
    fn end(&self, mut reason: impl FnMut(&mut Connection) -> Option<&'static str>) {
        for connection in self.lock().connections.values_mut() {
            if let Some(reason) = reason(connection)
                && let Some(handle) = &connection.handle
            {
                // The first reason stays.
                let _ = connection.progress.ended.set(reason);
                handle.cancel();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that counts as open while this value lives.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) id: u64,
    pub(crate) client: Client,
    pub(crate) start: Instant,
    pub(crate) progress: Arc<Progress>,
    open: Arc<Open>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut state = self.open.lock();
        let removed = state.connections.remove(&self.id);
        if let Entry::Occupied(mut of_client) = state.clients.entry(self.client) {
            *of_client.get_mut() -= 1;
            if *of_client.get() == 0 {
                of_client.remove();
            }
        }
        drop(state);
        drop(removed);
    }
}
