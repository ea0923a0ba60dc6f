//! The part of an architecture in unwinding: the numbers of registers, and the instructions of a
//! prologue.

use gimli::{AArch64, Register, X86_64 as X86};

pub(super) struct Architecture {
    pub(super) stack_pointer: Register,
    pub(super) frame_pointer: Register,
    /// The bits of a return address on the stack. The others may sign it.
    pub(super) return_address_mask: u64,
    /// Returns the distance from the stack pointer after a prologue to the frame pointer. Gets the
    /// code before and after the end of the instruction that sets the frame pointer, and returns
    /// `None` if it does not understand the prologue.
    pub(super) frame_pointer_distance: fn(before: &[u8], after: &[u8]) -> Option<u64>,
    /// Returns `true` if the code ends with a call.
    pub(super) is_after_call: fn(before: &[u8]) -> bool,
}

/// The architecture of this build, if it is known.
pub(super) const ARCHITECTURE: Option<Architecture> = if cfg!(target_arch = "x86_64") {
    Some(X86_64)
} else if cfg!(target_arch = "aarch64") {
    Some(AARCH64)
} else {
    None
};

const X86_64: Architecture = Architecture {
    stack_pointer: X86::RSP,
    frame_pointer: X86::RBP,
    return_address_mask: u64::MAX,
    frame_pointer_distance: x86_64_distance,
    is_after_call: is_after_x86_64_call,
};

const AARCH64: Architecture = Architecture {
    stack_pointer: AArch64::SP,
    frame_pointer: AArch64::X29,
    // A program has 48 bits of addresses unless it asks for more.
    return_address_mask: (1 << 48) - 1,
    frame_pointer_distance: aarch64_distance,
    is_after_call: is_after_aarch64_call,
};

/// Expects `mov rbp, rsp` before, and `push` of registers and `sub rsp` after it.
fn x86_64_distance(before: &[u8], mut after: &[u8]) -> Option<u64> {
    if !before.ends_with(&[0x48, 0x89, 0xe5]) && !before.ends_with(&[0x48, 0x8b, 0xec]) {
        return None;
    }
    let mut distance = 0;
    loop {
        (distance, after) = match *after {
            [0x41, 0x50..=0x57, ref rest @ ..] | [0x50..=0x57, ref rest @ ..] => {
                (distance + 8, rest)
            }
            [0x48, 0x83, 0xec, size, ref rest @ ..] if size < 0x80 => {
                return Some(distance + u64::from(size)).filter(|_| !is_aligned_next(rest));
            }
            [0x48, 0x81, 0xec, a, b, c, d, ref rest @ ..] => {
                let size = u32::from_le_bytes([a, b, c, d]);
                return Some(distance + u64::from(size)).filter(|_| !is_aligned_next(rest));
            }
            _ => return Some(distance).filter(|_| !is_aligned_next(after)),
        };
    }
}

/// Returns `true` if the code begins with `and rsp`.
fn is_aligned_next(code: &[u8]) -> bool {
    code.starts_with(&[0x48, 0x83, 0xe4]) || code.starts_with(&[0x48, 0x81, 0xe4])
}

/// Recognizes `call` with a displacement, a register, or a place in memory.
fn is_after_x86_64_call(before: &[u8]) -> bool {
    let from_end = |length: usize| before.get(before.len().checked_sub(length)?..);
    let is_direct = from_end(5).is_some_and(|code| code[0] == 0xe8);
    is_direct
        || (2..=7)
            .filter_map(from_end)
            .any(|code| code[0] == 0xff && code[1] >> 3 & 7 == 2)
}

/// Expects `mov x29, sp` or `add x29, sp` before, and perhaps `sub sp, sp` after it.
fn aarch64_distance(before: &[u8], after: &[u8]) -> Option<u64> {
    /// `add x29, sp, #0`.
    const SET: u32 = 0x9100_03fd;
    /// `sub sp, sp, #0`.
    const GROW: u32 = 0xd100_03ff;
    let immediate = |instruction: u32, operation: u32| {
        let shift = if instruction & 1 << 22 == 0 { 0 } else { 12 };
        (instruction & !(0x1fff << 10) == operation)
            .then_some(u64::from(instruction >> 10 & 0xfff) << shift)
    };
    let set = immediate(u32::from_le_bytes(*before.last_chunk()?), SET)?;
    let instructions = after.chunks_exact(4).filter_map(<[u8]>::first_chunk);
    let grown = instructions.map_while(|code| immediate(u32::from_le_bytes(*code), GROW));
    Some(set + grown.sum::<u64>())
}

/// Recognizes `bl` and `blr`.
fn is_after_aarch64_call(before: &[u8]) -> bool {
    let instruction = before.last_chunk().map(|code| u32::from_le_bytes(*code));
    instruction.is_some_and(|code| code >> 26 == 0b10_0101 || code & !(0x1f << 5) == 0xd63f_0000)
}

#[cfg(test)]
mod tests {
    use super::{aarch64_distance, is_after_aarch64_call, is_after_x86_64_call, x86_64_distance};

    /// `push rbp; mov rbp, rsp`.
    const BEGIN: &[u8] = &[0x55, 0x48, 0x89, 0xe5];

    fn code(instructions: &[u32]) -> Vec<u8> {
        (instructions.iter())
            .flat_map(|code| code.to_le_bytes())
            .collect()
    }

    #[test]
    fn prologues_of_x86_64_are_understood() {
        // push r15; push rbx; sub rsp, 0x20; test rdi, rdi
        let small = [0x41, 0x57, 0x53, 0x48, 0x83, 0xec, 0x20, 0x48, 0x85, 0xff];
        assert_eq!(x86_64_distance(BEGIN, &small), Some(0x30));
        // push rbx; sub rsp, 0x188
        let large = [0x53, 0x48, 0x81, 0xec, 0x88, 0x01, 0, 0];
        assert_eq!(x86_64_distance(BEGIN, &large), Some(0x190));
        // push rbx; mov rbx, rdi
        assert_eq!(x86_64_distance(BEGIN, &[0x53, 0x48, 0x89, 0xfb]), Some(8));
        // and rsp, -32; sub rsp, 0x40
        let aligned = [0x48, 0x83, 0xe4, 0xe0, 0x48, 0x83, 0xec, 0x40];
        assert_eq!(x86_64_distance(BEGIN, &aligned), None);
        // push rbp
        assert_eq!(x86_64_distance(&[0x55], &small), None);
    }

    #[test]
    fn calls_of_x86_64_are_recognized() {
        assert!(is_after_x86_64_call(&[0xe8, 1, 2, 3, 4]));
        // call [rip + ..]; call rax; call [rax + 0x18]
        assert!(is_after_x86_64_call(&[0xff, 0x15, 1, 2, 3, 4]));
        assert!(is_after_x86_64_call(&[0x90, 0xff, 0xd0]));
        assert!(is_after_x86_64_call(&[0x90, 0xff, 0x50, 0x18]));
        // jmp rax; nop
        assert!(!is_after_x86_64_call(&[0x90, 0xff, 0xe0]));
        assert!(!is_after_x86_64_call(&[0x90; 32]));
        assert!(!is_after_x86_64_call(&[]));
    }

    #[test]
    fn prologues_of_aarch64_are_understood() {
        // stp x29, x30, [sp, #0x30]; add x29, sp, #0x30
        let add = code(&[0xa903_7bfd, 0x9100_c3fd]);
        assert_eq!(aarch64_distance(&add, &[]), Some(0x30));
        // sub sp, sp, #0x10; mov x0, x1
        let grows = code(&[0xd100_43ff, 0xaa01_03e0]);
        assert_eq!(aarch64_distance(&add, &grows), Some(0x40));
        // mov x29, sp; sub sp, sp, #1, lsl #12; sub sp, sp, #0x20
        let large = code(&[0xd140_07ff, 0xd100_83ff]);
        let set = code(&[0x9100_03fd]);
        assert_eq!(aarch64_distance(&set, &large), Some(0x1020));
        assert_eq!(aarch64_distance(&code(&[0xa903_7bfd]), &[]), None);
    }

    #[test]
    fn calls_of_aarch64_are_recognized() {
        // bl; blr x8; b; ret
        assert!(is_after_aarch64_call(&code(&[0x9400_0010])));
        assert!(is_after_aarch64_call(&code(&[0xd63f_0100])));
        assert!(!is_after_aarch64_call(&code(&[0x1400_0010])));
        assert!(!is_after_aarch64_call(&code(&[0xd65f_03c0])));
    }
}
