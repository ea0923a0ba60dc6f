//! The end of a kernel task whose thread is continued by another one: the registers that functions
//! preserve stay on its stack meanwhile.

/// Saves the registers, stores the stack pointer at `frame`, and exits the kernel task. Returns
/// when the thread is continued.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[allow(unsafe_code, reason = "saving and restoring registers")]
pub(super) unsafe extern "C" fn leave_task(frame: *mut usize) {
    std::arch::naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov eax, {exit}",
        "xor edi, edi",
        "syscall",
        "ud2",
        exit = const libc::SYS_exit,
    )
}

/// Continues the thread whose registers are saved at `frame`, with the thread pointer `pointer`.
/// The kernel stores the thread's id at the address `id`, and clears the word at `cleared` at its
/// end. Returns a negative errno if there is no task for it.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[allow(unsafe_code, reason = "saving and restoring registers")]
pub(super) unsafe extern "C" fn continue_thread(
    frame: usize,
    pointer: usize,
    id: usize,
    cleared: usize,
) -> isize {
    std::arch::naked_asm!(
        // clone(flags, stack, parent_tid, child_tid, tls)
        "mov r8, rsi",
        "mov rsi, rdi",
        "mov r10, rcx",
        "mov edi, {flags}",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        flags = const CLONE_FLAGS,
        clone = const libc::SYS_clone,
    )
}

/// Saves the registers, stores the stack pointer at `frame`, and exits the kernel task. Returns
/// when the thread is continued.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[allow(unsafe_code, reason = "saving and restoring registers")]
pub(super) unsafe extern "C" fn leave_task(frame: *mut usize) {
    std::arch::naked_asm!(
        "sub sp, sp, #160",
        "stp x19, x20, [sp]",
        "stp x21, x22, [sp, #16]",
        "stp x23, x24, [sp, #32]",
        "stp x25, x26, [sp, #48]",
        "stp x27, x28, [sp, #64]",
        "stp x29, x30, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "mov x9, sp",
        "str x9, [x0]",
        "mov x0, #0",
        "mov x8, #{exit}",
        "svc #0",
        "brk #1",
        exit = const libc::SYS_exit,
    )
}

/// Continues the thread whose registers are saved at `frame`, with the thread pointer `pointer`.
/// The kernel stores the thread's id at the address `id`, and clears the word at `cleared` at its
/// end. Returns a negative errno if there is no task for it.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[allow(unsafe_code, reason = "saving and restoring registers")]
pub(super) unsafe extern "C" fn continue_thread(
    frame: usize,
    pointer: usize,
    id: usize,
    cleared: usize,
) -> isize {
    std::arch::naked_asm!(
        // clone(flags, stack, parent_tid, tls, child_tid)
        "mov x4, x3",
        "mov x3, x1",
        "mov x1, x0",
        "ldr w0, ={flags}",
        "mov x8, #{clone}",
        "svc #0",
        "cbz x0, 2f",
        "ret",
        "2:",
        "ldp x19, x20, [sp]",
        "ldp x21, x22, [sp, #16]",
        "ldp x23, x24, [sp, #32]",
        "ldp x25, x26, [sp, #48]",
        "ldp x27, x28, [sp, #64]",
        "ldp x29, x30, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "add sp, sp, #160",
        "ret",
        flags = const CLONE_FLAGS,
        clone = const libc::SYS_clone,
    )
}

/// Does nothing. Never called, as the CPU is not [known](super::thread_pointer::IS_KNOWN).
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(unsafe_code, reason = "the signature of the others")]
pub(super) unsafe extern "C" fn leave_task(_: *mut usize) {}

/// Returns -1. Never called, as the CPU is not [known](super::thread_pointer::IS_KNOWN).
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[allow(unsafe_code, reason = "the signature of the others")]
pub(super) unsafe extern "C" fn continue_thread(_: usize, _: usize, _: usize, _: usize) -> isize {
    -1
}

/// The flags of the C library, so that the block gets the id of the task, and the end of the task
/// is noticed.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const CLONE_FLAGS: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID;
