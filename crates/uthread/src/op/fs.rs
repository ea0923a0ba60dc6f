//! Operations on files.

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use super::Awaited;
use crate::resource::descriptor::Descriptor;

/// The offset that stands for the file position.
pub(crate) const CURRENT_POSITION: u64 = u64::MAX;

/// A request on a file.
pub(crate) enum FileOperation<'a> {
    Open {
        /// The directory that a relative path starts at; `None` is the working directory.
        directory: Option<BorrowedFd<'a>>,
        path: &'a CStr,
        how: OpenHow,
    },
    Read {
        file: Descriptor<'a>,
        buffer: &'a mut [u8],
        /// `None` reads at the file position and advances it.
        offset: Option<u64>,
    },
    Write {
        file: Descriptor<'a>,
        buffer: &'a [u8],
        /// `None` writes at the file position and advances it.
        offset: Option<u64>,
    },
    /// Reads into several buffers, of which there are at most as many as `buffers::to_fill`
    /// returns.
    ReadVectored {
        file: Descriptor<'a>,
        buffers: &'a mut [IoSliceMut<'a>],
        offset: Option<u64>,
    },
    /// Writes from several buffers, of which there are at most as many as `buffers::to_empty`
    /// returns.
    WriteVectored {
        file: Descriptor<'a>,
        buffers: &'a mut [IoSlice<'a>],
        offset: Option<u64>,
    },
    Sync {
        file: Descriptor<'a>,
        /// `true` to sync only the data, and the metadata needed to read it.
        data_only: bool,
    },
}

impl FileOperation<'_> {
    pub(crate) fn awaited(&self) -> Awaited {
        self.file().map_or(Awaited::on(-1), Awaited::from)
    }

    /// Returns the file, unless the operation opens it.
    pub(crate) fn file(&self) -> Option<Descriptor<'_>> {
        match self {
            FileOperation::Open { .. } => None,
            FileOperation::Read { file, .. }
            | FileOperation::Write { file, .. }
            | FileOperation::ReadVectored { file, .. }
            | FileOperation::WriteVectored { file, .. }
            | FileOperation::Sync { file, .. } => Some(*file),
        }
    }
}

/// The kernel's `struct open_how`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct OpenHow {
    /// The `O_*` flags.
    pub(crate) flags: u64,
    /// Permission bits of a file that is created; zero otherwise.
    pub(crate) mode: u64,
    /// The `RESOLVE_*` flags.
    pub(crate) resolve: u64,
}
