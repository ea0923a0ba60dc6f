//! The memory of this process, and of the stack of a fiber.

use std::hint::black_box;

/// Recurses until it has used so many bytes of stack.
#[inline(never)]
pub(crate) fn use_stack(bytes: usize) -> usize {
    #[inline(never)]
    fn deeper(start: usize, bytes: usize) -> usize {
        let frame = black_box([1_u8; 512]);
        let used = start - (&raw const frame).addr();
        if used < bytes {
            // Not a tail call: the frame is read after it.
            deeper(start, bytes) + usize::from(black_box(frame)[7])
        } else {
            1
        }
    }
    let here = black_box(0_u8);
    deeper((&raw const here).addr(), bytes)
}

/// Returns the bytes of memory that this process has.
pub(crate) fn resident() -> usize {
    status("VmRSS:")
}

/// Returns a number of bytes that the kernel tells of this process.
pub(crate) fn status(what: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(what));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    1024 * kib.parse::<usize>().unwrap()
}
