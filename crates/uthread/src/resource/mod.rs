//! Resources that outlive single operations: a descriptor's driver state, and what is registered with a ring.
//!
//! Owners of descriptors keep an [`FdState`](descriptor::FdState) beside each; operations borrow both as a
//! [`Descriptor`](descriptor::Descriptor). What a ring holds for its owner is used by a
//! [`Registration`](registration::Registration), in the tables of which only the ring's worker makes changes.

pub(crate) mod buffer_group;
pub(crate) mod descriptor;
pub(crate) mod pages;
pub(crate) mod registration;
