//! Buffers that live as long as one response.
//!
//! A connection that waits for a request holds no response buffer, and one that responds should not
//! allocate. So each thread keeps some buffers: a response borrows one, and returns it before the
//! connection waits again.

use std::cell::RefCell;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

/// Largest buffer to keep: a body that is sent in one piece, and its head.
const KEPT_BYTES_EACH_MAX: usize = 80 * 1024;
/// Memory to keep per thread and kind: enough for a hundred simultaneous responses with files of 16
/// KiB.
const KEPT_BYTES_MAX: usize = 2 * 1024 * 1024;

thread_local! {
    static SCRATCHES: RefCell<FreeBuffers> = const { RefCell::new(FreeBuffers::new()) };
    static PIECES: RefCell<FreeBuffers> = const { RefCell::new(FreeBuffers::new()) };
}

/// A stack: the buffer returned last is taken first, because it is still in the cache.
struct FreeBuffers {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl FreeBuffers {
    const fn new() -> FreeBuffers {
        FreeBuffers {
            buffers: Vec::new(),
            bytes: 0,
        }
    }

    fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    fn give(&mut self, buffer: Vec<u8>) {
        let bytes = self.bytes + buffer.capacity();
        if buffer.capacity() <= KEPT_BYTES_EACH_MAX && bytes <= KEPT_BYTES_MAX {
            self.buffers.push(buffer);
            self.bytes = bytes;
        }
    }
}

/// Returns a buffer to its pool. At the end of a thread the pool is already gone, and the buffer is
/// freed.
fn give_back(to: &'static LocalKey<RefCell<FreeBuffers>>, buffer: Vec<u8>) {
    let _ = to.try_with(|kept| kept.borrow_mut().give(buffer));
}

/// An empty buffer that returns to the thread that drops it.
#[derive(Debug)]
pub(crate) struct Scratch(Vec<u8>);

impl Scratch {
    /// Takes a buffer. Never inlined, like `drop`: the address of a thread-local must not be cached
    /// across a blocking call.
    #[inline(never)]
    pub(crate) fn take() -> Scratch {
        let mut buffer = SCRATCHES.with_borrow_mut(FreeBuffers::take);
        buffer.clear();
        Scratch(buffer)
    }
}

impl Drop for Scratch {
    #[inline(never)]
    fn drop(&mut self) {
        give_back(&SCRATCHES, mem::take(&mut self.0));
    }
}

impl Deref for Scratch {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

/// A buffer of a given size with unspecified content: clearing it would cost as much as reading a
/// file into it.
#[derive(Debug)]
pub(crate) struct Piece {
    bytes: Vec<u8>,
    length: usize,
}

impl Piece {
    /// Takes a buffer. Never inlined, like [`Scratch::take`].
    #[inline(never)]
    pub(crate) fn take(length: usize) -> Piece {
        let mut bytes = PIECES.with_borrow_mut(FreeBuffers::take);
        if bytes.len() < length {
            bytes.resize(length, 0);
        }
        Piece { bytes, length }
    }
}

impl Drop for Piece {
    #[inline(never)]
    fn drop(&mut self) {
        give_back(&PIECES, mem::take(&mut self.bytes));
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_with_its_room() {
        let mut first = Scratch::take();
        first.extend_from_slice(&[1; 1000]);
        drop(first);
        let second = Scratch::take();
        assert!(second.is_empty() && second.capacity() >= 1000);
    }

    #[test]
    fn a_piece_is_as_long_as_asked_for_and_keeps_its_bytes() {
        let mut first = Piece::take(1000);
        first.fill(7);
        let place = first.as_ptr();
        drop(first);
        assert_eq!(*Piece::take(10), [7; 10]);
        let last = Piece::take(900);
        assert_eq!((last.as_ptr(), last.len()), (place, 900));
        assert_eq!(Piece::take(2000).len(), 2000);
    }

    #[test]
    fn an_outsized_buffer_is_not_kept() {
        let mut large = Scratch::take();
        large.reserve(KEPT_BYTES_EACH_MAX + 1);
        drop(large);
        assert!(Scratch::take().capacity() <= KEPT_BYTES_EACH_MAX);
    }

    #[test]
    fn no_more_than_the_bound_is_kept() {
        let most = KEPT_BYTES_MAX / KEPT_BYTES_EACH_MAX;
        let pieces: Vec<_> = (0..=most)
            .map(|_| Piece::take(KEPT_BYTES_EACH_MAX))
            .collect();
        drop(pieces);
        let kept = PIECES.with_borrow(|kept| (kept.buffers.len(), kept.bytes));
        assert_eq!(kept, (most, most * KEPT_BYTES_EACH_MAX));
        drop(Piece::take(KEPT_BYTES_EACH_MAX + 1));
        assert_eq!(PIECES.with_borrow(|kept| kept.buffers.len()), most - 1);
    }
}
