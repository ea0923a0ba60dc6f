//! Alternate signal stacks: handlers run on that of the worker or on one that a fiber has
//! installed, and overflows are reported afterwards. In processes of their own, which handle the
//! signal.
#![allow(
    unsafe_code,
    reason = "signal handlers and signal stacks are C interfaces"
)]

use std::cell::Cell;
use std::hint::black_box;
use std::mem;
use std::os::unix::process::ExitStatusExt;
use std::ptr;

use crate::harness::child::{alone, child};
use crate::harness::place::Place;
use crate::harness::{EVERYWHERE, ON_WORKERS, behaviours};
use crate::support::memory::use_stack;
use uthread::{spawn, yield_now};

behaviours![
    (
        EVERYWHERE,
        [a_handler_runs_on_the_stack_that_its_fiber_has_installed]
    ),
    (
        ON_WORKERS,
        [
            a_handler_runs_on_the_alternate_stack_of_the_worker,
            an_overflow_is_reported_after_another_stack_was_in_use
        ]
    )
];

/// Size of a signal stack, above what the kernel saves in a signal frame.
const STACK_BYTES: usize = 64 * 1024;

thread_local! {
    /// The address of a local variable of the last handler on this thread. Other workers take
    /// signals at the same time.
    static HANDLER_AT: Cell<usize> = const { Cell::new(0) };
}

extern "C" fn handle(_: libc::c_int) {
    let here = black_box(0_u8);
    HANDLER_AT.set(ptr::from_ref(&here).addr());
}

fn install_handler() {
    // SAFETY: all zeroes is a valid `sigaction`.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = libc::SA_ONSTACK;
    // SAFETY: the handler only stores a number, in a place that needs no initialization.
    let result = unsafe { libc::sigaction(libc::SIGUSR2, &action, ptr::null_mut()) };
    assert_eq!(result, 0);
}

/// Raises the signal on this thread, to which it is delivered before the call returns. Returns
/// where its handler has run.
fn raise() -> usize {
    HANDLER_AT.set(0);
    // SAFETY: the signal has a handler.
    assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
    HANDLER_AT.get()
}

/// Installs a signal stack for the calling thread, and returns the former one.
fn exchange(stack: &libc::stack_t) -> libc::stack_t {
    // SAFETY: all zeroes is a valid `stack_t`.
    let mut former: libc::stack_t = unsafe { mem::zeroed() };
    // SAFETY: the stack outlives its use.
    assert_eq!(unsafe { libc::sigaltstack(stack, &mut former) }, 0);
    former
}

/// Takes a signal on a stack of its own, as code does that brings its own handlers. The worker does
/// not change meanwhile.
fn take_a_signal_on_another_stack() {
    let mut memory = vec![0_u8; STACK_BYTES];
    let range = memory.as_ptr_range();
    let former = exchange(&libc::stack_t {
        ss_sp: memory.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: memory.len(),
    });
    let handler_at = raise();
    exchange(&former);
    assert!((range.start.addr()..range.end.addr()).contains(&handler_at));
}

fn a_handler_runs_on_the_stack_that_its_fiber_has_installed(place: Place) {
    alone(|| {
        install_handler();
        place.run(|| {
            for _ in 0..10 {
                take_a_signal_on_another_stack();
                yield_now();
            }
        });
    });
}

fn a_handler_runs_on_the_alternate_stack_of_the_worker(place: Place) {
    alone(|| {
        install_handler();
        place.run(|| {
            let here = black_box(0_u8);
            let own = ptr::from_ref(&here).addr();
            let fibers: Vec<_> = (0..10).map(|_| spawn(raise)).collect();
            for fiber in fibers {
                let handler_at = fiber.join().unwrap();
                assert!(handler_at != 0);
            }
            // Not on the fiber's stack, which would have its frame below this one.
            let below = own - STACK_BYTES / 2..own;
            assert!(!below.contains(&raise()));
        });
    });
}

fn an_overflow_is_reported_after_another_stack_was_in_use(place: Place) {
    let Some(output) = child() else {
        install_handler();
        return place.run(|| {
            take_a_signal_on_another_stack();
            yield_now();
            use_stack(usize::MAX);
        });
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{errors}");
    assert!(errors.contains("stack overflow in fiber"), "{errors}");
}
