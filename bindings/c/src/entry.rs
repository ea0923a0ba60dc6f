//! An entry of a submission queue, as C programs write it.

use uthread::ring::io_uring::squeue::Entry;

/// A submission queue entry: the kernel's `struct io_uring_sqe` of `linux/io_uring.h`.
#[allow(non_camel_case_types, reason = "the name of a C type")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct io_uring_sqe {
    pub(crate) opcode: u8,
    pub(crate) flags: u8,
    pub(crate) ioprio: u16,
    pub(crate) fd: i32,
    /// The offset, or the second address.
    pub(crate) off: u64,
    pub(crate) addr: u64,
    pub(crate) len: u32,
    /// The flags of the operation.
    pub(crate) op_flags: u32,
    pub(crate) user_data: u64,
    pub(crate) buf_index: u16,
    pub(crate) personality: u16,
    pub(crate) file_index: u32,
    pub(crate) addr3: u64,
    pub(crate) unused: u64,
}

const _: () = assert!(size_of::<io_uring_sqe>() == size_of::<Entry>());
