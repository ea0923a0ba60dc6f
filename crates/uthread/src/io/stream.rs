//! Byte streams: the common part of all kinds of pipes.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;

use crate::op::fs::FileOperation;
use crate::op::net::{self, SocketOperation};
use crate::op::{Operation, buffers};
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::caller::wait;
use crate::sched::features::file_calls;

/// An owned descriptor without a file position.
#[derive(Debug)]
pub(crate) struct Stream {
    fd: OwnedFd,
    pub(crate) state: FdState,
}

impl Stream {
    pub(crate) fn try_clone(&self) -> io::Result<Stream> {
        Ok(self.fd.try_clone()?.into())
    }

    /// Waits until one of `events` occurs.
    pub(crate) fn wait_for(&self, events: PollFlags) -> io::Result<()> {
        let mut operation = Operation::Socket(SocketOperation::Poll(net::Poll {
            descriptor: self.descriptor(),
            events,
        }));
        wait::perform(&mut operation, None)?;
        Ok(())
    }

    pub(super) fn descriptor(&self) -> Descriptor<'_> {
        Descriptor {
            fd: self.as_fd(),
            state: &self.state,
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        read(self.descriptor(), buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let operation = Operation::File(FileOperation::ReadVectored {
            file: self.descriptor(),
            buffers: &mut buffers::to_fill(buffers),
            offset: None,
        });
        file_calls::transfer(operation)
    }
}

impl Write for &Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        write(self.descriptor(), buffer)
    }

    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        let operation = Operation::File(FileOperation::WriteVectored {
            file: self.descriptor(),
            buffers: &mut buffers::to_empty(buffers),
            offset: None,
        });
        file_calls::transfer(operation)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for Stream {
    fn from(fd: OwnedFd) -> Stream {
        Stream {
            fd,
            state: FdState::new(),
        }
    }
}

impl From<Stream> for OwnedFd {
    fn from(stream: Stream) -> OwnedFd {
        stream.fd
    }
}

/// Reads available bytes, waiting while there are none.
pub(super) fn read(file: Descriptor<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let operation = Operation::File(FileOperation::Read {
        file,
        buffer,
        offset: None,
    });
    file_calls::transfer(operation)
}

/// Writes as many bytes as there is space for, waiting while there is none.
pub(super) fn write(file: Descriptor<'_>, buffer: &[u8]) -> io::Result<usize> {
    let operation = Operation::File(FileOperation::Write {
        file,
        buffer,
        offset: None,
    });
    file_calls::transfer(operation)
}

/// Implements the traits that the `std` counterpart of a type around [`Stream`] has.
macro_rules! impl_stream {
    ($($stream:ident = $counterpart:path),* $(,)?) => {$(
        impl std::fmt::Debug for $stream {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let fd = std::os::fd::AsRawFd::as_raw_fd(self);
                formatter.debug_struct(stringify!($stream)).field("fd", &fd).finish()
            }
        }

        $crate::resource::descriptor::impl_has_fd_state!($stream, 0.state);

        impl std::os::fd::AsFd for $stream {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&self.0)
            }
        }

        impl std::os::fd::AsRawFd for $stream {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsFd::as_fd(&self.0).as_raw_fd()
            }
        }

        impl std::os::fd::IntoRawFd for $stream {
            fn into_raw_fd(self) -> std::os::fd::RawFd {
                std::os::fd::OwnedFd::from(self).into_raw_fd()
            }
        }

        impl From<std::os::fd::OwnedFd> for $stream {
            fn from(fd: std::os::fd::OwnedFd) -> $stream {
                $stream(fd.into())
            }
        }

        impl From<$stream> for std::os::fd::OwnedFd {
            fn from(stream: $stream) -> std::os::fd::OwnedFd {
                stream.0.into()
            }
        }

        impl From<$counterpart> for $stream {
            fn from(stream: $counterpart) -> $stream {
                std::os::fd::OwnedFd::from(stream).into()
            }
        }

        impl From<$stream> for $counterpart {
            fn from(stream: $stream) -> $counterpart {
                std::os::fd::OwnedFd::from(stream).into()
            }
        }

        impl From<$stream> for std::process::Stdio {
            fn from(stream: $stream) -> std::process::Stdio {
                std::os::fd::OwnedFd::from(stream).into()
            }
        }
    )*};
}
pub(crate) use impl_stream;

/// Implements `Read` for types and for shared references to them, by that of a shared reference to
/// the given field.
macro_rules! impl_read {
    ($($stream:ident . $inner:tt),*) => {$(
        $crate::io::stream::impl_read!(@of &$stream, $inner);
        $crate::io::stream::impl_read!(@of $stream, $inner);
    )*};
    (@of $stream:ty, $inner:tt) => {
        impl std::io::Read for $stream {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                std::io::Read::read(&mut &self.$inner, buffer)
            }

            fn read_vectored(
                &mut self,
                buffers: &mut [std::io::IoSliceMut<'_>],
            ) -> std::io::Result<usize> {
                std::io::Read::read_vectored(&mut &self.$inner, buffers)
            }
        }
    };
}
pub(crate) use impl_read;

/// Implements `Write` for types and for shared references to them, by that of a shared reference to
/// the given field.
macro_rules! impl_write {
    ($($stream:ident . $inner:tt),*) => {$(
        $crate::io::stream::impl_write!(@of &$stream, $inner);
        $crate::io::stream::impl_write!(@of $stream, $inner);
    )*};
    (@of $stream:ty, $inner:tt) => {
        impl std::io::Write for $stream {
            fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
                std::io::Write::write(&mut &self.$inner, buffer)
            }

            fn write_vectored(&mut self, buffers: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                std::io::Write::write_vectored(&mut &self.$inner, buffers)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
}
pub(crate) use impl_write;
