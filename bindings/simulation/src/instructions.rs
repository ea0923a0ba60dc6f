//! System calls that a program makes by the instruction itself, as crate `rustix` does, and not by a function of the
//! C library.
//!
//! The kernel sends a signal for each system call that is not made in the code of the C library
//! (`PR_SET_SYSCALL_USER_DISPATCH`, Linux 5.11). The handler reports the program's, and makes all of them.

use std::ffi::{c_int, c_long, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::{io, mem, ptr, slice};

use uthread_interpose::{is_refused, leaves_world};

use crate::real::real;

const PR_SET_SYSCALL_USER_DISPATCH: c_int = 59;
const OFF: usize = 0;
const ON: usize = 1;

const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// Length of the instruction.
const INSTRUCTION_BYTES: i64 = 2;

/// What the kernel looks at: whether it sends signals.
static SELECTOR: AtomicU8 = AtomicU8::new(BLOCK);

/// Tells whether the code before an address is the program's.
static IS_PROGRAM: OnceLock<fn(usize) -> bool> = OnceLock::new();

/// Begins to report on the calling thread. `is_program` tells whether the code before an address, which is being
/// called, is the program's.
///
/// # Errors
///
/// `Unsupported` if the C library is part of the program; `EINVAL` if the kernel cannot do it.
#[allow(unsafe_code, reason = "a handler of a signal")]
pub(crate) fn begin(is_program: fn(usize) -> bool) -> io::Result<()> {
    IS_PROGRAM.get_or_init(|| is_program);
    let code_of_c = code_around(real(c"syscall").addr());
    let (start, length) = code_of_c.ok_or(io::ErrorKind::Unsupported)?;
    // SAFETY: no flags and an empty mask are all zeroes.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    // System calls of the handler itself may be dispatched.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: the handler makes the system call, and keeps all else.
    if unsafe { libc::sigaction(libc::SIGSYS, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    SELECTOR.store(BLOCK, Ordering::Relaxed);
    dispatch(ON, start, length, SELECTOR.as_ptr())
}

/// Ends that.
pub(crate) fn end() {
    // It fails if it has not begun.
    let _ = dispatch(OFF, 0, 0, ptr::null_mut());
}

#[allow(unsafe_code, reason = "a system call")]
fn dispatch(mode: usize, start: usize, length: usize, selector: *mut u8) -> io::Result<()> {
    // SAFETY: the selector lives as long as the process.
    let result =
        unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, start, length, selector) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Returns where the code of the library with this address is, and its length.
#[allow(unsafe_code, reason = "a list of the loader")]
pub(crate) fn code_around(address: usize) -> Option<(usize, usize)> {
    unsafe extern "C" fn find(
        object: *mut libc::dl_phdr_info,
        _: usize,
        found: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes an object.
        let object = unsafe { &*object };
        // SAFETY: this is what `code_around` passes.
        let (address, range) = unsafe { &mut *found.cast::<(usize, Option<(usize, usize)>)>() };
        let count = usize::from(object.dlpi_phnum);
        // SAFETY: the object has so many headers.
        let headers = unsafe { slice::from_raw_parts(object.dlpi_phdr, count) };
        for header in headers {
            let start = (object.dlpi_addr + header.p_vaddr) as usize;
            let length = header.p_memsz as usize;
            if header.p_type == libc::PT_LOAD && (start..start + length).contains(address) {
                *range = Some((start, length));
            }
        }
        c_int::from(range.is_some())
    }
    let mut found = (address, None::<(usize, usize)>);
    // SAFETY: the function takes this argument.
    unsafe { libc::dl_iterate_phdr(Some(find), (&raw mut found).cast()) };
    found.1
}

/// Makes the system call that the signal is for.
#[allow(unsafe_code, reason = "the registers of the program")]
unsafe extern "C" fn handle(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes it.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = &mut context.uc_mcontext.gregs;
    let number = registers[libc::REG_RAX as usize];
    let names = [
        libc::REG_RDI,
        libc::REG_RSI,
        libc::REG_RDX,
        libc::REG_R10,
        libc::REG_R8,
        libc::REG_R9,
    ];
    let arguments = names.map(|name| registers[name as usize]);
    let instruction = registers[libc::REG_RIP as usize] as usize;
    let is_refused = leaves_world(number)
        && IS_PROGRAM
            .get()
            .is_some_and(|is_program| is_program(instruction))
        && is_refused(number);
    if [libc::SYS_clone, libc::SYS_clone3, libc::SYS_vfork].contains(&number) && !is_refused {
        // Whoever it makes returns on another stack: the instruction is repeated, and those after it are not seen.
        SELECTOR.store(ALLOW, Ordering::Relaxed);
        registers[libc::REG_RIP as usize] -= INSTRUCTION_BYTES;
        return;
    }
    registers[libc::REG_RAX as usize] = if is_refused {
        -i64::from(libc::EPERM)
    } else {
        // SAFETY: the contract of the call is the caller's.
        unsafe { call(number, arguments) }
    };
}

/// Makes a system call, in the code of the C library. Returns what the kernel returns.
///
/// # Safety
///
/// The contract of the system call.
#[allow(unsafe_code, reason = "a system call")]
unsafe fn call(number: i64, [a, b, c, d, e, f]: [i64; 6]) -> i64 {
    type Call = unsafe extern "C" fn(c_long, ...) -> c_long;
    // SAFETY: the call has no preconditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the address is that of a variable of the thread.
    let before = unsafe { errno.read() };
    // SAFETY: this is the type of the function.
    let call = unsafe { mem::transmute::<*mut c_void, Call>(real(c"syscall")) };
    let result = if number == libc::SYS_getrandom {
        // SAFETY: by the caller's contract.
        (unsafe { libc::getrandom(a as *mut c_void, b as usize, c as u32) }) as i64
    } else {
        // SAFETY: by the caller's contract.
        unsafe { call(number, a, b, c, d, e, f) }
    };
    if result != -1 {
        return result;
    }
    // SAFETY: as above.
    let failed = unsafe { errno.read() };
    // SAFETY: as above.
    unsafe { errno.write(before) };
    -i64::from(failed)
}
