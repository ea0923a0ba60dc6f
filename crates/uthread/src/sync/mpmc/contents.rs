//! What a channel holds, as both of its sides see it.

use std::sync::Arc;

use super::{Receiver, Sender, UNBOUNDED};
use crate::sched::caller::turn;

macro_rules! impl_contents {
    ($($side:ident),*) => {$(
        impl<T> $side<T> {
            /// Returns the number of values that wait to be received. Others may change it at any
            /// time.
            ///
            /// ```
            /// let (sender, receiver) = uthread::sync::mpmc::sync_channel(2);
            /// sender.send(1).unwrap();
            /// assert_eq!((sender.len(), receiver.len()), (1, 1));
            /// assert!(!receiver.is_empty() && !sender.is_full());
            /// assert_eq!(sender.capacity(), Some(2));
            /// assert!(sender.same_channel(&sender.clone()));
            /// ```
            #[must_use]
            pub fn len(&self) -> usize {
                // A loop that only looks lets others run.
                turn::spend_try();
                self.channel.len()
            }

            /// Returns `true` if no value waits to be received: with bound 0, always. See the
            /// example of [`len`](Self::len).
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns `true` if there is no space for a value: with bound 0, always. See the
            /// example of [`len`](Self::len).
            #[must_use]
            pub fn is_full(&self) -> bool {
                self.len() == self.channel.bound
            }

            /// Returns the bound of the channel, or `None` if it has none. See the example of
            /// [`len`](Self::len).
            #[must_use]
            pub fn capacity(&self) -> Option<usize> {
                Some(self.channel.bound).filter(|bound| *bound != UNBOUNDED)
            }

            /// Returns `true` if the other one is of the same channel. See the example of
            /// [`len`](Self::len).
            #[must_use]
            pub fn same_channel(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.channel, &other.channel)
            }
        }
    )*};
}

impl_contents!(Sender, Receiver);
