//! Files that are written as a whole.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

/// Replaces a file as a whole, so that a concurrent reader finds either the old or the new content.
///
/// # Errors
///
/// The errors of creating, writing and renaming a file in the folder of `output`.
pub fn write_whole(output: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = temporary(output)?;
    file.write_all(bytes)?;
    file.persist(output)?;
    Ok(())
}

/// Checks that [`write_whole`] can write there, before the hours that lead to the content.
///
/// # Errors
///
/// `EISDIR` if there is a folder of that name; the errors of creating a file.
pub fn check_output(output: &Path) -> io::Result<()> {
    if output.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    temporary(output)?.close()
}

/// Creates a file beside the output, to replace it.
fn temporary(output: &Path) -> io::Result<NamedTempFile> {
    let folder = match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A temporary file is private by default, unlike other files written here.
    tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(folder)
}
