//! The database of the web service: a table of rows, in a server whose socket is in a folder.

/// Connections that a service keeps to it.
pub(crate) const CONNECTIONS: usize = 16;

/// The query of each request.
pub(crate) const SELECT: &str = "SELECT text FROM row WHERE id = $1";

/// Returns the parameters of a connection.
pub(crate) fn parameters(folder: &str) -> String {
    format!("host={folder} user=postgres")
}
