//! Buffers that live as long as one response.
//!
//! A connection that waits for its next request should hold no response buffer, and one that answers should not allocate
//! one. So each thread keeps a few: borrowed while a response is made and sent, back before the connection waits again.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

/// Buffers kept per thread: few responses are half sent at the same moment, as most leave in one write.
const KEPT_MAX: usize = 16;
/// Largest buffer worth keeping: a body that is sent in one piece, and its head.
const KEPT_BYTES_MAX: usize = 80 * 1024;

thread_local! {
    static KEPT: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, that goes back to the thread it is dropped on.
#[derive(Debug)]
pub(crate) struct Scratch(Vec<u8>);

impl Scratch {
    /// Never inlined, like `drop`: the address of a thread-local must not be remembered across a blocking call.
    #[inline(never)]
    pub(crate) fn take() -> Scratch {
        let mut buffer = KEPT.with_borrow_mut(|kept| kept.pop()).unwrap_or_default();
        buffer.clear();
        Scratch(buffer)
    }
}

impl Drop for Scratch {
    #[inline(never)]
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0);
        if buffer.capacity() > KEPT_BYTES_MAX {
            return;
        }
        // At the end of a thread its buffers are gone already; then this one goes the same way.
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.len() < KEPT_MAX {
                kept.push(buffer);
            }
        });
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
    fn an_outsized_buffer_is_not_kept() {
        let mut large = Scratch::take();
        large.reserve(KEPT_BYTES_MAX + 1);
        drop(large);
        assert!(Scratch::take().capacity() <= KEPT_BYTES_MAX);
    }
}
