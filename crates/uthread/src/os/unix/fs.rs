//! Unix-specific file system functions and traits, with the names of `std::os::unix::fs`.
//!
//! The traits are re-exported from `std`, so the types of [`uthread::fs`](crate::fs) implement them
//! wherever they are imported from. The functions are reimplemented. `chroot` is omitted: it
//! affects the whole process, so a version for fibers has no use.

pub use std::os::unix::fs::{
    DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};

pub use crate::fs::unix::{chown, fchown, lchown, symlink};
