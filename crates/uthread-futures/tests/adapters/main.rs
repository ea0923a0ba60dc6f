//! The adapters on each driver, with one worker and with two, and with thread-local storage of
//! fibers of their own.

mod places;

mod blocking;
mod directions;
mod streams;
mod wakers;
