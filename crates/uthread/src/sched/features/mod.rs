//! Services for fibers beyond waiting for an operation or a wake-up.
//!
//! | module | contents |
//! | --- | --- |
//! | [`file_calls`] | calls on files, also where the kernel has no thread for a request |
//! | [`readiness`] | waiting for descriptors beside wake-ups |
//! | [`multishot_queue`] | completions of a multishot operation, until they are taken |
//! | [`started_requests`] | operations that a fiber starts, and waits for later |
//! | [`thread_ends`] | waiting for the end of a fiber's thread |
//! | [`offload`] | blocking calls on the pool's threads |
//! | [`dedicated`] | fibers that run on threads of their own beside the workers |
//! | [`shared_stack`] | calls on a stack that fibers share |
//! | [`listing`] | the list of a runtime's fibers |
//! | [`ring`] | the features of the caller's ring |
//! | [`virtual_time`] | a runtime as a driver with virtual time sees it |
//! | [`fork`] | the state of a fiber in a child made by `fork` |

pub(crate) mod dedicated;
pub(crate) mod file_calls;
pub(crate) mod fork;
pub(crate) mod listing;
pub(crate) mod multishot_queue;
pub(crate) mod offload;
pub(crate) mod readiness;
pub(crate) mod ring;
pub(crate) mod shared_stack;
pub(crate) mod started_requests;
pub(crate) mod thread_ends;
pub(crate) mod virtual_time;
