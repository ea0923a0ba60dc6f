//! Messages: bytes in several buffers, with an address and control data.

use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem;
use std::net::SocketAddr;
use std::slice;

use rustix::net::{SocketAddrAny, SocketAddrUnix};

use super::buffers::BUFFERS_MAX;
use super::peer_address::PeerAddress;

/// The kernel's `struct msghdr`. Its pointers are valid while the [`Message`] that uses it exists;
/// the other fields describe the received message.
pub(crate) struct Header(libc::msghdr);

impl Header {
    #[allow(unsafe_code, reason = "an empty header is all zeroes")]
    pub(crate) fn new() -> Header {
        // SAFETY: `msghdr` is plain integers and raw pointers; zero is valid for each.
        Header(unsafe { mem::zeroed() })
    }

    /// Returns the length of the received control data, in bytes.
    pub(crate) fn control_length(&self) -> usize {
        self.0.msg_controllen as _
    }

    /// Returns the `MSG_*` flags of the received message.
    pub(crate) fn flags(&self) -> i32 {
        self.0.msg_flags
    }

    /// Returns the length of the received address, in bytes.
    pub(crate) fn address_length(&self) -> libc::socklen_t {
        self.0.msg_namelen
    }
}

/// A message to send or a buffer for one to receive: a header and everything that it points to.
pub(crate) struct Message<'a> {
    header: &'a mut Header,
    borrowed: PhantomData<&'a mut [u8]>,
}

#[allow(unsafe_code, reason = "raw pointers to what is borrowed")]
// SAFETY: the pointers are to borrowed `&mut [IoSliceMut]`, `&[IoSlice]` and plain bytes, all of
// which are `Send`.
unsafe impl Send for Message<'_> {}

impl<'a> Message<'a> {
    /// Prepares a header for receiving bytes, the sender's address and control data.
    pub(crate) fn to_receive(
        header: &'a mut Header,
        slices: &'a mut [IoSliceMut<'_>],
        sender: Option<&'a mut PeerAddress>,
        control: &'a mut [u64],
    ) -> Message<'a> {
        *header = Header::new();
        header.0.msg_iov = slices.as_mut_ptr().cast();
        header.0.msg_iovlen = slices.len().min(BUFFERS_MAX) as _;
        if let Some(sender) = sender {
            header.0.msg_name = (&raw mut sender.storage).cast();
            header.0.msg_namelen = sender.length;
        }
        if !control.is_empty() {
            header.0.msg_control = control.as_mut_ptr().cast();
            header.0.msg_controllen = size_of_val(control) as _;
        }
        Message {
            header,
            borrowed: PhantomData,
        }
    }

    /// Prepares a header for sending bytes to an address, with the first `control_bytes` of the
    /// control data.
    pub(crate) fn to_send(
        header: &'a mut Header,
        slices: &'a [IoSlice<'_>],
        receiver: Option<&'a SocketAddrAny>,
        control: &'a [u64],
        control_bytes: usize,
    ) -> Message<'a> {
        debug_assert!(control_bytes <= size_of_val(control));
        // The kernel only reads through the pointers of a message that is sent.
        *header = Header::new();
        header.0.msg_iov = slices.as_ptr().cast_mut().cast();
        header.0.msg_iovlen = slices.len().min(BUFFERS_MAX) as _;
        if let Some(receiver) = receiver {
            header.0.msg_name = receiver.as_ptr().cast_mut().cast();
            header.0.msg_namelen = receiver.addr_len();
        }
        if control_bytes > 0 {
            header.0.msg_control = control.as_ptr().cast_mut().cast();
            header.0.msg_controllen = control_bytes as _;
        }
        Message {
            header,
            borrowed: PhantomData,
        }
    }

    /// Returns the bytes of a message that is sent.
    #[allow(unsafe_code, reason = "a pointer to what is borrowed")]
    pub(crate) fn slices(&self) -> &[IoSlice<'_>] {
        let (slices, count) = (self.header.0.msg_iov, self.header.0.msg_iovlen);
        // SAFETY: these are the borrowed slices, and `IoSlice` has the layout of `iovec`.
        unsafe { slice::from_raw_parts(slices.cast(), count as _) }
    }

    /// Returns the address that a message is sent to, if it has one of the internet.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.any_address()?.try_into().ok()
    }

    /// Returns the address of the Unix socket that a message is sent to.
    pub(crate) fn unix_address(&self) -> Option<SocketAddrUnix> {
        self.any_address()?.try_into().ok()
    }

    #[allow(unsafe_code, reason = "a pointer to what is borrowed")]
    fn any_address(&self) -> Option<SocketAddrAny> {
        let name = self.header.0.msg_name;
        if name.is_null() {
            return None;
        }
        // SAFETY: this is the borrowed address, of this length.
        Some(unsafe { SocketAddrAny::read(name.cast(), self.header.0.msg_namelen) })
    }

    /// Resets the lengths and flags, as if nothing was received.
    pub(crate) fn clear(&mut self) {
        self.header.0.msg_namelen = 0;
        self.header.0.msg_controllen = 0;
        self.header.0.msg_flags = 0;
    }

    /// Returns the pointer that is passed to the kernel.
    pub(crate) fn as_ptr(&mut self) -> *mut libc::msghdr {
        &raw mut self.header.0
    }
}
