//! The end of one fiber and the begin of the next on the same block: what the C library does at the
//! end of a thread, and the initial values of all thread-local variables but its own.
//!
//! The C library's own variables stay, above all the cache of its allocator: what a fiber has left
//! there serves the next one.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

use super::symbol::symbol;
use super::{donor, modules};

/// `LC_GLOBAL_LOCALE` of `uselocale(3)`.
const GLOBAL_LOCALE: usize = usize::MAX;

type Destructors = unsafe extern "C" fn();

/// Returns the function of the C library that runs the destructors of the calling thread's values
/// (of `thread_local!`, and of `thread_local` in C++), if it has one.
fn destructors() -> Option<Destructors> {
    static FUNCTION: OnceLock<Option<Destructors>> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        let address = symbol::<c_void>(c"__call_tls_dtors")?;
        // SAFETY: the symbol is the C library's function of this name, which has this type.
        #[allow(unsafe_code, reason = "a function of the C library")]
        Some(unsafe { std::mem::transmute::<*const c_void, Destructors>(address) })
    })
}

/// The values of a fiber that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// They were dropped.
    Dropped,
    /// The C library has to end the thread, as it alone knows the destructors of the others
    /// (`pthread_key_create(3)`).
    Left,
}

/// Drops the thread-local values of the calling fiber, as at the end of a thread. Never inlined:
/// the caller must not keep the address of one.
#[inline(never)]
#[allow(unsafe_code, reason = "a function of the C library")]
pub(crate) fn drop_values() -> Values {
    let all_known = is_reusable() && modules::update();
    if let Some(destructors) = destructors() {
        // SAFETY: the caller is at the end of its fiber, and its block is that of a thread.
        unsafe { destructors() };
    }
    let dropped = all_known
        && match donor::keys() {
            Some(keys) => {
                keys.drop_values();
                true
            }
            None => !has_keys(),
        };
    if dropped {
        Values::Dropped
    } else {
        Values::Left
    }
}

/// Returns `true` if the calling fiber has a value for some key.
#[allow(unsafe_code, reason = "keys that may not exist")]
fn has_keys() -> bool {
    // SAFETY: the name is valid.
    let keys_max = unsafe { libc::sysconf(libc::_SC_THREAD_KEYS_MAX) };
    let keys_max = libc::pthread_key_t::try_from(keys_max).unwrap_or(0);
    // SAFETY: below the maximum, the C libraries return null for a number that is no key. musl
    // reads beyond its table for others.
    (0..keys_max).any(|key| unsafe { !libc::pthread_getspecific(key).is_null() })
}

/// Gives all thread-local variables but the C library's their initial values. Returns `false` if
/// some may not have them: one of the destructors has loaded a module, and no other fiber may use
/// the block. Nothing on the caller's stack refers to any variable. Never inlined, like
/// [`drop_values`].
#[inline(never)]
#[allow(unsafe_code, reason = "the locale of a thread that has ended")]
pub(crate) fn reset() -> bool {
    let is_complete = modules::reset();
    // SAFETY: the argument is the value that stands for the locale of the process.
    unsafe { libc::uselocale(ptr::without_provenance_mut(GLOBAL_LOCALE)) };
    is_complete
}

/// Returns `true` if the variables of the C library can be distinguished from others, so that a
/// block serves more than one fiber.
fn is_reusable() -> bool {
    !modules::c_library().is_empty() || cfg!(target_env = "musl")
}
