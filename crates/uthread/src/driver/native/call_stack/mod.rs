//! Captures the calls in progress on the stack of another thread while it is blocked in the kernel.
//!
//! The thread is not interrupted: a signal would make system calls of the program fail with
//! `EINTR`. The kernel reveals the stack pointer and the program counter of a blocked thread, and
//! the unwind information of the program leads from there to the callers, on a copy of the stack.
//! The copy is valid if the thread has used no CPU time meanwhile.
//!
//! The other registers are unknown. A function that finds its frame by the frame pointer is passed
//! by its first instructions, which give the distance from the stack pointer to the frame pointer.
//! From its caller on, the frame pointer is known.

mod architecture;
mod modules;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use gimli::{Register, RegisterRule};

use self::architecture::{ARCHITECTURE, Architecture};
use super::blocked::{Blocked, Position, Task};
use crate::resource::standard;

/// Calls beyond that are left out: a recursion as deep is seen from these.
const CALLS_MAX: usize = 128;

/// A stack by default. Calls beyond that part of a larger stack are left out.
const STACK_BYTES_MAX: usize = 256 << 10;

/// The instructions that are read at once. The longest prologue that is understood takes 31 bytes.
const CODE_BYTES: usize = 32;

/// The registers up to the stack pointer of each architecture, by their numbers in the unwind
/// information.
const REGISTERS: usize = 32;

/// Returns the program counter of a blocked thread, followed by the return addresses on its stack,
/// the innermost first. Returns `None` if the thread is not, or not any more, blocked like this, or
/// if the kernel does not reveal where.
pub(crate) fn capture(task: Task, blocked: Blocked) -> Option<Vec<usize>> {
    let architecture = ARCHITECTURE.as_ref()?;
    let time = task.cpu_time()?;
    let position = task.position(blocked)?;
    let memory = Memory::copy(position.stack_pointer as u64).ok()?;
    let has_waited = task.cpu_time() == Some(time) && task.position(blocked) == Some(position);
    has_waited.then(|| calls(architecture, &memory, position))
}

/// Unwinds the stack as far as possible.
fn calls(architecture: &Architecture, memory: &Memory, position: Position) -> Vec<usize> {
    let mut frame = Frame::innermost(architecture, position);
    let mut calls = vec![position.program_counter];
    while calls.len() < CALLS_MAX
        && let Some(caller) = frame.caller(architecture, memory)
    {
        frame = caller;
        calls.push(frame.address as usize);
    }
    calls
}

/// The memory of this process, in which a missing page is an error, and a copy of a part of a
/// stack.
struct Memory {
    file: File,
    stack_pointer: u64,
    stack: Vec<u8>,
}

impl Memory {
    fn copy(stack_pointer: u64) -> io::Result<Memory> {
        let file = standard::avoid(File::open("/proc/self/mem")?)?;
        let mut stack = vec![0; STACK_BYTES_MAX];
        // The stack ends where less can be read.
        let count = file.read_at(&mut stack, stack_pointer)?;
        stack.truncate(count);
        Ok(Memory {
            file,
            stack_pointer,
            stack,
        })
    }

    /// Returns a word of the stack.
    fn word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.stack_pointer)?).ok()?;
        let bytes = self.stack.get(offset..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    }

    /// Returns instructions of the program.
    fn code(&self, address: u64) -> Option<[u8; CODE_BYTES]> {
        let mut code = [0; CODE_BYTES];
        self.file.read_exact_at(&mut code, address).ok()?;
        Some(code)
    }

    /// Returns the instructions before an address.
    fn code_before(&self, address: u64) -> Option<[u8; CODE_BYTES]> {
        self.code(address.checked_sub(CODE_BYTES as u64)?)
    }
}

/// A call in progress.
struct Frame {
    /// The address of the instruction to continue with.
    address: u64,
    /// `None` for a register whose value is unknown.
    registers: [Option<u64>; REGISTERS],
    is_innermost: bool,
}

impl Frame {
    fn innermost(architecture: &Architecture, position: Position) -> Frame {
        let mut registers = [None; REGISTERS];
        registers[usize::from(architecture.stack_pointer.0)] = Some(position.stack_pointer as u64);
        Frame {
            address: position.program_counter as u64,
            registers,
            is_innermost: true,
        }
    }

    fn register(&self, register: Register) -> Option<u64> {
        *self.registers.get(usize::from(register.0))?
    }

    /// Returns the caller. Returns `None` for the first call of a stack, and if the unwind
    /// information does not suffice.
    fn caller(&self, architecture: &Architecture, memory: &Memory) -> Option<Frame> {
        // A call may be the last instruction of its function.
        let address = self.address.checked_sub(u64::from(!self.is_innermost))?;
        let rules = modules::rules(address, architecture.frame_pointer)?;
        let known = self.register(rules.base);
        let base = known.or_else(|| {
            let end = rules.prologue_end?;
            self.frame_pointer(end, architecture, memory)
        })?;
        let frame_address = base.checked_add_signed(rules.offset)?;
        // The stack grows down. Only the innermost call may have no frame.
        let stack_pointer = self.register(architecture.stack_pointer)?;
        if frame_address < stack_pointer.checked_add(u64::from(!self.is_innermost))? {
            return None;
        }
        let mut registers = self.registers;
        let mut return_address = self.register(rules.return_address);
        for (register, rule) in &rules.registers {
            let value = match *rule {
                RegisterRule::SameValue => continue,
                // Saved registers are above the stack pointer.
                RegisterRule::Offset(offset) => {
                    Some(memory.word(frame_address.wrapping_add_signed(offset))?)
                }
                RegisterRule::ValOffset(offset) => Some(frame_address.wrapping_add_signed(offset)),
                RegisterRule::Register(other) => self.register(other),
                _ => None,
            };
            if *register == rules.return_address {
                return_address = value;
            }
            set(&mut registers, *register, value);
        }
        let return_address = return_address? & architecture.return_address_mask;
        let is_certain =
            known.is_some() || (architecture.is_after_call)(&memory.code_before(return_address)?);
        if return_address == 0 || !is_certain {
            return None;
        }
        // The call has changed it, if it is a register.
        set(&mut registers, rules.return_address, None);
        set(
            &mut registers,
            architecture.stack_pointer,
            Some(frame_address),
        );
        Some(Frame {
            address: return_address,
            registers,
            is_innermost: false,
        })
    }

    /// Returns the frame pointer of a function whose prologue sets it just before `end`, if only
    /// the prologue changes the stack pointer.
    fn frame_pointer(&self, end: u64, architecture: &Architecture, memory: &Memory) -> Option<u64> {
        let (before, after) = (memory.code_before(end)?, memory.code(end)?);
        let distance = (architecture.frame_pointer_distance)(&before, &after)?;
        self.register(architecture.stack_pointer)?
            .checked_add(distance)
    }
}

fn set(registers: &mut [Option<u64>; REGISTERS], register: Register, value: Option<u64>) {
    if let Some(kept) = registers.get_mut(usize::from(register.0)) {
        *kept = value;
    }
}
