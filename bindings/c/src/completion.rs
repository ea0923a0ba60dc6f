//! The function that a program has given to a request, and how it learns the end.

use std::error::Error;
use std::ffi::c_void;
use std::{io, ptr};

use uthread::ring::Chunk;

/// A function that is called when a request has completed: with the pointer that was given to the
/// request; with its result, which is a negative errno if it has failed; and with the
/// `IORING_CQE_F_*` flags.
///
/// It is called by the manager's thread, must return soon, and must not unwind or wait. It may
/// submit and cancel requests.
#[allow(non_camel_case_types, reason = "the name of a C type")]
pub type uthread_completion = unsafe extern "C" fn(data: *mut c_void, result: i32, flags: u32);

/// A function that is called when data has arrived: with the number of bytes, their address, and
/// their chunk, which the program releases by `uthread_chunk_release`, on any thread. A call without
/// a chunk is the end of the stream: `result` is 0, or a negative errno. See `uthread_completion` for
/// what the function may do.
#[allow(non_camel_case_types, reason = "the name of a C type")]
pub type uthread_received = unsafe extern "C" fn(
    data: *mut c_void,
    result: i32,
    bytes: *const u8,
    chunk: *mut uthread_chunk,
);

/// Received bytes, in a buffer that the kernel gets back when they are released.
#[allow(non_camel_case_types, reason = "the name of a C type")]
#[derive(Debug)]
pub struct uthread_chunk {
    _bytes: Chunk,
}

/// A completion, which is called with the end of its request exactly once. If it is dropped before,
/// the request was cancelled.
pub(crate) struct Completion {
    function: Option<Function>,
    data: *mut c_void,
}

#[derive(Clone, Copy)]
pub(crate) enum Function {
    Completion(uthread_completion),
    Received(uthread_received),
}

#[allow(
    unsafe_code,
    reason = "a pointer that the program gives up to the manager"
)]
// SAFETY: the pointer is only passed on, and the submitter promises that the function may be
// called on another thread.
unsafe impl Send for Completion {}

impl Completion {
    pub(crate) fn new(function: Function, data: *mut c_void) -> Completion {
        Completion {
            function: Some(function),
            data,
        }
    }

    /// Tells a result of a request.
    #[allow(unsafe_code, reason = "calls a C function")]
    pub(crate) fn tell(&self, result: i32, flags: u32) {
        match self.function {
            // SAFETY: promised by the submitter.
            Some(Function::Completion(tell)) => unsafe { tell(self.data, result, flags) },
            Some(Function::Received(tell)) => {
                // SAFETY: promised by the submitter. Nothing was received.
                unsafe { tell(self.data, result, ptr::null(), ptr::null_mut()) };
            }
            None => {}
        }
    }

    /// Gives received bytes away.
    #[allow(unsafe_code, reason = "calls a C function")]
    pub(crate) fn give(&self, chunk: Chunk) {
        if let Some(Function::Received(tell)) = self.function {
            let (bytes, length) = (chunk.as_ptr(), chunk.len());
            let chunk = Box::into_raw(Box::new(uthread_chunk { _bytes: chunk }));
            // SAFETY: promised by the submitter. The bytes do not move with the chunk.
            unsafe { tell(self.data, length as i32, bytes, chunk) };
        }
    }

    /// Tells the end.
    pub(crate) fn end(mut self, result: i32, flags: u32) {
        self.tell(result, flags);
        self.function = None;
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.tell(-libc::ECANCELED, 0);
    }
}

/// Returns the result of a request that has failed.
pub(crate) fn errno(error: &io::Error) -> i32 {
    // The library explains some errors of the kernel, which it keeps as the source.
    let source = error.get_ref().and_then(Error::source);
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    let known = error
        .raw_os_error()
        .or(source.and_then(io::Error::raw_os_error));
    let errno = known.unwrap_or(match error.kind() {
        io::ErrorKind::InvalidInput => libc::EINVAL,
        io::ErrorKind::Unsupported => libc::EOPNOTSUPP,
        io::ErrorKind::TimedOut => libc::ETIMEDOUT,
        io::ErrorKind::WouldBlock => libc::EAGAIN,
        io::ErrorKind::OutOfMemory => libc::ENOMEM,
        _ => libc::EIO,
    });
    -errno
}
