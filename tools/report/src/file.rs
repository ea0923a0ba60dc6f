//! Files that are written as a whole.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Replaces a file as a whole, so that a concurrent reader finds either the old or the new content.
///
/// # Errors
///
/// The errors of creating, writing and renaming a file in the folder of `output`.
pub fn write_whole(output: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A temporary file is private by default, unlike other files written here.
    let mut file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(output)?;
    Ok(())
}
