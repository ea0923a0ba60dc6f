//! The end of one fiber and the begin of the next on the same block: what the C library does at the end of a thread, and the
//! initial values of all thread-local variables but its own.
//!
//! The C library's own variables stay, above all the cache of its allocator: what a fiber has left there serves the next one.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

use super::donor::symbol;

/// Maximum number of keys of a process, as in the C libraries (`PTHREAD_KEYS_MAX`).
const KEYS_MAX: libc::pthread_key_t = 1024;

/// `LC_GLOBAL_LOCALE` of `uselocale(3)`.
const GLOBAL_LOCALE: usize = usize::MAX;

type Destructors = unsafe extern "C" fn();

/// Returns the function of the C library that runs the destructors of the calling thread's values (of `thread_local!`, and of
/// `thread_local` in C++), if it has one.
fn destructors() -> Option<Destructors> {
    static FUNCTION: OnceLock<Option<Destructors>> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        let address = symbol::<c_void>(c"__call_tls_dtors")?;
        // SAFETY: it is the C library's function of this name, which has this type.
        #[allow(unsafe_code, reason = "a function of the C library")]
        Some(unsafe { std::mem::transmute::<*const c_void, Destructors>(address) })
    })
}

/// Drops the thread-local values of the calling fiber, as at the end of a thread. Returns `false` if the C library has to end the
/// thread, as the fiber has values whose destructors only it knows (`pthread_key_create(3)`).
#[inline(never)]
#[allow(unsafe_code, reason = "a function of the C library")]
pub(crate) fn drop_values() -> bool {
    if let Some(destructors) = destructors() {
        // SAFETY: the caller is at the end of its fiber, and its block is that of a thread.
        unsafe { destructors() };
    }
    is_reusable() && !has_keys()
}

/// Returns `true` if the calling fiber has a value for some key.
#[allow(unsafe_code, reason = "keys that may not exist")]
fn has_keys() -> bool {
    // SAFETY: the C libraries return null for a number that is no key.
    (0..KEYS_MAX).any(|key| unsafe { !libc::pthread_getspecific(key).is_null() })
}

/// Gives all thread-local variables but the C library's their initial values. Nothing on the caller's stack refers to any.
#[inline(never)]
#[allow(unsafe_code, reason = "the variables of a thread that has ended")]
pub(crate) fn reset() {
    // SAFETY: the function needs no data.
    unsafe { libc::dl_iterate_phdr(Some(reset_module), ptr::null_mut()) };
    // SAFETY: it is the value that stands for the locale of the process.
    unsafe { libc::uselocale(ptr::without_provenance_mut(GLOBAL_LOCALE)) };
}

#[allow(unsafe_code, reason = "the variables of a thread that has ended")]
unsafe extern "C" fn reset_module(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut c_void,
) -> c_int {
    // SAFETY: the linker passes a valid description.
    let info = unsafe { &*info };
    if info.dlpi_tls_data.is_null() || is_of_c_library(info) {
        return 0;
    }
    let Some(segment) = segments(info).find(|segment| segment.p_type == libc::PT_TLS) else {
        return 0;
    };
    let image = ptr::with_exposed_provenance::<u8>((info.dlpi_addr + segment.p_vaddr) as usize);
    let (filled, size) = (segment.p_filesz as usize, segment.p_memsz as usize);
    let data = info.dlpi_tls_data.cast::<u8>();
    // SAFETY: the linker describes the variables of the calling thread, and their initial values.
    unsafe { ptr::copy_nonoverlapping(image, data, filled) };
    // SAFETY: as above.
    let rest = unsafe { data.add(filled) };
    // SAFETY: as above.
    unsafe { ptr::write_bytes(rest, 0, size - filled) };
    0
}

fn segments(info: &libc::dl_phdr_info) -> impl Iterator<Item = libc::Elf64_Phdr> {
    let (first, count) = (info.dlpi_phdr, usize::from(info.dlpi_phnum));
    // SAFETY: the linker passes a valid description.
    #[allow(unsafe_code, reason = "the linker's description")]
    let headers = unsafe { std::slice::from_raw_parts(first, count) };
    headers.iter().copied()
}

/// Returns the addresses of the C library, if it is an object of its own.
fn c_library() -> &'static Range<usize> {
    static ADDRESSES: OnceLock<Range<usize>> = OnceLock::new();
    ADDRESSES.get_or_init(|| {
        let mut found = 0..0;
        // SAFETY: the function accepts this data.
        #[allow(unsafe_code, reason = "the linker's description")]
        unsafe {
            libc::dl_iterate_phdr(Some(find_c_library), (&raw mut found).cast());
        }
        found
    })
}

fn is_of_c_library(info: &libc::dl_phdr_info) -> bool {
    c_library().contains(&extent(info).start)
}

fn extent(info: &libc::dl_phdr_info) -> Range<usize> {
    let loaded = || segments(info).filter(|segment| segment.p_type == libc::PT_LOAD);
    let starts = loaded().map(|segment| (info.dlpi_addr + segment.p_vaddr) as usize);
    let ends =
        loaded().map(|segment| (info.dlpi_addr + segment.p_vaddr + segment.p_memsz) as usize);
    starts.min().unwrap_or(0)..ends.max().unwrap_or(0)
}

#[allow(unsafe_code, reason = "the linker's description")]
unsafe extern "C" fn find_c_library(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the linker passes a valid description.
    let info = unsafe { &*info };
    // SAFETY: `c_library` passes the range.
    let found = unsafe { &mut *found.cast::<Range<usize>>() };
    let own = (find_c_library as *const ()).addr();
    let address = (libc::pthread_create as *const ()).addr();
    let extent = extent(info);
    // In a program that is linked statically, it is a part of the program.
    if extent.contains(&address) && !extent.contains(&own) {
        *found = extent;
    }
    0
}

/// Returns `true` if the variables of the C library can be told from others, so that a block serves more than one fiber.
fn is_reusable() -> bool {
    !c_library().is_empty() || cfg!(target_env = "musl")
}
