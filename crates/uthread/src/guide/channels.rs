//! [`mpsc::channel`]: crate::sync::mpsc::channel
//! [`mpsc::sync_channel(bound)`]: crate::sync::mpsc::sync_channel
//! [`mpmc::channel`]: crate::sync::mpmc::channel
//! [`mpmc::sync_channel(bound)`]: crate::sync::mpmc::sync_channel
//! [`oneshot::channel`]: crate::sync::oneshot::channel
//! [`promise::channel`]: crate::sync::promise::channel
//! [`broadcast::channel(capacity)`]: crate::sync::broadcast::channel
//! [`watch::channel(initial)`]: crate::sync::watch::channel
//! [`select!`]: crate::select
//! [`recv(&receiver)`]: crate::sync::select::recv
//! [`send(&sender, &mut value)`]: crate::sync::select::send
//! [`wait(&waiter)`]: crate::sync::select::wait
//! [`changed(&mut receiver)`]: crate::sync::select::changed
//! [`readable(&socket)`]: crate::sync::select::readable
//! [`writable(&socket)`]: crate::sync::select::writable
//! [`ended(&mut handle)`]: crate::sync::select::ended
//! [`join_next(&mut set)`]: crate::sync::select::join_next
//! [`JoinSet`]: crate::thread::JoinSet
//! [Signals]: crate::signal::Signals
//! [`after(duration)`]: crate::sync::select::after
//! [`at(instant)`]: crate::sync::select::at
//! [`tick(&mut interval)`]: crate::sync::select::tick
//! [`sync::select`]: mod@crate::sync::select
//! [`select`]: crate::sync::select::select()
//! [cancellation]: super::cancellation
//! [first_service]: super::first_service
//! [contents]: super
//! [programs]: super::programs

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("channels.md")]
