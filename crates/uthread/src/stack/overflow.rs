//! The overflow report: a touched guard page names the fiber and terminates the process.
//!
//! A full stack cannot run a signal handler, so every worker has an alternate signal stack. The
//! handler may only make async-signal-safe calls: it formats into a buffer of its own and writes
//! that. Faults elsewhere are passed to the previous handler.
#![allow(
    unsafe_code,
    reason = "signal handlers and signal stacks are C interfaces"
)]

use std::fmt::{self, Write};
use std::mem::{self, MaybeUninit};
use std::panic::Location;
use std::sync::OnceLock;
use std::{io, ptr};

/// Size of the alternate stack. The handler needs about 2 KiB; the rest is for the vector state
/// that the kernel saves in the signal frame (up to 11 KiB with AMX).
const ALTERNATE_STACK_BYTES: usize = 64 * 1024;

/// Maximum length of a report, enough for two paths of ordinary length. A longer report is cut.
const REPORT_BYTES_MAX: usize = 1024;

/// The fiber whose guard page was touched.
pub(crate) struct Victim<'a> {
    pub(crate) id: u64,
    pub(crate) name: Option<&'a str>,
    pub(crate) spawn_site: &'static Location<'static>,
    pub(crate) stack_size: usize,
}

/// Calls `report` with the fiber of this thread that owns the guard page at `address`, if there is
/// one. Runs in a signal handler.
pub(crate) type Lookup = fn(address: usize, report: &mut dyn FnMut(Victim<'_>));

struct Installed {
    lookup: Lookup,
    previous_segv: libc::sigaction,
    previous_bus: libc::sigaction,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// Handles a fault, with the arguments of a handler of signals. Returns `true` if the program can go on.
pub(crate) type Handle = fn(*const libc::siginfo_t, *mut libc::c_void) -> bool;

/// Asked before anything else.
static FIRST: OnceLock<Handle> = OnceLock::new();

/// Sets the function that is asked first, once. Later calls do nothing.
pub(crate) fn on_fault(handle: Handle) {
    FIRST.get_or_init(|| handle);
}

/// Installs the handler for the whole process, once. Later calls do nothing.
pub(crate) fn install(lookup: Lookup) {
    INSTALLED.get_or_init(|| Installed {
        lookup,
        previous_segv: replace_handler(libc::SIGSEGV),
        previous_bus: replace_handler(libc::SIGBUS),
    });
}

fn replace_handler(signal: libc::c_int) -> libc::sigaction {
    let mut previous = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeroes is a valid `sigaction`: no flags, an empty mask, the default handler.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: both pointers are to live values, and `handle` is async-signal-safe.
    let result = unsafe { libc::sigaction(signal, &action, previous.as_mut_ptr()) };
    assert_eq!(result, 0, "SIGSEGV and SIGBUS can always be handled");
    // SAFETY: the call succeeded, so it has written the previous action.
    unsafe { previous.assume_init() }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if FIRST.get().is_some_and(|first| first(info, context)) {
        return;
    }
    // SAFETY: the kernel passes a valid `siginfo_t` to an `SA_SIGINFO` handler.
    let info_ref = unsafe { &*info };
    // SAFETY: SIGSEGV and SIGBUS carry the faulting address.
    let address = unsafe { info_ref.si_addr() }.addr();
    // Unset only while `install` runs, when no fiber exists.
    let Some(installed) = INSTALLED.get() else {
        return reset_to_default(signal);
    };
    (installed.lookup)(address, &mut |victim| report_and_abort(&victim));
    let previous = match signal {
        libc::SIGBUS => &installed.previous_bus,
        _ => &installed.previous_segv,
    };
    match previous.sa_sigaction {
        // Returning repeats the faulting instruction, now with the default action.
        libc::SIG_DFL | libc::SIG_IGN => reset_to_default(signal),
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            type Action = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: with `SA_SIGINFO`, the address is that of a function of this type.
            let handler = unsafe { mem::transmute::<usize, Action>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without `SA_SIGINFO`, the address is that of a function of this type.
            let handler = unsafe { mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler) };
            handler(signal);
        }
    }
}

fn reset_to_default(signal: libc::c_int) {
    // SAFETY: `SIG_DFL` is valid for every signal, and `signal(2)` is async-signal-safe.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

fn report_and_abort(victim: &Victim<'_>) -> ! {
    let mut report = Report {
        bytes: [0; REPORT_BYTES_MAX],
        length: 0,
    };
    // An error means that the report was cut.
    let _ = write!(
        report,
        "\nuthread: stack overflow in fiber {id} '{name}', spawned at {site}: \
         its {size} KiB are used up.\n\
         Recurse less, move large values to the heap, or raise `stack_size` in `Builder` or `thread::Builder` \
         (with pthreads: `pthread_attr_setstacksize`).\n",
        id = victim.id,
        name = victim.name.unwrap_or("unnamed"),
        site = victim.spawn_site,
        size = victim.stack_size / 1024,
    );
    let text = &report.bytes[..report.length];
    // SAFETY: `write` is async-signal-safe, and `text` is a live slice.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
    // SAFETY: `abort` is async-signal-safe.
    unsafe { libc::abort() }
}

/// A string on the stack, as a signal handler must not allocate.
struct Report {
    bytes: [u8; REPORT_BYTES_MAX],
    length: usize,
}

impl Write for Report {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let rest = &mut self.bytes[self.length..];
        let taken = text.len().min(rest.len());
        rest[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        if taken == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

/// The calling thread's alternate signal stack, until it is dropped on the same thread.
pub(crate) struct AlternateStack {
    memory: Box<[MaybeUninit<u8>]>,
    previous: libc::stack_t,
}

impl AlternateStack {
    /// Installs an alternate signal stack for the calling thread.
    pub(crate) fn install() -> io::Result<AlternateStack> {
        let mut memory = Box::new_uninit_slice(ALTERNATE_STACK_BYTES);
        let stack = libc::stack_t {
            ss_sp: memory.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: memory.len(),
        };
        let previous = exchange(&stack)?;
        Ok(AlternateStack { memory, previous })
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        debug_assert_eq!(self.memory.len(), ALTERNATE_STACK_BYTES);
        // The kernel must not keep the address of memory that is about to be freed.
        let restored = exchange(&self.previous);
        debug_assert!(restored.is_ok(), "no signal handler is running on it");
    }
}

fn exchange(stack: &libc::stack_t) -> io::Result<libc::stack_t> {
    let mut previous = libc::stack_t {
        ss_sp: ptr::null_mut(),
        ss_flags: 0,
        ss_size: 0,
    };
    // SAFETY: `stack` is disabled, or describes memory that outlives its use (see
    // `AlternateStack`).
    if unsafe { libc::sigaltstack(stack, &mut previous) } == 0 {
        Ok(previous)
    } else {
        Err(io::Error::last_os_error())
    }
}
