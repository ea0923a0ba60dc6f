//! The parts of the public channel types that are the same in [`mpsc`](super::mpsc) and
//! [`mpmc`](super::mpmc).

/// Implements the traits of these senders, which have a field `channel`.
macro_rules! impl_senders {
    ($($sender:ident),*) => {$(
        impl<T> Clone for $sender<T> {
            fn clone(&self) -> $sender<T> {
                self.channel.add_sender();
                $sender {
                    channel: Arc::clone(&self.channel),
                }
            }
        }

        impl<T> Drop for $sender<T> {
            fn drop(&mut self) {
                self.channel.remove_sender();
            }
        }

        impl<'a, T> Transmit<'a, T> for &'a $sender<T> {
            type Event = Sent<'a, T>;

            fn event(self, value: &'a mut Option<T>) -> Sent<'a, T> {
                Sent::new(&self.channel, value)
            }
        }

        impl<T> UnwindSafe for $sender<T> {}
        impl<T> RefUnwindSafe for $sender<T> {}

        impl<T> fmt::Debug for $sender<T> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.debug_struct(stringify!($sender)).finish_non_exhaustive()
            }
        }
    )*};
}

/// Implements the traits of the type `Receiver`, which has a field `channel`, and its iterators, in
/// the module of this name.
macro_rules! impl_receiver {
    ($module:literal) => {
        impl<T> Drop for Receiver<T> {
            fn drop(&mut self) {
                self.channel.remove_receiver();
            }
        }

        impl<'a, T> Receive for &'a Receiver<T> {
            type Event = Received<'a, T>;

            fn event(self) -> Received<'a, T> {
                Received::new(&self.channel)
            }
        }

        impl<T> UnwindSafe for Receiver<T> {}
        impl<T> RefUnwindSafe for Receiver<T> {}

        impl<T> fmt::Debug for Receiver<T> {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.debug_struct("Receiver").finish_non_exhaustive()
            }
        }

        /// An iterator that waits for each value. Created by [`Receiver::iter`]; see the example
        /// there.
        #[derive(Debug)]
        pub struct Iter<'a, T: 'a> {
            receiver: &'a Receiver<T>,
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

        impl<T> Iterator for TryIter<'_, T> {
            type Item = T;

            fn next(&mut self) -> Option<T> {
                self.receiver.try_recv().ok()
            }
        }

        /// An iterator that owns its receiver and waits for each value. Created by
        /// `Receiver::into_iter`.
        ///
        /// ```
        #[doc = concat!("let (sender, receiver) = uthread::sync::", $module, "::channel();")]
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
    };
}

pub(super) use {impl_receiver, impl_senders};
