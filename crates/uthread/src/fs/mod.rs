//! File system access, with the names of `std::fs`.
//!
//! In a fiber, opening, reading, writing and syncing go through the driver; calls that no driver
//! supports run on a pool thread. Outside the runtime all calls block the thread. [`Metadata`] and
//! the other plain types are those of `std`. The counterpart of `std::os::unix::fs` is
//! [`os::unix::fs`](crate::os::unix::fs).
//!
//! The methods of `std::path::Path` that access the file system, such as `Path::exists` and
//! `Path::read_dir`, are plain system calls and block the worker. For a slow disk or a network file
//! system, call the functions of this module instead.
//!
//! Temporary files are those of the crate `tempfile`, created on a pool thread:
//!
//! ```
//! use uthread::fs::File;
//! use uthread::io::Write;
//!
//! let mut file = File::from(uthread::blocking(tempfile::tempfile)?);
//! file.write_all(b"for a while")?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Two things differ from `std`, as the traits cannot be implemented here: `Arc<File>` does not
//! implement `Read`, `Write` and `Seek` (use `&*file`), and `IsTerminal` is replaced by the method
//! [`File::is_terminal`].
//!
//! A write beyond the file-size limit of the process (`RLIMIT_FSIZE`) fails with `EFBIG` and raises
//! `SIGXFSZ`, which by default terminates the process, as with `std`. If a kernel thread performs
//! the write for io_uring, the signal is not delivered; the error is.

mod allocate;
mod contents;
mod create;
mod direct;
mod directory;
mod directory_entries;
mod file;
mod lock;
mod lookup;
mod options;
mod read_dir;
pub(crate) mod unix;

pub use std::fs::{FileTimes, FileType, Metadata, Permissions, TryLockError};

pub use allocate::Allocation;
pub use contents::{copy, read, read_to_string, write};
pub use create::{DirBuilder, create_dir, create_dir_all};
pub use direct::{AlignedBuffer, DirectAlignment};
pub use directory::Dir;
#[allow(deprecated, reason = "as in std")]
pub use directory_entries::soft_link;
pub use directory_entries::{
    hard_link, remove_dir, remove_dir_all, remove_file, rename, set_permissions,
};
pub use file::File;
pub use lookup::{canonicalize, exists, metadata, read_link, symlink_metadata};
pub use options::OpenOptions;
pub(crate) use options::kernel_path;
pub use read_dir::{DirEntry, ReadDir, read_dir};
