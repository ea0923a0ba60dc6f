//! [`first_hour`]: first_hour
//! [`first_server`]: first_server
//! [`first_service`]: first_service
//! [`channels`]: channels
//! [`programs`]: programs
//! [`drivers`]: drivers
//! [`from_threads`]: from_threads
//! [`from_async`]: from_async
//! [`async_crates`]: async_crates
//! [`porting`]: porting
//! [`items`]: items
//! [`pthreads`]: pthreads
//! [`blocking`]: blocking
//! [`hangs`]: hangs
//! [`cancellation`]: cancellation
//! [`fault_tolerance`]: fault_tolerance
//! [`services`]: services
//! [`clients`]: clients
//! [`production`]: production
//! [`tuning`]: tuning
//! [`soundness`]: soundness

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("README.md")]

pub mod first_hour;

pub mod first_server;

pub mod first_service;

pub mod channels;

pub mod programs;

pub mod drivers;

pub mod from_threads;

pub mod from_async;

pub mod async_crates;

pub mod porting;

pub mod items;

pub mod pthreads;

pub mod blocking;

pub mod hangs;

pub mod cancellation;

pub mod fault_tolerance;

pub mod services;

pub mod clients;

pub mod production;

pub mod tuning;

pub mod soundness;
