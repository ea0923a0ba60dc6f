//! What io_uring has and `std` has no name for: one request for all that is to come, and requests of your own.
//!
//! [`accept`], [`receive`] and [`poll`] are iterators by multishot requests; where the driver or the kernel has none, they do the
//! same by single ones.
//!
//! [`RegisteredBuffer`] and [`RegisteredFile`] spare the kernel work on memory and files that are used again and again; where
//! they cannot, they are used all the same. [`read_file`] opens, reads and closes by one submission, and [`nop`] does nothing.
//!
//! Everything else here is for programs that know io_uring: [`submit`] carries out any request that the crate [`io_uring`] can build, and suspends the fiber
//! until it has ended; [`submit_all`] does so with several, linked or not. Both need a fiber on
//! [`Driver::Uring`](crate::Driver::Uring), and anywhere else return an error of the kind
//! [`Unsupported`](std::io::ErrorKind::Unsupported), which says what to do. [`supported`] asks the kernel.

mod accept;
mod buffers;
mod nop;
mod poll;
mod read_file;
mod receive;
mod refusal;
mod registered_buffer;
pub(crate) mod registered_file;
mod repeated;
mod submit;

pub use io_uring;

use crate::sched;
pub use accept::{Accept, Listener, accept};
pub use buffers::{BufferRing, Chunk};
pub use nop::nop;
pub use poll::{Events, Poll, poll};
pub use read_file::read_file;
pub use receive::{Receive, receive};
pub use registered_buffer::RegisteredBuffer;
pub use registered_file::{RegisteredFile, Registrable};
pub use submit::{Completion, submit, submit_all};

/// Whether the ring of the calling fiber carries out operations of this code, such as
/// `opcode::Splice::CODE`. False where there is no ring, or it does not tell.
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
    sched::ring::supports(opcode)
}
