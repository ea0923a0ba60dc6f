//! The served site.

use super::error_pages::ErrorPages;
use super::root::Root;

/// The served files, and options of their presentation.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) root: Root,
    pub(crate) error_pages: ErrorPages,
    pub(crate) listing: bool,
}
