//! Finds the file or directory that a request names.

use std::time::Instant;
use uthread::fs::File;

use super::root::{Opened, Regular};
use super::site::Site;
use super::target::{self, Kind};
use crate::http::response::Status;

/// Served in place of its directory.
const INDEX: &[u8] = b"index.html";

#[derive(Debug)]
pub(crate) enum Found {
    File(Regular),
    Directory(File),
    /// A directory whose URL lacks the final slash.
    Elsewhere,
}

/// Opens the target. On return `path` is its path; for a directory with an index file, the path of
/// that file.
pub(crate) fn locate(
    site: &Site,
    path_and_query: &str,
    path: &mut Vec<u8>,
    asked: Instant,
) -> Result<Found, Status> {
    match target::decode(path_and_query, path)? {
        Kind::Directory => locate_directory(site, path, asked),
        Kind::File => match site.root.get(path, asked)? {
            Opened::File(regular) => Ok(Found::File(regular)),
            Opened::Directory(_) => Ok(Found::Elsewhere),
        },
    }
}

/// Tries the index first: for a directory that has one, it is the only file to open.
fn locate_directory(site: &Site, path: &mut Vec<u8>, asked: Instant) -> Result<Found, Status> {
    let directory_bytes = path.len();
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(INDEX);
    match site.root.get(path, asked) {
        Ok(Opened::File(regular)) => return Ok(Found::File(regular)),
        Ok(Opened::Directory(_)) | Err(Status::NotFound) => path.truncate(directory_bytes),
        Err(status) => return Err(status),
    }
    match site.root.get(path, asked)? {
        Opened::File(_) => Err(Status::NotFound),
        Opened::Directory(_) if !site.listing => Err(Status::Forbidden),
        Opened::Directory(dir) => Ok(Found::Directory(dir)),
    }
}
