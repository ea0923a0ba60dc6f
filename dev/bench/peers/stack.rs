//! Stages at which another process reads the memory of this one, and a given depth of stack: the
//! same for all small programs in Rust.

use std::hint::black_box;

/// Prints the name of a stage, and waits for a line on standard input, or for its end.
pub(crate) fn stage(name: &str) {
    println!("{name}");
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .expect("standard input is readable");
}

/// Calls `last` below `kib` frames of a KiB each, all of which are written.
pub(crate) fn descend(kib: usize, last: &mut dyn FnMut()) {
    match kib {
        0 => last(),
        _ => frame(kib, last),
    }
}

#[inline(never)]
fn frame(kib: usize, last: &mut dyn FnMut()) {
    let mut block = [1_u8; 1024];
    black_box(&mut block);
    descend(kib - 1, last);
    black_box(&block);
}
