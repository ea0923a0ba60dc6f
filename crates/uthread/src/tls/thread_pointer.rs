//! The thread pointer: the register by which compiled code finds the thread-local storage of the
//! running thread.
//!
//! | CPU | register | written by |
//! | --- | --- | --- |
//! | x86-64 | FS base | `wrfsbase` where the kernel permits it (Linux 5.9), `arch_prctl(2)` elsewhere |
//! | aarch64 | `tpidr_el0` | `msr` |

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;

/// `true` if this CPU is known.
pub(super) const IS_KNOWN: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// How this machine writes the thread pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By an instruction.
    Instruction,
    /// By a system call, which takes some 100 ns.
    #[cfg_attr(
        all(not(test), not(target_arch = "x86_64")),
        expect(dead_code, reason = "has an instruction")
    )]
    SystemCall,
}

impl Way {
    /// Returns the fastest way that the kernel permits.
    pub(crate) fn best() -> Way {
        #[cfg(target_arch = "x86_64")]
        {
            /// `HWCAP2_FSGSBASE` of the kernel's `asm/hwcap2.h`.
            const FSGSBASE: libc::c_ulong = 1 << 1;
            // SAFETY: the call reads the auxiliary vector.
            #[allow(unsafe_code, reason = "reading the auxiliary vector")]
            let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP2) };
            match capabilities & FSGSBASE {
                0 => Way::SystemCall,
                _ => Way::Instruction,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            Way::Instruction
        }
    }
}

/// Returns the thread pointer.
#[allow(unsafe_code, reason = "reading a register")]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) fn get() -> usize {
    let pointer: usize;
    // SAFETY: the ABI puts the thread pointer into the first word that it points to.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    // SAFETY: the instruction reads the register.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    pointer
}

/// Sets the thread pointer.
///
/// # Safety
///
/// It is that of a complete block that no other thread uses until the pointer is set again. No
/// address of a thread-local value is kept across the call: the caller accesses such values only in
/// functions that are not inlined.
#[allow(unsafe_code, reason = "writing a register")]
pub(super) unsafe fn set(way: Way, pointer: usize) {
    #[cfg(target_arch = "x86_64")]
    match way {
        // SAFETY: the kernel permits it, and by the caller's contract. The compiler assumes that it
        // may access any memory.
        Way::Instruction => unsafe {
            asm!("wrfsbase {}", in(reg) pointer, options(nostack, preserves_flags));
        },
        // SAFETY: by the caller's contract. `syscall(2)` of the C library would write errno, with
        // the new pointer.
        Way::SystemCall => unsafe {
            const ARCH_SET_FS: usize = 0x1002;
            asm!(
                "syscall",
                inout("rax") libc::SYS_arch_prctl => _,
                in("rdi") ARCH_SET_FS,
                in("rsi") pointer,
                out("rcx") _,
                out("r11") _,
                options(nostack),
            );
        },
    }
    // SAFETY: by the caller's contract.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        asm!("msr tpidr_el0, {}", in(reg) pointer, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (way, pointer);
}

/// Returns 0. Never called, as the CPU is not [known](IS_KNOWN).
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn get() -> usize {
    0
}
