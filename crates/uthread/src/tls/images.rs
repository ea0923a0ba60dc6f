//! The end of one fiber and the begin of the next on the same block: what the C library does at the
//! end of a thread, and the initial values of all thread-local variables but its own.
//!
//! The C library's own variables stay. Among them are the words of [`thread_words`], which are those
//! of the thread that runs.
//!
//! [`thread_words`]: super::thread_words

use std::ffi::c_void;
use std::sync::OnceLock;

use super::symbol::symbol;
use super::{donor, locale, modules, record};

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
    let all_known = modules::are_reusable() && modules::update();
    if let Some(destructors) = destructors() {
        // SAFETY: the caller is at the end of its fiber, and its block is that of a thread.
        unsafe { destructors() };
    }
    let dropped = match donor::keys() {
        Some(keys) => {
            keys.drop_values();
            true
        }
        None => !has_keys(),
    };
    if dropped && all_known {
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
pub(crate) fn reset() -> bool {
    let is_complete = modules::reset();
    locale::reset();
    is_complete
}

/// Gives all thread-local variables their initial values like [`reset`], if a module was loaded
/// after the first block was made: its variables may be without them. Called before a fiber uses
/// the block.
pub(crate) fn reset_later_modules() {
    if !modules::knows_all() && modules::update() {
        record::across(|| _ = reset());
    }
}
