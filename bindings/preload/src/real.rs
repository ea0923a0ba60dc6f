//! The functions of the C library, and the code of this library.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::functions::Function;
use crate::{own, report};

/// The functions of the C library. Null until they are looked up.
pub(crate) static REAL: [AtomicPtr<c_void>; Function::ALL.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; Function::ALL.len()];

/// Where the code of this library begins, and its length in bytes: zero until all functions of the C
/// library are known.
pub(crate) static CODE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Called by the loader before the program, and after the libraries that it depends on.
#[used]
#[unsafe(link_section = ".init_array")]
#[allow(unsafe_code, reason = "a section that the loader reads")]
static INITIALIZE: extern "C" fn() = initialize;

/// Looks up all functions, and lets this library call them. Does nothing the second time.
pub(crate) extern "C" fn initialize() {
    if CODE[1].load(Ordering::Acquire) > 0 {
        return;
    }
    for function in Function::ALL {
        look_up(*function);
    }
    report::begin();
    find_code();
    if own::program_uses_uthread() {
        // As if it were this library: it gets the functions of the C library.
        CODE[0].store(0, Ordering::Relaxed);
        CODE[1].store(usize::MAX, Ordering::Release);
    }
}

/// Returns a function of the C library; null if it has none of this name.
#[allow(unsafe_code, reason = "a call of the loader")]
pub(crate) fn look_up(function: Function) -> *mut c_void {
    let place = &REAL[function as usize];
    let known = place.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name is a string of C.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, function.name().as_ptr()) };
    place.store(found, Ordering::Release);
    found
}

/// Returns the function of the C library with this name, which takes and returns these types.
macro_rules! real {
    ($name:ident: fn($($kind:ty),* $(,)?) -> $result:ty) => {{
        type Call = unsafe extern "C-unwind" fn($($kind),*) -> $result;
        let found = $crate::real::look_up($crate::functions::Function::$name);
        // SAFETY: the type is that of the function of this name.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, Call>(found) }
    }};
}
pub(crate) use real;

#[allow(unsafe_code, reason = "a call of the loader")]
fn find_code() {
    // SAFETY: the function is called during the call only, and uses no data.
    unsafe { libc::dl_iterate_phdr(Some(visit), ptr::null_mut()) };
}

/// Records the code of the object that contains this function.
#[allow(unsafe_code, reason = "a call of the loader")]
unsafe extern "C" fn visit(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes a description that lives during the call.
    let object = unsafe { &*object };
    let count = usize::from(object.dlpi_phnum);
    // SAFETY: the object has as many headers.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, count) };
    let here = visit as *const () as usize;
    for header in headers {
        let begin = (object.dlpi_addr + header.p_vaddr) as usize;
        let bytes = header.p_memsz as usize;
        let is_code = header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0;
        if is_code && (begin..begin + bytes).contains(&here) {
            CODE[0].store(begin, Ordering::Relaxed);
            CODE[1].store(bytes, Ordering::Release);
            return 1;
        }
    }
    0
}
