//! A panic anywhere ends the process: the measurement sees a program that failed and why, not one
//! that hangs without its listener, or that can unwind no more as there is no memory.

use std::{panic, process};

pub(crate) fn make_panics_fatal() {
    panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        process::exit(1);
    }));
}
