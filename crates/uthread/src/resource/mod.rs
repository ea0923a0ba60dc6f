//! Resources that outlive single operations: driver state of descriptors, and resources registered
//! with a ring.
//!
//! The owner of a descriptor keeps an [`FdState`](descriptor::FdState) beside it; operations borrow
//! both as a [`Descriptor`](descriptor::Descriptor). A [`Registration`](registration::Registration)
//! stands for a resource registered with a ring. Only the ring's worker changes the ring's tables.

pub(crate) mod buffer_group;
pub(crate) mod descriptor;
pub(crate) mod pages;
pub(crate) mod registration;
pub(crate) mod standard;
