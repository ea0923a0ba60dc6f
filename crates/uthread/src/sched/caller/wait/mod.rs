//! Waiting: a fiber leaves its worker to others meanwhile, a thread blocks.

mod awaiting;
mod outcome;
mod park;
mod perform;

pub(crate) use self::awaiting::{awaiting, handle_awaiting};
pub(crate) use self::outcome::await_outcome;
pub(crate) use self::park::{
    Outside, park, park_cancellable, park_deadline, park_unless_cancelled, park_unless_over,
    park_until, park_until_cancelled, park_until_or_cancel, park_until_or_cancel_outside,
    sleep_until,
};
pub(crate) use self::perform::{perform, perform_nonblocking};
pub(crate) use crate::fiber::Awaiting;
