//! The values that a fiber has for keys of `pthread_key_create(3)`.
//!
//! Only the C library knows the destructors of keys. glibc describes its tables for debuggers, by
//! the symbols that `libthread_db` reads:
//!
//! ```text
//!   keys     __pthread_keys[key] = (sequence number, destructor)
//!   values   the thread's `specific[key / 32]` -> [key % 32] = (sequence number of the key, value)
//! ```
//!
//! They are used only if the tables have this form, and if a key that is created for this purpose
//! is found in them.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use super::symbol::symbol;

/// Number of values in a part of a thread's table.
const PART: usize = 32;

/// Number of times that values which destructors have set are destroyed
/// (`PTHREAD_DESTRUCTOR_ITERATIONS`).
const ROUNDS: usize = 4;

type Destructor = unsafe extern "C" fn(*mut c_void);

#[repr(C)]
struct Key {
    sequence: usize,
    destructor: Option<Destructor>,
}

#[repr(C)]
struct Value {
    sequence: usize,
    data: *mut c_void,
}

/// Where the tables of this process are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keys {
    /// The address of the table of keys.
    keys: usize,
    /// The offset of a thread's pointers to the parts of its table, and their number.
    parts: usize,
    parts_len: usize,
    /// The offset of the flag that the thread has set a value.
    used: usize,
}

/// A field as `libthread_db` describes it: number of bits of an element, number of elements,
/// offset.
type Field = [u32; 3];

/// Returns where the tables are, if they have the known form. `unused` are threads that have not
/// set a value.
pub(super) fn find(unused: &[libc::pthread_t]) -> Option<Keys> {
    const WORD: Field = [64, 1, 0];
    const SECOND_WORD: Field = [64, 1, 8];
    let is_known = field(c"_thread_db_pthread_key_struct_seq")? == WORD
        && field(c"_thread_db_pthread_key_struct_destr")? == SECOND_WORD
        && field(c"_thread_db_pthread_key_data_seq")? == WORD
        && field(c"_thread_db_pthread_key_data_data")? == SECOND_WORD
        && field(c"_thread_db_pthread_key_data_level2_data")? == [128, PART as u32, 0]
        && field(c"_thread_db___pthread_keys")?[0] == 128;
    let [bits, _, offset] = field(c"_thread_db_pthread_specific")?;
    let parts = offset as usize;
    let bytes = bits as usize / 8;
    let keys = Keys {
        keys: symbol::<Key>(c"__pthread_keys")?.expose_provenance(),
        parts,
        parts_len: bytes / size_of::<*mut Value>(),
        // The flag follows.
        used: parts + bytes,
    };
    let all_unused = unused.iter().all(|thread| !keys.is_any_set(*thread));
    (is_known && all_unused && keys.describe_a_new_key()).then_some(keys)
}

#[allow(unsafe_code, reason = "a description of the C library's")]
fn field(name: &CStr) -> Option<Field> {
    let address = symbol::<Field>(name)?;
    // SAFETY: the symbols of this kind are three numbers, which never change.
    Some(unsafe { address.read() })
}

#[allow(unsafe_code, reason = "tables of the C library")]
impl Keys {
    /// Creates a key, sets a value, and returns `true` if both are in the tables.
    fn describe_a_new_key(self) -> bool {
        unsafe extern "C" fn ignore(_: *mut c_void) {}
        let mut key = 0;
        // SAFETY: the key is written.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(ignore)) } != 0 {
            return false;
        }
        let mark = ptr::from_ref(&key).cast::<c_void>();
        // SAFETY: the key was created.
        let set: c_int = unsafe { libc::pthread_setspecific(key, mark) };
        let index = key as usize;
        let is_described = set == 0 && {
            // SAFETY: `pthread_self(3)` has no requirements.
            let thread = unsafe { libc::pthread_self() };
            let destructor = self.key(index).destructor.map(|found| found as *const ());
            let value = self
                .part(thread, index / PART)
                // SAFETY: a part has this many values.
                .map(|part| unsafe { part.wrapping_add(index % PART).read() });
            self.is_any_set(thread)
                && destructor == Some(ignore as *const ())
                && value.is_some_and(|value| value.data.cast_const() == mark)
        };
        // SAFETY: the key was created.
        unsafe { libc::pthread_setspecific(key, ptr::null()) };
        // SAFETY: the key was created here, and is used by nobody else.
        unsafe { libc::pthread_key_delete(key) };
        is_described
    }

    /// Destroys the values of the calling fiber, as at the end of a thread. Returns `true` if it
    /// has set any.
    pub(super) fn drop_values(self) -> bool {
        // SAFETY: `pthread_self(3)` has no requirements.
        let thread = unsafe { libc::pthread_self() };
        if !self.is_any_set(thread) {
            return false;
        }
        let mut rounds = 0..ROUNDS;
        while rounds.next().is_some() && self.drop_once(thread, true) {}
        self.drop_once(thread, false);
        if (1..self.parts_len).all(|part| self.part(thread, part).is_none()) {
            // Otherwise the flag tells the C library that there are parts to free at the end of the
            // thread. SAFETY: the flag is the thread's, which is the caller.
            unsafe { self.flag(thread).write(0) };
        }
        true
    }

    /// Removes all values. Returns `true` if it has called a destructor, which it only does if
    /// `destroys`.
    fn drop_once(self, thread: libc::pthread_t, destroys: bool) -> bool {
        let mut has_called = false;
        for part in 0..self.parts_len {
            let Some(values) = self.part(thread, part) else {
                continue;
            };
            for index in 0..PART {
                let slot = values.wrapping_add(index);
                // SAFETY: a part has this many values. Destructors set values, so none is kept in a
                // reference.
                let Value { sequence, data } = unsafe { slot.read() };
                if data.is_null() {
                    continue;
                }
                let empty = Value {
                    sequence,
                    data: ptr::null_mut(),
                };
                // SAFETY: as for the read.
                unsafe { slot.write(empty) };
                let key = self.key(part * PART + index);
                // Otherwise it is the value of a key that was deleted.
                if destroys
                    && key.sequence == sequence
                    && let Some(destructor) = key.destructor
                {
                    has_called = true;
                    // SAFETY: the value was set for the key with this destructor.
                    unsafe { destructor(data) };
                }
            }
        }
        has_called
    }

    fn key(self, index: usize) -> Key {
        let keys = ptr::with_exposed_provenance::<Key>(self.keys);
        // SAFETY: the index is that of a key. Other threads may create and delete other keys.
        unsafe { keys.wrapping_add(index).read_volatile() }
    }

    fn part(self, thread: libc::pthread_t, part: usize) -> Option<*mut Value> {
        let parts = ptr::with_exposed_provenance::<*mut Value>(thread as usize + self.parts);
        // SAFETY: a thread has this many pointers.
        let part = unsafe { parts.wrapping_add(part).read() };
        (!part.is_null()).then_some(part)
    }

    /// Returns `true` if the thread has set a value.
    #[inline]
    fn is_any_set(self, thread: libc::pthread_t) -> bool {
        // SAFETY: the thread lives; it is the caller, or has left its block.
        unsafe { self.flag(thread).read() != 0 }
    }

    fn flag(self, thread: libc::pthread_t) -> *mut u8 {
        ptr::with_exposed_provenance_mut(thread as usize + self.used)
    }
}

#[cfg(test)]
#[allow(unsafe_code, reason = "functions of the C library")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;
    use crate::tls::donor;

    fn create(destructor: Option<Destructor>) -> libc::pthread_key_t {
        let mut key = 0;
        // SAFETY: the key is written.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, destructor) }, 0);
        key
    }

    fn set(key: libc::pthread_key_t, value: usize) {
        let value = ptr::without_provenance::<c_void>(value);
        // SAFETY: the key exists.
        assert_eq!(unsafe { libc::pthread_setspecific(key, value) }, 0);
    }

    fn get(key: libc::pthread_key_t) -> usize {
        // SAFETY: the key exists.
        unsafe { libc::pthread_getspecific(key) }.addr()
    }

    #[test]
    fn values_are_destroyed_as_at_the_end_of_a_thread() {
        static KEY: AtomicUsize = AtomicUsize::new(0);
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn again(value: *mut c_void) {
            CALLS.fetch_add(1, Ordering::Relaxed);
            let key = KEY.load(Ordering::Relaxed) as libc::pthread_key_t;
            assert_eq!(get(key), 0);
            set(key, value.addr());
        }
        unsafe extern "C" fn forbidden(_: *mut c_void) {
            panic!("the key of this value was deleted");
        }
        let Some(keys) = donor::layout().unwrap().keys else {
            assert!(symbol::<u8>(c"__pthread_keys").is_none());
            return;
        };
        // So many that their values are in several parts.
        let many: Vec<_> = (0..2 * PART).map(|_| create(None)).collect();
        let endless = create(Some(again));
        KEY.store(endless as usize, Ordering::Relaxed);
        let deleted = create(Some(forbidden));
        let ends = move || {
            set(deleted, 1);
            // SAFETY: the key exists, and is not used any more.
            assert_eq!(unsafe { libc::pthread_key_delete(deleted) }, 0);
            for _ in 0..2 {
                many.iter().for_each(|key| set(*key, 1));
                set(endless, 1);
                CALLS.store(0, Ordering::Relaxed);
                assert!(keys.drop_values());
                assert_eq!(CALLS.load(Ordering::Relaxed), ROUNDS);
                assert_eq!(get(endless), 0);
                assert!(many.iter().all(|key| get(*key) == 0));
            }
            many
        };
        for key in thread::spawn(ends).join().unwrap() {
            // SAFETY: the key exists, and is not used any more.
            unsafe { libc::pthread_key_delete(key) };
        }
        // SAFETY: as above.
        unsafe { libc::pthread_key_delete(endless) };
    }

    #[test]
    fn a_thread_without_values_has_none_to_destroy() {
        if let Some(keys) = donor::layout().unwrap().keys {
            // A thread of std has values.
            let used = thread::spawn(move || {
                let _id = thread::current().id();
                (keys.drop_values(), keys.drop_values())
            });
            assert_eq!(used.join().unwrap(), (true, false));
        }
    }
}
