//! A PostgreSQL server for the examples that need one, ended after the last test.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::databases::{Server, Service};

/// The server that all tests share, from the first test that needs it on.
static SHARED: Mutex<Option<Server>> = Mutex::new(None);

/// Returns the folder with the socket of the server; `None` if its programs are not installed.
pub(crate) fn folder() -> Option<PathBuf> {
    let programs = Service::Postgres.programs().ok()?;
    let mut shared = SHARED.lock().unwrap();
    let start = || Service::Postgres.start(&programs, &[]).unwrap();
    Some(shared.get_or_insert_with(start).folder().to_owned())
}

/// Ends the server, if a test has started it.
pub(crate) fn end() {
    drop(SHARED.lock().unwrap_or_else(PoisonError::into_inner).take());
}
