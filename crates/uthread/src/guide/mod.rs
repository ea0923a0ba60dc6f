//! Chapters to read: how to port a program, what to know of fibers, and why all this is sound.
//!
//! - [`porting`]: how to port a program, and what differs.
//! - [`items`]: what each item of `std` is here, and what is absent.
//! - [`blocking`]: what still blocks a worker, how one finds out, and what to do.
//! - [`cancellation`]: how a fiber, a block or a scope is ended, and what its calls do then.
//! - [`soundness`]: thread-locals, values that are not `Send`, borrowed buffers, and why fibers stay.

pub mod porting;

pub mod items;

pub mod blocking;

pub mod cancellation;

pub mod soundness;
