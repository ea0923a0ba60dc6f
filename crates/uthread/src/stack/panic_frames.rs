//! Detects whether a stack is in a panic hook.
//!
//! `std` counts a panic from before its hook until after the last destructor, and a program may
//! replace the hook at any time. But the functions that start a panic are on the stack exactly
//! while the hook runs. Their addresses are learned once, from a panic made for this purpose.

use std::ffi::{c_int, c_void};
use std::panic;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use crate::atomic::lock;

/// Start addresses of the functions on the stack between a panic and its hook; unset until they are
/// learned.
static FUNCTIONS: OnceLock<Vec<usize>> = OnceLock::new();

/// An upper bound of the number of these functions; `std` has about eight.
const FUNCTIONS_MAX: usize = 64;

const CONTINUE: c_int = 0;
const STOP: c_int = 4;

#[allow(unsafe_code, reason = "the unwinder, which the standard library links")]
unsafe extern "C-unwind" {
    fn _Unwind_Backtrace(
        visit: extern "C" fn(frame: *mut c_void, visitor: *mut c_void) -> c_int,
        visitor: *mut c_void,
    ) -> c_int;
    safe fn _Unwind_GetRegionStart(frame: *mut c_void) -> usize;
}

/// Learns the functions, once. Called by a thread that does not panic, while no other thread
/// changes the hook.
#[inline(never)]
pub(crate) fn learn() {
    if cfg!(panic = "abort") || cfg!(miri) {
        return;
    }
    FUNCTIONS.get_or_init(|| {
        let functions = Arc::new(Mutex::new(Vec::new()));
        let found = Arc::clone(&functions);
        let previous = Arc::new(panic::take_hook());
        let others = Arc::clone(&previous);
        let learner = thread::current().id();
        panic::set_hook(Box::new(move |panic| {
            if thread::current().id() == learner {
                let mut found = lock(&found);
                *found = functions_above(begin as fn() as usize);
            } else {
                others(panic);
            }
        }));
        let _ = panic::catch_unwind(begin);
        drop(panic::take_hook());
        match Arc::try_unwrap(previous) {
            Ok(previous) => panic::set_hook(previous),
            Err(shared) => panic::set_hook(Box::new(move |panic| shared(panic))),
        }
        // The functions above `learn` are on the stack at every check.
        let own = functions_above(learn as fn() as usize);
        let functions = lock(&functions);
        functions
            .iter()
            .copied()
            .filter(|function| !own.contains(function))
            .collect()
    });
}

/// Returns `true` if the caller is called by a panic hook.
pub(crate) fn is_in_hook() -> bool {
    let Some(functions) = FUNCTIONS.get() else {
        return false;
    };
    let mut found = false;
    visit(&mut |function| {
        found = functions.contains(&function);
        !found
    });
    found
}

/// Panics so that [`learn`] sees the functions that this calls.
#[inline(never)]
fn begin() {
    panic!("learns what is on the stack of a panic hook");
}

/// Returns the functions on the stack, up to the one that starts at `end`.
fn functions_above(end: usize) -> Vec<usize> {
    let mut functions = Vec::new();
    visit(&mut |function| {
        let continues = function != end && functions.len() < FUNCTIONS_MAX;
        if continues {
            functions.push(function);
        }
        continues
    });
    functions
}

/// Calls `visitor` with the start address of the function of each frame, the innermost first, while
/// it returns `true`.
#[allow(
    unsafe_code,
    reason = "the unwinder calls back with a pointer to the visitor"
)]
fn visit(mut visitor: &mut dyn FnMut(usize) -> bool) {
    extern "C" fn visit_frame(frame: *mut c_void, visitor: *mut c_void) -> c_int {
        let visitor = visitor.cast::<&mut dyn FnMut(usize) -> bool>();
        // SAFETY: the pointer was passed below, and its target lives until that call returns.
        let visitor = unsafe { &mut *visitor };
        if visitor(_Unwind_GetRegionStart(frame)) {
            CONTINUE
        } else {
            STOP
        }
    }
    // SAFETY: the visitor is passed as `visit_frame` expects it.
    unsafe { _Unwind_Backtrace(visit_frame, (&raw mut visitor).cast()) };
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{is_in_hook, learn};

    static IN_HOOK: AtomicU32 = AtomicU32::new(0);
    static IN_DESTRUCTOR: AtomicU32 = AtomicU32::new(0);

    struct Looks;

    impl Drop for Looks {
        fn drop(&mut self) {
            IN_DESTRUCTOR.fetch_add(u32::from(is_in_hook()) + 10, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_hook_is_distinguished_from_a_destructor() {
        learn();
        let tester = std::thread::current().id();
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if std::thread::current().id() == tester {
                IN_HOOK.fetch_add(u32::from(is_in_hook()), Ordering::Relaxed);
            } else {
                previous(panic);
            }
        }));
        let panics: [fn(); 4] = [
            || panic!("a message"),
            || panic!("{} message", 1),
            || panic::panic_any(5),
            || drop([1, 2][std::hint::black_box(3)..].to_vec()),
        ];
        for panics in panics {
            let caught = panic::catch_unwind(|| {
                let _looks = Looks;
                panics();
            });
            assert!(caught.is_err());
        }
        assert!(!is_in_hook());
        let _ = panic::take_hook();
        assert_eq!(IN_HOOK.load(Ordering::Relaxed), 4);
        assert_eq!(IN_DESTRUCTOR.load(Ordering::Relaxed), 40);
    }
}
