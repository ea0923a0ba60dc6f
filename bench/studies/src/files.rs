//! The folder of files that the servers serve, and sizes as the user writes them.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Held in memory while being written, and sent thousands of times: larger would measure the memory bus.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A size such as `16KiB`, kept as it was written so that tables and files bear that name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Size {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let unit_at = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_at);
        let unit_bytes: u64 = match unit {
            "" | "B" => 1,
            "KiB" => 1024,
            "MiB" => 1024 * 1024,
            _ => return Err(format!("{unit:?} is not a unit: use B, KiB or MiB")),
        };
        let bytes = number
            .parse()
            .ok()
            .and_then(|number: u64| number.checked_mul(unit_bytes));
        match bytes {
            Some(bytes @ 1..=FILE_BYTES_MAX) => Ok(Size {
                name: text.to_owned(),
                bytes,
            }),
            _ => Err(format!(
                "a size is from 1 B to {} MiB",
                FILE_BYTES_MAX >> 20
            )),
        }
    }
}

/// Removed when dropped.
pub(crate) struct Files {
    folder: TempDir,
}

impl Files {
    pub(crate) fn create(sizes: &[Size]) -> Result<Files> {
        let folder = tempfile::Builder::new()
            .prefix("uthread-bench-files-")
            .tempdir()
            .context("make a folder")?;
        for size in sizes {
            // Neither constant nor compressible at a glance, so that no layer can take a short cut.
            let content: Vec<u8> = (0..size.bytes)
                .map(|index| (index * 131 + index / 251) as u8)
                .collect();
            fs::write(folder.path().join(&size.name), content)
                .with_context(|| format!("write {}", size.name))?;
        }
        Ok(Files { folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_bounds() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(
                text.parse::<Size>().ok().map(|size| size.bytes),
                expected,
                "{text:?}"
            );
        };
        check("1", Some(1));
        check("100B", Some(100));
        check("16KiB", Some(16 * 1024));
        check("64MiB", Some(FILE_BYTES_MAX));
        check("65MiB", None);
        check("0", None);
        check("", None);
        check("KiB", None);
        check("1kb", None);
        check("-1KiB", None);
        check("99999999999999999999MiB", None);
        check("18446744073709551615MiB", None);
    }

    #[test]
    fn files_have_their_size() {
        let sizes = ["1KiB", "3B"].map(|text| text.parse().unwrap());
        let files = Files::create(&sizes).unwrap();
        for size in &sizes {
            assert_eq!(
                fs::metadata(files.path().join(&size.name)).unwrap().len(),
                size.bytes
            );
        }
    }
}
