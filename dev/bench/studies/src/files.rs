//! The folder of files that the servers serve.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A file's name and size.
pub(crate) type Size = (&'static str, usize);

pub(crate) const SMALL: Size = ("1KiB", 1024);
pub(crate) const MIDDLE: Size = ("16KiB", 16 * 1024);
pub(crate) const LARGE: Size = ("1MiB", 1024 * 1024);

/// A folder that is removed when dropped.
pub(crate) struct Files {
    folder: TempDir,
}

impl Files {
    /// Writes a file for each size.
    pub(crate) fn create(sizes: &[Size]) -> Result<Files> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("uthread-bench-files-");
        // Servers that are started by root read the files as `nobody`.
        let folder = builder.permissions(Permissions::from_mode(0o755)).tempdir();
        let folder = folder.context("make a folder")?;
        for &(name, bytes) in sizes {
            // Neither constant nor compressible at a glance, so that no layer can take a short cut.
            let content = (0..bytes).map(|index| (index * 131 + index / 251) as u8);
            let path = folder.path().join(name);
            fs::write(path, content.collect::<Vec<u8>>())
                .with_context(|| format!("write {name}"))?;
        }
        Ok(Files { folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}
