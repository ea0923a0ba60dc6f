//! The keys and their values. Some expire after a time.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::journal::{Journal, Request};

pub(crate) struct Store {
    entries: RwLock<Entries>,
    journal: Journal,
    /// Held while watching a key. True when the store closes.
    watch: Mutex<bool>,
    changed: Condvar,
}

#[derive(Default)]
struct Entries {
    by_key: BTreeMap<String, Entry>,
    /// Number of requests sent to the journal.
    requests: u64,
}

pub(crate) struct Entry {
    pub(crate) value: String,
    expires: Option<SystemTime>,
}

pub(crate) enum Change {
    Put(Entry),
    Remove,
}

impl Store {
    /// Loads the stored entries of this folder.
    pub(crate) fn open(folder: &Path) -> io::Result<Store> {
        let mut entries = Entries::default();
        let journal = Journal::open(folder, |line| {
            let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
            entries.make(key, Change::parse(rest).unwrap_or(Change::Remove));
        })?;
        let (watch, changed) = (Mutex::new(false), Condvar::new());
        Ok(Store {
            entries: RwLock::new(entries),
            journal,
            watch,
            changed,
        })
    }

    pub(crate) fn get(&self, key: &str) -> Option<String> {
        let entries = self.entries.read().unwrap();
        entries.live(key).map(|entry| entry.value.clone())
    }

    /// Changes the entry of a key with `change`, and returns true when the change is durable;
    /// `false` if there is no entry.
    pub(crate) fn update(
        &self,
        key: &str,
        change: impl FnOnce(Option<&Entry>) -> Option<Change>,
    ) -> bool {
        let mut entries = self.entries.write().unwrap();
        let Some(change) = change(entries.live(key)) else {
            return false;
        };
        // Sent before the lock is released: the journal has the order of the changes.
        self.journal.send(Request::Append(change.line(key)));
        entries.make(key, change);
        entries.requests += 1;
        let requests = entries.requests;
        drop(entries);
        self.wake_watchers(false);
        self.journal.await_written(requests);
        true
    }

    /// Writes all entries into a snapshot, and returns their number.
    pub(crate) fn save(&self) -> usize {
        self.sweep();
        let mut entries = self.entries.write().unwrap();
        let lines = entries.by_key.iter().map(|(key, entry)| entry.line(key));
        self.journal.send(Request::Replace(lines.collect()));
        entries.requests += 1;
        let (requests, count) = (entries.requests, entries.by_key.len());
        drop(entries);
        self.journal.await_written(requests);
        count
    }

    /// Waits at most `timeout` until a key has another value than the one seen. Returns the new
    /// value, or `None` after the timeout.
    pub(crate) fn watch(&self, key: &str, seen: &str, timeout: Duration) -> Option<Option<String>> {
        let deadline = Instant::now() + timeout;
        let mut is_closing = self.watch.lock().unwrap();
        loop {
            let value = self.get(key);
            if value.as_deref() != Some(seen) {
                return Some(value);
            }
            let left = deadline.checked_duration_since(Instant::now());
            let left = left.filter(|_| !*is_closing)?;
            (is_closing, _) = self.changed.wait_timeout(is_closing, left).unwrap();
        }
    }

    pub(crate) fn wake_watchers(&self, is_closing: bool) {
        *self.watch.lock().unwrap() |= is_closing;
        self.changed.notify_all();
    }

    /// Removes expired entries.
    pub(crate) fn sweep(&self) {
        let now = SystemTime::now();
        let mut entries = self.entries.write().unwrap();
        entries.by_key.retain(|_, entry| entry.is_live(now));
        drop(entries);
        self.wake_watchers(false);
    }

    pub(crate) fn close(self) {
        self.journal.close();
    }
}

impl Entries {
    fn live(&self, key: &str) -> Option<&Entry> {
        self.by_key
            .get(key)
            .filter(|entry| entry.is_live(SystemTime::now()))
    }

    fn make(&mut self, key: &str, change: Change) {
        match change {
            Change::Put(entry) => self.by_key.insert(key.to_owned(), entry),
            Change::Remove => self.by_key.remove(key),
        };
    }
}

impl Entry {
    fn is_live(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|time| time > now)
    }

    /// Returns the journal line: the key, its expiry in milliseconds (0 is never), the value.
    fn line(&self, key: &str) -> String {
        let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH).ok();
        let expires = self.expires.and_then(since_epoch).unwrap_or_default();
        format!("{key} {} {}\n", expires.as_millis(), self.value)
    }
}

impl Change {
    pub(crate) fn put(value: &str, expires: Option<SystemTime>) -> Option<Change> {
        let value = value.to_owned();
        Some(Change::Put(Entry { value, expires }))
    }

    fn line(&self, key: &str) -> String {
        match self {
            Change::Put(entry) => entry.line(key),
            Change::Remove => format!("{key}\n"),
        }
    }

    /// Parses the rest of a line after the key.
    fn parse(rest: &str) -> Option<Change> {
        let (expires_ms, value) = rest.split_once(' ')?;
        let expires_ms = expires_ms.parse().ok()?;
        let expires = (expires_ms > 0).then(|| UNIX_EPOCH + Duration::from_millis(expires_ms));
        Change::put(value, expires)
    }
}
