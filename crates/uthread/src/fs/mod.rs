//! Files by the names of `std::fs`.
//!
//! In a fiber opening, reading, writing and syncing go through the driver; what no driver can runs
//! on a thread of the pool. Outside the runtime all of it blocks the thread. [`Metadata`] and the
//! other plain types are `std`'s own; what `std` has in `std::os::unix::fs` is in [`os::unix::fs`](crate::os::unix::fs).
//!
//! Beside these two, `std` reaches files by methods of its `Path`, as `Path::exists` and `Path::read_dir`. They are
//! short system calls, and keep the worker meanwhile: call the function of this module where a disk or a network is slow.
//!
//! What differs from `std`, each because the trait is not ours to implement: `Read`, `Write` and `Seek` for `Arc<File>`
//! (write `&*file`), and `IsTerminal`, which is the method [`File::is_terminal`].
//!
//! A write beyond the limit of the process (`RLIMIT_FSIZE`) is `EFBIG`, and raises `SIGXFSZ`, which ends a program that does
//! not ignore it, as with `std`. Where a thread of the kernel writes for a ring, the signal is lost and the error is not.

mod allocate;
mod contents;
mod create;
mod direct;
mod directory;
mod file;
mod lock;
mod lookup;
mod names;
mod options;
mod read_dir;
mod temporary;
pub(crate) mod unix;

pub use std::fs::{FileTimes, FileType, Metadata, Permissions, TryLockError};

pub use allocate::Allocation;
pub use contents::{copy, read, read_to_string, write};
pub use create::{DirBuilder, create_dir, create_dir_all};
pub use direct::{AlignedBuffer, DirectAlignment};
pub use directory::Dir;
pub use file::File;
pub use lookup::{canonicalize, exists, metadata, read_link, symlink_metadata};
#[allow(deprecated, reason = "as in std")]
pub use names::soft_link;
pub use names::{hard_link, remove_dir, remove_dir_all, remove_file, rename, set_permissions};
pub use options::OpenOptions;
pub(crate) use options::kernel_path;
pub use read_dir::{DirEntry, ReadDir, read_dir};
pub use temporary::{TempFile, tempfile, tempfile_in};
