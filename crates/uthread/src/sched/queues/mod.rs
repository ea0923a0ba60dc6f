//! The queues in which fibers wait for a worker.
//!
//! | module | contents |
//! | --- | --- |
//! | [`inbox`] | messages to one worker |
//! | [`ready`] | the ready fibers of a worker |
//! | [`prioritized`] | the fibers whose priority is not normal (with a section in the README) |
//! | [`new_fibers`] | the fibers that have not started |
//! | [`run_queue`] | started fibers that no other worker takes |

pub(crate) mod inbox;
pub(crate) mod new_fibers;
pub(crate) mod prioritized;
pub(crate) mod ready;
mod run_queue;
