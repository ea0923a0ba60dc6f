//! The pages of error responses: built in, or supplied by the user as `404.html`, `503.html`, ...
//!
//! All pages are loaded at the start. So an error costs no more than a small file, and needs no
//! file descriptor, which may be what is short.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail};

use super::page;
use crate::http::response::Status;

/// Largest page of a user. Pages stay in memory and are sent in one piece with their head.
const PAGE_BYTES_MAX: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) struct ErrorPage {
    pub(crate) html: Vec<u8>,
    /// True for built-in pages, which get our security policy. A user's page may have scripts and
    /// pictures.
    pub(crate) built_in: bool,
}

#[derive(Debug)]
pub(crate) struct ErrorPages {
    /// In the order of [`Status::ERRORS`].
    pages: Vec<ErrorPage>,
}

impl ErrorPages {
    pub(crate) fn load(dir: Option<&Path>) -> anyhow::Result<ErrorPages> {
        if let Some(dir) = dir {
            let metadata = std::fs::metadata(dir)
                .with_context(|| format!("cannot read the error pages in {}", dir.display()))?;
            if !metadata.is_dir() {
                bail!(
                    "--error-pages needs a directory, but {} is a file",
                    dir.display()
                );
            }
        }
        let page = |status: Status| -> anyhow::Result<ErrorPage> {
            let supplied = match dir {
                Some(dir) => read_page(&dir.join(format!("{}.html", status.code())))?,
                None => None,
            };
            Ok(match supplied {
                Some(html) => ErrorPage {
                    html,
                    built_in: false,
                },
                None => ErrorPage {
                    html: page::error(status).into_bytes(),
                    built_in: true,
                },
            })
        };
        Ok(ErrorPages {
            pages: Status::ERRORS
                .into_iter()
                .map(page)
                .collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn of(&self, status: Status) -> &ErrorPage {
        let index = Status::ERRORS.iter().position(|&known| known == status);
        &self.pages[index.expect("only errors have error pages")]
    }
}

/// Reads a page; `None` if the file does not exist.
fn read_page(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("cannot read the error page {}", path.display()))?,
    };
    let mut html = Vec::new();
    file.take(PAGE_BYTES_MAX + 1)
        .read_to_end(&mut html)
        .with_context(|| format!("cannot read the error page {}", path.display()))?;
    if html.len() as u64 > PAGE_BYTES_MAX {
        bail!(
            "the error page {} is larger than {PAGE_BYTES_MAX} bytes; make it smaller",
            path.display()
        );
    }
    Ok(Some(html))
}
