//! io_uring features that `std` has no counterpart for: multishot requests, registered memory and
//! files, and raw requests.
//!
//! [`accept`], [`receive`] and [`poll`] are iterators over the completions of a multishot request.
//! If the driver or the kernel does not support the request, they submit a new one for each item.
//! [`poll_once`] waits for one event.
//!
//! [`RegisteredBuffer`] and [`RegisteredFile`] save the kernel work on memory and files that are
//! used repeatedly. They also work where registration is not possible. [`read_file`] and
//! [`read_file_beneath`] open, read and close a file by one submission, and [`nop`] does nothing.
//!
//! [`requests`] starts reads, writes, receives and sends, and waits for them later: one fiber has many
//! in flight.
//!
//! The other functions are for programs that use io_uring directly: [`submit`] executes any request
//! that the crate [`io_uring`] can build, and suspends the fiber until it has completed;
//! [`submit_all`] executes several requests, linked or not. Both need a fiber on
//! [`Driver::Uring`](crate::Driver::Uring) and otherwise return
//! [`Unsupported`](std::io::ErrorKind::Unsupported) with a remedy. A [`FileSlot`] is a place for a
//! file without a descriptor. [`supported`] queries the kernel.

mod accept;
mod buffers;
mod file_slot;
mod nop;
mod poll;
mod read_file;
mod receive;
mod refusal;
mod registered_buffer;
pub(crate) mod registered_file;
mod repeated;
mod requests;
mod submit;

pub use io_uring;

use crate::sched;
pub use accept::{Accept, accept};
pub use buffers::{BufferRing, Chunk};
pub use file_slot::FileSlot;
pub use nop::nop;
pub use poll::{Events, Poll, poll, poll_once};
pub use read_file::{read_file, read_file_beneath};
pub use receive::{Receive, receive};
pub use registered_buffer::RegisteredBuffer;
pub use registered_file::{RegisteredFile, Registrable};
pub use requests::{Buffer, BufferMut, Request, Requests, Submitted, requests};
pub use submit::{Completion, submit, submit_all};

/// Returns `true` if the ring of the calling fiber supports operations with this code, such as
/// `opcode::Splice::CODE`. Returns `false` if there is no ring, or if the kernel cannot be queried.
///
/// ```
/// use uthread::ring::{self, io_uring::opcode};
///
/// assert!(!ring::supported(opcode::Nop::CODE), "no fiber");
/// let in_a_fiber = uthread::run(|| ring::supported(opcode::Nop::CODE));
/// # drop(in_a_fiber); // Depends on the driver.
/// ```
#[must_use]
pub fn supported(opcode: u8) -> bool {
    sched::features::ring::supports(opcode)
}
