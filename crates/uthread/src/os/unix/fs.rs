//! Files of Unix, by the names of `std::os::unix::fs`.
//!
//! The traits are `std`'s own, so that the types of [`uthread::fs`](crate::fs) have them whether they are imported from
//! here or from there; the functions are ours. `chroot` is missing on purpose: it concerns the whole process, and is of no
//! use to a fiber.

pub use std::os::unix::fs::{
    DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt,
};

pub use crate::fs::unix::{chown, fchown, lchown, symlink};
