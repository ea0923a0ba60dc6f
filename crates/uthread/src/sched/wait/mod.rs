//! The calls by which a fiber gives up its worker, and a thread outside the runtime blocks.

mod caller;
pub(crate) mod cancellation;
mod panics;
mod park;
mod perform;
mod priority;
mod spawn;
mod yielding;

pub(crate) use self::caller::{
    after, in_fiber, is_caller, is_inside, is_on_worker, now, wake_handle, with_control,
    with_locals,
};
pub(crate) use self::cancellation::{
    Within, count_early_end, count_spawn, deadline, deadline_to_inherit, is_abandoned,
    is_cancelled, is_shut_down, is_unlimited, refusal, refuse_if_cancelled, unwind_if_cancelled,
    unwind_if_ending, vanish_if_abandoned,
};
pub(crate) use self::panics::{Since, catch_unwind, contain};
pub(crate) use self::park::{
    Outside, park, park_cancellable, park_deadline, park_unless_cancelled, park_unless_over,
    park_until, park_until_or_cancel, park_until_or_cancel_outside, sleep_until,
};
pub(crate) use self::perform::{perform, perform_nonblocking};
pub(crate) use self::priority::{pass_priority, priority, set_priority};
pub(crate) use self::spawn::{
    fork_here, spawn_here, spawn_ordinary, spread_next, take_back, take_larger_stack,
};
pub(crate) use self::yielding::{
    begin_call, end_call, pass_turn, spend_try, spend_turn, spend_within_wait, yield_now,
    yield_within_call,
};
use super::worker::current::running;
pub(crate) use super::worker::exit::begin as begin_exit;
pub(crate) use super::worker::panics::{is_panicking, record_panic};
