//! The server that a use needs. A trial finds that of its parent by an environment variable. Without
//! that, it starts one of its own.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::databases::Server;
pub(crate) use crate::databases::Service;

/// A running server, or nothing if another process runs it.
pub(crate) struct Handle {
    _server: Option<Server>,
}

/// Starts a server unless a parent or an earlier use has, whose handle must still be there. The
/// message of an error says what is missing.
pub(crate) fn provide(service: Service) -> Result<Handle, String> {
    let directory = service.slot();
    if let Some(parent) = env::var_os(service.variable()) {
        directory.get_or_init(|| parent.into());
    }
    if directory.get().is_some() {
        return Ok(Handle { _server: None });
    }
    let server = service.start(&service.programs()?, &[]);
    let server = server.map_err(|error| format!("{service:?} did not start: {error}"))?;
    directory.get_or_init(|| server.folder().to_owned());
    Ok(Handle {
        _server: Some(server),
    })
}

impl Service {
    /// Returns the directory with the socket of the server, which was provided.
    pub(crate) fn directory(self) -> &'static Path {
        self.slot().get().expect("the server was provided")
    }

    /// Returns the environment variable with that directory.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Service::Postgres => "UTHREAD_CRATES_POSTGRES",
            Service::MariaDb => "UTHREAD_CRATES_MARIADB",
            Service::Redis => "UTHREAD_CRATES_REDIS",
        }
    }

    fn slot(self) -> &'static OnceLock<PathBuf> {
        static POSTGRES: OnceLock<PathBuf> = OnceLock::new();
        static MARIADB: OnceLock<PathBuf> = OnceLock::new();
        static REDIS: OnceLock<PathBuf> = OnceLock::new();
        match self {
            Service::Postgres => &POSTGRES,
            Service::MariaDb => &MARIADB,
            Service::Redis => &REDIS,
        }
    }
}
