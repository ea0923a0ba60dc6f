//! What a fiber finds that walks its stack, as the default panic hook does, which prints meanwhile.

use std::env;
use std::ffi::{c_int, c_void};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::child::{is_child, repeat};
use crate::harness::place::Place;
use crate::harness::{IN_FIBERS, behaviours};
use uthread::{spawn, yield_now};

behaviours![(
    IN_FIBERS,
    [
        a_walk_ends_with_the_stack_of_the_fiber,
        a_message_has_the_functions_of_the_fiber
    ]
)];

/// The size of a stack is more than what a walk passes here.
const STACK_BYTES_MAX: usize = 1 << 20;

type Visit = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

#[allow(unsafe_code, reason = "functions of the unwinder")]
unsafe extern "C" {
    fn _Unwind_Backtrace(visit: Visit, argument: *mut c_void) -> c_int;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// Notes where the frame of a function is, and lets other fibers run.
#[allow(unsafe_code, reason = "called by the unwinder")]
unsafe extern "C" fn visit(context: *mut c_void, frames: *mut c_void) -> c_int {
    // SAFETY: the argument of the walk, which nobody else uses.
    let frames = unsafe { &mut *frames.cast::<Vec<usize>>() };
    // SAFETY: the context of the walk.
    frames.push(unsafe { _Unwind_GetCFA(context) });
    yield_now();
    0
}

#[allow(unsafe_code, reason = "functions of the unwinder")]
fn a_walk_ends_with_the_stack_of_the_fiber(_place: Place) {
    let is_over = Arc::new(AtomicBool::new(false));
    let others = (0..4).map(|_| {
        let is_over = Arc::clone(&is_over);
        spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                yield_now();
            }
        })
    });
    let others: Vec<_> = others.collect();
    let walk = spawn(|| {
        let mut frames = Vec::<usize>::new();
        // SAFETY: the function takes the frames.
        unsafe { _Unwind_Backtrace(visit, (&raw mut frames).cast()) };
        frames
    });
    let frames = walk.join().unwrap();
    is_over.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().unwrap());
    let first = frames[0];
    let is_of_fiber = |frame: &usize| (first..first + STACK_BYTES_MAX).contains(frame);
    assert!(
        frames.len() > 3 && frames.iter().all(is_of_fiber),
        "{frames:x?}"
    );
}

/// As that of a thread, without those that call its closure.
fn a_message_has_the_functions_of_the_fiber(place: Place) {
    fn fail() {
        panic!("on purpose");
    }
    if is_child() {
        return place.run(|| assert!(spawn(fail).join().is_err()));
    }
    let mut command = Command::new("env");
    command
        .arg("RUST_BACKTRACE=1")
        .arg(env::current_exe().unwrap());
    let output = repeat(&mut command);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("stack backtrace:"), "{text}");
    assert!(text.contains("::fail\n"), "{text}");
    assert!(!text.contains("uthread::"), "{text}");
}
