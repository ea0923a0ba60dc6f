//! Operations on files.

use std::ffi::CStr;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use crate::resource::descriptor::Descriptor;

/// The kernel's "at the file's position", where it takes an offset.
pub(crate) const CURRENT_POSITION: u64 = u64::MAX;

/// One request on a file.
pub(crate) enum FileOperation<'a> {
    Open {
        /// Where a relative path starts; `None` is the working directory.
        directory: Option<BorrowedFd<'a>>,
        path: &'a CStr,
        how: OpenHow,
    },
    Read {
        file: Descriptor<'a>,
        buffer: &'a mut [u8],
        /// `None` reads at the file's position and moves it.
        offset: Option<u64>,
    },
    Write {
        file: Descriptor<'a>,
        buffer: &'a [u8],
        /// `None` writes at the file's position and moves it.
        offset: Option<u64>,
    },
    /// As `Read` into several buffers in turn: no more than `buffers::to_fill` leaves.
    ReadVectored {
        file: Descriptor<'a>,
        buffers: &'a mut [IoSliceMut<'a>],
        offset: Option<u64>,
    },
    /// As `Write` from several buffers in turn: no more than `buffers::to_empty` leaves.
    WriteVectored {
        file: Descriptor<'a>,
        buffers: &'a mut [IoSlice<'a>],
        offset: Option<u64>,
    },
    Sync {
        file: Descriptor<'a>,
        /// Only the data and what is needed to find it.
        data_only: bool,
    },
}

impl<'a> FileOperation<'a> {
    /// The descriptor that it is on, if there is one before it.
    pub(super) fn target(&self) -> Option<Descriptor<'a>> {
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
    /// `O_*`.
    pub(crate) flags: u64,
    /// Permission bits of a file that is created; zero otherwise.
    pub(crate) mode: u64,
    /// `RESOLVE_*`.
    pub(crate) resolve: u64,
}
