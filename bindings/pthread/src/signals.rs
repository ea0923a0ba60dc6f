//! Handlers of signals: they interrupt whatever their thread does, the code of this library too.
//!
//! A handler may call what POSIX calls
//! [async-signal-safe](https://man7.org/linux/man-pages/man7/signal-safety.7.html). So a call that waits
//! blocks the thread of the handler, and `sem_post` leaves the waiters to a thread of its own, the
//! messenger:
//!
//! ```text
//!   handler     raises the value, leaves the address in a slot, rings
//!   messenger   takes the addresses, wakes all who wait there
//!   waiter      lowers the value, or waits again
//! ```
//!
//! The messenger runs in programs that have installed a handler and waited for a semaphore.

use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::mem::{self, MaybeUninit};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::{process, ptr, thread};

use uthread::sync::futex;

/// The numbers of signals are less.
const SIGNALS: usize = 65;

/// Number of addresses that the messenger may be left at once.
const SLOTS: usize = 256;

type Handler = unsafe extern "C-unwind" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The handlers of the program, by their signals.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

/// `true` once a handler was installed.
static ARE_INSTALLED: AtomicBool = AtomicBool::new(false);

/// The process in which a thread has waited for a semaphore, and that which has the messenger: a child
/// made by `fork` has no other threads.
static WAITED_IN: AtomicU32 = AtomicU32::new(0);
static MESSENGER_IN: AtomicU32 = AtomicU32::new(0);

/// Where waiters are to be woken, or zero.
static ADDRESSES: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];

/// Changes when an address was left.
static BELL: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
    /// Where the thread waits, if a handler ends the wait.
    static WAITS_AT: Cell<*const AtomicU32> = const { Cell::new(ptr::null()) };
    static IS_INTERRUPTED: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` if the caller is a handler.
pub(crate) fn is_handler() -> bool {
    // Not inlined: the address of a thread-local value must not be kept across a wait.
    #[inline(never)]
    fn is_running() -> bool {
        IS_RUNNING.get()
    }
    ARE_INSTALLED.load(Ordering::Relaxed) && is_running()
}

/// Makes a call that installs a handler, with the one that takes the place of the program's. The call
/// returns the handler before; then this does so, too, as the program knows it.
pub fn install(
    signal: c_int,
    handler: libc::sighandler_t,
    call: impl FnOnce(libc::sighandler_t) -> libc::sighandler_t,
) -> libc::sighandler_t {
    let slot = usize::try_from(signal)
        .ok()
        .and_then(|signal| HANDLERS.get(signal));
    let Some(slot) = slot else {
        return call(handler);
    };
    let own = run as *const () as libc::sighandler_t;
    let mut before = slot.load(Ordering::Acquire);
    let found = if is_function(handler) {
        ARE_INSTALLED.store(true, Ordering::SeqCst);
        if WAITED_IN.load(Ordering::SeqCst) == process::id() && !is_handler() {
            start_messenger();
        }
        before = slot.swap(handler, Ordering::AcqRel);
        call(own)
    } else {
        call(handler)
    };
    if found == own { before } else { found }
}

/// Returns `false` for `SIG_ERR`, `SIG_DFL`, `SIG_IGN` and `SIG_HOLD`.
fn is_function(handler: libc::sighandler_t) -> bool {
    (3..libc::SIG_ERR).contains(&handler)
}

/// Installs a handler, unless `action` is null, and stores the action before: `sigaction(2)`.
///
/// # Safety
///
/// The function of the action may be called with the signal. `action` and `old` point to actions, or are
/// null.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_sigaction(
    signal: c_int,
    action: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's contract.
    let mut action = unsafe { action.as_ref() }.copied();
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    let mut result = 0;
    let handler = action.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    let shown = install(signal, handler, |handler| {
        let action = action.as_mut().map_or(ptr::null(), |action| {
            action.sa_sigaction = handler;
            ptr::from_ref(action)
        });
        // SAFETY: the handler may be called, and the action before has room.
        result = unsafe { libc::sigaction(signal, action, before.as_mut_ptr()) };
        // SAFETY: zeroed, and each bit pattern is valid.
        unsafe { before.assume_init() }.sa_sigaction
    });
    if result == 0 && !old.is_null() {
        // SAFETY: zeroed, and each bit pattern is valid.
        let mut before = unsafe { before.assume_init() };
        before.sa_sigaction = shown;
        // SAFETY: the caller's contract.
        unsafe { old.write(before) };
    }
    result
}

/// Installs a handler after which calls go on: `signal(2)`. Returns the one before, or `SIG_ERR`.
///
/// # Safety
///
/// The handler may be called with the signal, or is `SIG_DFL` or `SIG_IGN`.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_signal(
    signal: c_int,
    handler: libc::sighandler_t,
) -> libc::sighandler_t {
    // SAFETY: the caller's contract.
    install(signal, handler, |handler| unsafe {
        libc::signal(signal, handler)
    })
}

/// What the C library calls: runs the handler of the program.
#[allow(unsafe_code, reason = "a function of the program")]
unsafe extern "C-unwind" fn run(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    /// What was, which is restored however the handler ends.
    struct Before(bool);

    impl Drop for Before {
        fn drop(&mut self) {
            IS_RUNNING.set(self.0);
        }
    }

    let handler = HANDLERS[signal as usize].load(Ordering::Acquire);
    // SAFETY: it was installed as a handler. One with fewer arguments ignores the rest.
    let handler = unsafe { mem::transmute::<usize, Handler>(handler) };
    let before = Before(IS_RUNNING.replace(true));
    // SAFETY: the contract of `uthread_sigaction`.
    unsafe { handler(signal, info, context) };
    drop(before);
    let place = WAITS_AT.get();
    if !place.is_null() && ends_calls(signal) {
        IS_INTERRUPTED.set(true);
        wake_later(place);
    }
}

/// Returns `true` if calls do not go on after a handler of this signal.
#[allow(unsafe_code, reason = "a system call")]
fn ends_calls(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the action has room for the result.
    unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed, and each bit pattern is valid.
    let flags = unsafe { action.assume_init() }.sa_flags;
    flags & libc::SA_RESTART == 0
}

/// Wakes all who wait at an address, later and on another thread. Async-signal-safe.
#[allow(unsafe_code, reason = "system calls")]
pub(crate) fn wake_later(word: *const AtomicU32) {
    let address = word.expose_provenance();
    // Leaves it where it was left already, too: so what the caller did before comes before the waking.
    let leave = |slot: &AtomicUsize| {
        [0, address].into_iter().any(|found| {
            let left = slot.compare_exchange(found, address, Ordering::AcqRel, Ordering::Relaxed);
            left.is_ok()
        })
    };
    while !ADDRESSES.iter().any(leave) {
        // SAFETY: the call has no preconditions.
        unsafe { libc::sched_yield() };
    }
    BELL.fetch_add(1, Ordering::Release);
    call_futex(libc::FUTEX_WAKE, 1);
}

/// Makes the system call `futex` for the bell.
#[allow(unsafe_code, reason = "a system call")]
fn call_futex(operation: c_int, value: u32) -> c_long {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let forever = ptr::null::<libc::timespec>();
    // SAFETY: the word is static, and the call takes no other memory.
    unsafe { libc::syscall(libc::SYS_futex, BELL.as_ptr(), operation, value, forever) }
}

/// Starts the messenger, if this process has none. It runs no handlers.
#[allow(unsafe_code, reason = "the mask of signals")]
fn start_messenger() {
    let process = process::id();
    if MESSENGER_IN.swap(process, Ordering::Relaxed) == process {
        return;
    }
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the set has room.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the first set was filled, and the other has room.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    let messenger = thread::Builder::new()
        .name("uthread-signals".into())
        .stack_size(64 << 10);
    if messenger.spawn(deliver).is_err() {
        // The next wait tries again.
        MESSENGER_IN.store(0, Ordering::Relaxed);
    }
    // SAFETY: the set was stored by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
}

/// Wakes waiters where addresses were left.
fn deliver() {
    loop {
        let seen = BELL.load(Ordering::Acquire);
        for slot in &ADDRESSES {
            if slot.load(Ordering::Relaxed) != 0 {
                let address = slot.swap(0, Ordering::AcqRel);
                futex::wake_at(ptr::with_exposed_provenance(address), usize::MAX);
            }
        }
        call_futex(libc::FUTEX_WAIT, seen);
    }
}

/// A wait for a semaphore, which a handler ends if its thread is one of the system.
pub(crate) struct Wait {
    may_end: bool,
}

impl Wait {
    /// Begins a wait at a word, which outlives the wait.
    pub(crate) fn begin(word: &AtomicU32, may_end: bool) -> Wait {
        WAITED_IN.store(process::id(), Ordering::SeqCst);
        if ARE_INSTALLED.load(Ordering::SeqCst) {
            start_messenger();
        }
        if may_end {
            IS_INTERRUPTED.set(false);
            WAITS_AT.set(word);
        }
        Wait { may_end }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.may_end && IS_INTERRUPTED.get()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.may_end {
            WAITS_AT.set(ptr::null());
        }
    }
}
