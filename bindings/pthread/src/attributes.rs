//! How a thread is created.

use std::ffi::c_int;

/// The thread can be joined, which releases what it has left.
pub const UTHREAD_CREATE_JOINABLE: c_int = 0;
/// The thread releases what it leaves at its end.
pub const UTHREAD_CREATE_DETACHED: c_int = 1;

/// How a thread is created. A zeroed one has the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct uthread_attr_t {
    /// In bytes; zero for the default, 256 KiB.
    stack_size: usize,
    /// In bytes, plus one; zero for the default.
    guard_size: usize,
    detach_state: c_int,
    scope: c_int,
    reserved: [usize; 4],
}

/// The smallest stack, in bytes.
const STACK_MIN: usize = 16 * 1024;
/// The default stack of a fiber, in bytes.
const STACK_DEFAULT: usize = 256 * 1024;
const GUARD_DEFAULT: usize = 4096;

impl uthread_attr_t {
    /// Returns attributes with this size of the stack, in bytes.
    #[must_use]
    pub fn new(stack_size: usize, is_detached: bool) -> uthread_attr_t {
        uthread_attr_t {
            stack_size,
            detach_state: if is_detached {
                UTHREAD_CREATE_DETACHED
            } else {
                UTHREAD_CREATE_JOINABLE
            },
            ..uthread_attr_t::default()
        }
    }

    /// Returns the stack size in bytes, if it is not the default.
    pub(crate) fn stack_size(&self) -> Option<usize> {
        (self.stack_size != 0).then_some(self.stack_size)
    }

    pub(crate) fn is_detached(&self) -> bool {
        self.detach_state == UTHREAD_CREATE_DETACHED
    }
}

/// Sets the defaults.
///
/// # Safety
///
/// `attr` points to where the attributes are stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_attr_init(attr: *mut uthread_attr_t) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { attr.write(uthread_attr_t::default()) };
    0
}

/// Does nothing: attributes own no memory.
#[unsafe(no_mangle)]
#[allow(unsafe_code, reason = "a C function")]
pub extern "C" fn uthread_attr_destroy(_attr: *mut uthread_attr_t) -> c_int {
    0
}

/// Sets whether the thread is joinable, `UTHREAD_CREATE_JOINABLE`, or detached.
///
/// # Safety
///
/// `attr` points to attributes.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_attr_setdetachstate(
    attr: *mut uthread_attr_t,
    state: c_int,
) -> c_int {
    if ![UTHREAD_CREATE_JOINABLE, UTHREAD_CREATE_DETACHED].contains(&state) {
        return libc::EINVAL;
    }
    // SAFETY: the caller's contract.
    unsafe { &mut *attr }.detach_state = state;
    0
}

/// Stores whether the thread is joinable or detached.
///
/// # Safety
///
/// `attr` points to attributes, and `state` to where the result is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_attr_getdetachstate(
    attr: *const uthread_attr_t,
    state: *mut c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let attr = unsafe { &*attr };
    // SAFETY: the caller's contract.
    unsafe { state.write(attr.detach_state) };
    0
}

/// Sets the size of the stack in bytes, which is rounded up to a power of two of at least the
/// default, 256 KiB. Pages take memory only once they are used.
///
/// # Safety
///
/// `attr` points to attributes.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_attr_setstacksize(
    attr: *mut uthread_attr_t,
    bytes: usize,
) -> c_int {
    if bytes < STACK_MIN {
        return libc::EINVAL;
    }
    // SAFETY: the caller's contract.
    unsafe { &mut *attr }.stack_size = bytes;
    0
}

/// Stores the size of the stack in bytes.
///
/// # Safety
///
/// `attr` points to attributes, and `bytes` to where the result is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_attr_getstacksize(
    attr: *const uthread_attr_t,
    bytes: *mut usize,
) -> c_int {
    // SAFETY: the caller's contract.
    let attr = unsafe { &*attr };
    // SAFETY: the caller's contract.
    unsafe { bytes.write(attr.stack_size().unwrap_or(STACK_DEFAULT)) };
    0
}

/// Sets the size of the guard in bytes. A fiber has its guard whatever the size.
///
/// # Safety
///
/// `attr` points to attributes.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_attr_setguardsize(
    attr: *mut uthread_attr_t,
    bytes: usize,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { &mut *attr }.guard_size = bytes.saturating_add(1);
    0
}

/// Stores the size of the guard in bytes.
///
/// # Safety
///
/// `attr` points to attributes, and `bytes` to where the result is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uthread_attr_getguardsize(
    attr: *const uthread_attr_t,
    bytes: *mut usize,
) -> c_int {
    // SAFETY: the caller's contract.
    let attr = unsafe { &*attr };
    let size = attr.guard_size.checked_sub(1).unwrap_or(GUARD_DEFAULT);
    // SAFETY: the caller's contract.
    unsafe { bytes.write(size) };
    0
}
