//! A first test in a simulated world: from an empty project to a bug that only some orders of events show.
//!
//! # A service
//!
//! A server takes payments, and a client pays again if it has no answer within a second. Both are blocking code
//! of `std`:
//!
//! ```text
//! cargo new --lib payments
//! cd payments
//! cargo add uthread
//! cargo add --dev uthread-simulation
//! ```
//!
//! `src/lib.rs`:
//!
//! ```no_run
#![doc = include_str!("../tests/payments/service.rs")]
//! ```
//!
//! # A test
//!
//! The client pays ten times, while the answers of the server are lost for some time. `tests/payments.rs`:
//!
//! ```
//! # mod payments { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/payments/service.rs")); }
//! use payments::{pay, server};
//! use std::time::Duration;
//! use uthread_simulation::World;
//!
//! #[uthread::test(virtual_time, seeds = 100)]
//! fn each_payment_counts_once() {
//!     let world = World::new().unwrap();
//!     world.links().set_latency(Duration::from_millis(1)..Duration::from_millis(100));
//!     world.host("server", server);
//!     let client = world.host("client", || {
//!         for _ in 0..10 {
//!             pay("server:7000", 1)?;
//!         }
//!         assert_eq!(pay("server:7000", 0)?, 10);
//!         Ok(())
//!     });
//!     uthread::sleep(Duration::from_secs(1));
//!     world.link("server", "client").cut();
//!     uthread::sleep(Duration::from_secs(3));
//!     world.links().heal();
//!     client.wait().unwrap();
//! }
//! ```
//!
//! `cargo test` fails at once, although the time of the test is more than four seconds, and shows the last
//! events:
//!
//! ```text
//! assertion `left == right` failed
//!   left: 11
//!  right: 10
//! the last events of the world:
//!     0.000000 all links: latency 1ms..100ms
//!     0.000000 server: starts
//!     0.000000 client: starts
//!     0.000000 client -> server: connects to port 7000
//!     ..
//!     0.873338 client -> server: connects to port 7000
//!     0.887400 server -> client: the end of a stream
//!     1.000079 server -> client: cut (fault 1)
//!     1.016070 client -> server: 2 B
//!     1.071152 client -> server: 2 B arrive
//!     1.071152 server -> client: 2 B
//!     2.016150 client -> server: the end of a stream
//!     2.093533 server -> client: the end of a stream
//!     2.116157 client -> server: connects to port 7000
//!     4.000186 all links: healed
//!     4.032019 server -> client: 2 B arrive
//!     4.139254 client -> server: 2 B
//!     4.164853 client -> server: 2 B arrive
//!     ..
//! uthread: UTHREAD_TIMELINE=run.svg draws them
//! uthread: faults of the world: 1
//! uthread: seed 0 fails: UTHREAD_SEED=0 cargo test -- --exact each_payment_counts_once
//! ```
//!
//! The server has taken the fifth payment, and its answer has not arrived in time. The client has paid again, on a
//! new connection. Nobody has lost anything, and the balance is 11.
//!
//! The last line repeats this very run, as often as it takes to understand it, with a debugger or with more
//! output: the seed decides the latencies, the order in which fibers run, and the keys of hash maps. With
//! `UTHREAD_TIMELINE=run.svg` before it, it also draws the run: a lane for each host, messages as arrows, and the time
//! in which the link is cut. The answer that starts before it and arrives after it is the mistake.
//!
//! # A remedy
//!
//! Payments get numbers, and the server knows which it has taken. In `tests/payments.rs`, the client calls
//! `pay("server:7000", number, 1)`. `src/lib.rs` becomes:
//!
//! ```no_run
#![doc = include_str!("../tests/payments/numbered.rs")]
//! ```
//!
//! ```text
//! running 1 test
//! test each_payment_counts_once ... ok
//!
//! test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.45s
//! ```
//!
//! These were a hundred runs. `UTHREAD_SEEDS=10000 cargo test` makes more of them.
//!
//! # What next
//!
//! - The server forgets its account when it [crashes](crate::Host::crash). Give it a
//!   [directory](crate::World::directory), and let the test restart it while the client pays: which writes
//!   have to be synced before an answer?
//! - The numbers of the payments are kept forever. How long is long enough?
//! - `examples/raft` keeps three copies of a store, and finds five mistakes in that.
