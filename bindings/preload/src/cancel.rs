//! Clean-up handlers of programs in C, which were compiled with the header of glibc: its
//! `pthread_cleanup_push` saves where the thread is by `setjmp`, and an exit jumps there.

use std::ffi::{c_int, c_void};

use uthread_pthread::cancel::{uthread_cleanup_enter, uthread_cleanup_leave};
use uthread_pthread::record::{self, uthread_cleanup};

/// Where the thread continues when it exits, as `pthread.h` of glibc declares it.
#[repr(C)]
pub(crate) struct UnwindBuffer {
    registers: [u64; 8],
    mask_was_saved: c_int,
    /// Room for a handler.
    padding: [*mut c_void; 4],
}

const _: () = assert!(size_of::<uthread_cleanup>() <= size_of::<[*mut c_void; 4]>());

#[allow(unsafe_code, reason = "a function of the C library")]
unsafe extern "C-unwind" {
    fn _longjmp(buffer: *mut UnwindBuffer, value: c_int) -> !;
}

/// Continues where the buffer was filled.
#[allow(unsafe_code, reason = "the jump that glibc's header expects")]
unsafe extern "C-unwind" fn jump(buffer: *mut c_void) {
    // SAFETY: the function that has filled the buffer has not returned, and no frame between has
    // anything to drop.
    unsafe { _longjmp(buffer.cast(), 1) }
}

/// `__pthread_register_cancel`: pushes a handler that jumps.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn __pthread_register_cancel(buffer: *mut UnwindBuffer) {
    // SAFETY: the caller's variable, which lives until it is removed.
    let room = unsafe { &raw mut (*buffer).padding };
    // SAFETY: the room is large enough, and aligned for pointers.
    unsafe { uthread_cleanup_enter(room.cast(), Some(jump), buffer.cast()) };
}

/// `__pthread_unregister_cancel`: removes it.
#[allow(unsafe_code, reason = "a C function")]
pub(crate) unsafe extern "C" fn __pthread_unregister_cancel(_buffer: *mut UnwindBuffer) {
    uthread_cleanup_leave(0);
}

/// `__pthread_unwind_next`: goes on with the exit.
pub(crate) extern "C-unwind" fn __pthread_unwind_next(_buffer: *mut UnwindBuffer) -> ! {
    record::continue_exit()
}
