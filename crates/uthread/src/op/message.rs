//! Messages: bytes in several pieces, with an address and with what travels beside them.

use std::io::{IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem;

use rustix::net::SocketAddrAny;

use super::buffers::BUFFERS_MAX;
use super::net::PeerAddress;

/// The kernel's `struct msghdr`. Its pointers are good while the [`Message`] of it lives; the rest says what came.
pub(crate) struct Header(libc::msghdr);

impl Header {
    #[allow(unsafe_code, reason = "an empty header is all zeroes")]
    pub(crate) fn new() -> Header {
        // SAFETY: `msghdr` is plain integers and raw pointers; zero is valid for each.
        Header(unsafe { mem::zeroed() })
    }

    /// How much of the room for what travels beside the bytes is filled, in bytes.
    pub(crate) fn control_length(&self) -> usize {
        self.0.msg_controllen as _
    }

    /// `MSG_*` of what was received.
    pub(crate) fn flags(&self) -> i32 {
        self.0.msg_flags
    }

    /// The length of the address that was received, in bytes.
    pub(crate) fn address_length(&self) -> libc::socklen_t {
        self.0.msg_namelen
    }
}

/// A message to send, or room for one to receive: a header, and all that it points to.
pub(crate) struct Message<'a> {
    header: &'a mut Header,
    borrowed: PhantomData<&'a mut [u8]>,
}

#[allow(unsafe_code, reason = "raw pointers to what is borrowed")]
// SAFETY: the pointers are to what is borrowed, as `&mut [IoSliceMut]`, `&[IoSlice]` and plain bytes: all of
// these may be sent.
unsafe impl Send for Message<'_> {}

impl<'a> Message<'a> {
    /// To receive into these pieces, the address of the sender, and the room for what comes beside.
    pub(crate) fn to_receive(
        header: &'a mut Header,
        slices: &'a mut [IoSliceMut<'_>],
        sender: Option<&'a mut PeerAddress>,
        control: &'a mut [u64],
    ) -> Message<'a> {
        header.0 = libc::msghdr {
            msg_iov: slices.as_mut_ptr().cast(),
            msg_iovlen: slices.len().min(BUFFERS_MAX) as _,
            ..Header::new().0
        };
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

    /// To send these pieces, to whom, and what goes beside, of which the first `control_bytes` are filled.
    pub(crate) fn to_send(
        header: &'a mut Header,
        slices: &'a [IoSlice<'_>],
        receiver: Option<&'a SocketAddrAny>,
        control: &'a [u64],
        control_bytes: usize,
    ) -> Message<'a> {
        debug_assert!(control_bytes <= size_of_val(control));
        // The kernel only reads what the pointers of a message to send are to.
        header.0 = libc::msghdr {
            msg_iov: slices.as_ptr().cast_mut().cast(),
            msg_iovlen: slices.len().min(BUFFERS_MAX) as _,
            ..Header::new().0
        };
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

    /// Notes that nothing was received.
    pub(crate) fn clear(&mut self) {
        self.header.0.msg_namelen = 0;
        self.header.0.msg_controllen = 0;
        self.header.0.msg_flags = 0;
    }

    /// What the kernel gets.
    pub(crate) fn as_ptr(&mut self) -> *mut libc::msghdr {
        &raw mut self.header.0
    }
}
