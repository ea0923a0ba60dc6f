//! [echo]: self::echo
//! [chat]: self::chat
//! [proxy]: self::proxy
//! [crawler]: self::crawler
//! [parallel_sum]: self::parallel_sum
//! [channels]: super::channels
//! [contents]: super
//! [drivers]: super::drivers

// The links above come first, and so take the place of those in the text, which lead to files.
#![doc = include_str!("programs.md")]

/// The echo server.
///
#[doc = "```rust,no_run"]
#[doc = include_str!("../../examples/echo.rs")]
#[doc = "```"]
pub mod echo {}

/// The chat room.
///
#[doc = "```rust,no_run"]
#[doc = include_str!("../../examples/chat.rs")]
#[doc = "```"]
pub mod chat {}

/// The proxy.
///
#[doc = "```rust,no_run"]
#[doc = include_str!("../../examples/proxy.rs")]
#[doc = "```"]
pub mod proxy {}

/// The crawler.
///
#[doc = "```rust,no_run"]
#[doc = include_str!("../../examples/crawler.rs")]
#[doc = "```"]
pub mod crawler {}

/// The parallel sum.
///
#[doc = "```rust,no_run"]
#[doc = include_str!("../../examples/parallel_sum.rs")]
#[doc = "```"]
pub mod parallel_sum {}
