//! Iterators over the values of a receiver.
#![allow(
    clippy::inline_always,
    reason = "hot paths, whose instructions are counted"
)]

use super::Receiver;

/// An iterator that waits for each value. Created by [`Receiver::iter`]; see the example there.
#[derive(Debug)]
pub struct Iter<'a, T: 'a> {
    receiver: &'a Receiver<T>,
}

impl<'a, T> Iter<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> Iter<'a, T> {
        Iter { receiver }
    }
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

/// An iterator over the values that are available without waiting. Created by
/// [`Receiver::try_iter`]; see the example there.
#[derive(Debug)]
pub struct TryIter<'a, T: 'a> {
    receiver: &'a Receiver<T>,
}

impl<'a, T> TryIter<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> TryIter<'a, T> {
        TryIter { receiver }
    }
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

/// An iterator that owns its receiver and waits for each value. Created by `Receiver::into_iter`.
///
/// ```
/// let (sender, receiver) = uthread::sync::mpsc::channel();
/// uthread::spawn(move || (1..=10).for_each(|number| sender.send(number).unwrap()));
/// assert_eq!(receiver.into_iter().sum::<i32>(), 55);
/// ```
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    #[inline(always)]
    fn next(&mut self) -> Option<T> {
        self.receiver.recv().ok()
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self }
    }
}
