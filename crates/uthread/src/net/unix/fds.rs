//! File descriptors sent with a message.
//!
//! They travel beside the bytes, in a list of the kernel's `struct cmsghdr`. Each header is
//! followed by its data and aligned to words:
//!
//! ```text
//!   total length | SOL_SOCKET | SCM_RIGHTS | descriptor, descriptor, ..
//! ```

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use crate::net::socket::{Inner, Socket};
use crate::op::message::{Header, Message};

/// Maximum number of descriptors per message: the kernel's `SCM_MAX_FD`.
pub const FDS_MAX: usize = 253;

const LENGTH_BYTES: usize = size_of::<usize>();
const NUMBER_BYTES: usize = size_of::<i32>();
const HEADER_BYTES: usize = LENGTH_BYTES + 2 * NUMBER_BYTES;
const WORD_BYTES: usize = size_of::<u64>();

/// Size of the control buffer for the maximum number of descriptors, in words.
const WORDS_MAX: usize = words(FDS_MAX);

const fn words(fds: usize) -> usize {
    (HEADER_BYTES + fds * NUMBER_BYTES).div_ceil(WORD_BYTES)
}

/// The result of a call that receives descriptors.
///
/// ```
/// use std::os::fd::AsFd;
/// use uthread::net::UnixStream;
///
/// let (ours, theirs) = UnixStream::pair()?;
/// let file = uthread::fs::File::open("Cargo.toml")?;
/// ours.send_fds(b"two", &[file.as_fd(), file.as_fd()])?;
/// let received = theirs.recv_fds(&mut [0; 100], 1)?;
/// assert_eq!((received.bytes, received.fds.len()), (3, 1));
/// assert!(received.fds_lost);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct ReceivedFds {
    /// Number of bytes received.
    pub bytes: usize,
    /// The descriptors, in the order in which they were sent. They are closed on `exec`, so child
    /// processes do not inherit them.
    pub fds: Vec<OwnedFd>,
    /// `true` if descriptors were lost: more were sent than the call asked for, or than this
    /// process may open.
    pub fds_lost: bool,
    /// `true` if a datagram was longer than the buffer, so that the rest of it is lost.
    pub is_truncated: bool,
}

/// Sends bytes with descriptors through the function `send`.
pub(super) fn send(
    buffer: &[u8],
    fds: &[BorrowedFd<'_>],
    send: impl FnOnce(Message<'_>) -> io::Result<usize>,
) -> io::Result<usize> {
    if fds.len() > FDS_MAX {
        return Err(Errno::INVAL.into());
    }
    let control = encode(fds);
    let control_bytes = match fds.len() {
        0 => 0,
        count => HEADER_BYTES + count * NUMBER_BYTES,
    };
    let mut header = Header::new();
    let slices = &[io::IoSlice::new(buffer)];
    let message = Message::to_send(&mut header, slices, None, &control, control_bytes);
    send(message)
}

pub(super) fn receive<S: Inner>(
    socket: &Socket<S>,
    buffer: &mut [u8],
    fds_max: usize,
) -> io::Result<ReceivedFds> {
    let fds_max = fds_max.min(FDS_MAX);
    let mut control = [0; WORDS_MAX];
    let mut header = Header::new();
    let slices = &mut [io::IoSliceMut::new(buffer)];
    let room = &mut control[..words(fds_max)];
    let message = Message::to_receive(&mut header, slices, None, room);
    let bytes = socket.receive_message(message, false)?;
    let mut fds = decode(&control, header.control_length());
    let too_many = fds.len() > fds_max;
    fds.truncate(fds_max);
    Ok(ReceivedFds {
        bytes,
        fds,
        fds_lost: too_many || header.flags() & libc::MSG_CTRUNC != 0,
        is_truncated: header.flags() & libc::MSG_TRUNC != 0,
    })
}

fn encode(fds: &[BorrowedFd<'_>]) -> [u64; WORDS_MAX] {
    let mut bytes = [0; WORDS_MAX * WORD_BYTES];
    let length = HEADER_BYTES + fds.len() * NUMBER_BYTES;
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_ne_bytes());
    let numbers = [libc::SOL_SOCKET, libc::SCM_RIGHTS].into_iter();
    let numbers = numbers.chain(fds.iter().map(AsRawFd::as_raw_fd));
    let places = bytes[LENGTH_BYTES..].chunks_exact_mut(NUMBER_BYTES);
    for (place, number) in places.zip(numbers) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    let mut words = [0; WORDS_MAX];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

/// Extracts the descriptors from the control data that the kernel has written. Must be called once
/// per message, as it takes ownership of them.
fn decode(words: &[u64], filled_bytes: usize) -> Vec<OwnedFd> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut rest = &bytes[..filled_bytes.min(bytes.len())];
    let mut fds = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk() {
        let length = usize::from_ne_bytes(*length).min(rest.len());
        let (level, kind) = (number(tail, 0), number(tail, 1));
        if (level, kind) == (Some(libc::SOL_SOCKET), Some(libc::SCM_RIGHTS)) {
            let data = rest.get(HEADER_BYTES..length).unwrap_or_default();
            fds.extend(data.as_chunks().0.iter().copied().map(own));
        }
        let next = length.max(HEADER_BYTES).next_multiple_of(LENGTH_BYTES);
        rest = rest.get(next..).unwrap_or_default();
    }
    fds
}

fn number(bytes: &[u8], index: usize) -> Option<i32> {
    bytes
        .as_chunks()
        .0
        .get(index)
        .copied()
        .map(i32::from_ne_bytes)
}

#[allow(
    unsafe_code,
    reason = "takes ownership of a descriptor that the kernel has created"
)]
fn own(number: [u8; NUMBER_BYTES]) -> OwnedFd {
    // SAFETY: the kernel has created this descriptor for the message, and the message is decoded
    // once.
    unsafe { OwnedFd::from_raw_fd(RawFd::from_ne_bytes(number)) }
}
