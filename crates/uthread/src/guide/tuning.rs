//! Tuning: what to measure, and which settings exist.
//!
//! The defaults suit servers with many connections and little work per request. Measure before changing them.
//!
//! # Measure first
//!
//! - [`Runtime::metrics`](crate::Runtime::metrics) counts, per worker: system calls, submissions, completions, context switches, steals,
//!   stalls and idle time; and, per pool of threads, calls and their waits. Few submissions per system call mean small batches, which is normal at low load.
//! - A line on the standard error stream names each fiber that keeps its worker for 100 ms while others wait. Remove those first:
//!   [`blocking`](super::blocking) shows how.
//! - `uthread load` measures a server's throughput (closed loop), or its latency at a given rate (`--rate`, open loop). Give the server
//!   and the generator different CPUs with `taskset`.
//! - `UTHREAD_DRIVER` compares drivers without recompiling.
//!
//! ```
//! let runtime = uthread::Runtime::builder().workers(2).build()?;
//! runtime.run(|| {
//!     let fibers: Vec<_> = (0..100).map(|_| uthread::spawn(uthread::yield_now)).collect();
//!     for fiber in fibers {
//!         fiber.join().unwrap();
//!     }
//! });
//! let total = runtime.metrics().total();
//! assert_eq!(total.fibers, 101); // The main fiber counts, too.
//! println!("{} switches, {} system calls", total.switches, total.enters);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Workers
//!
//! The default is one worker per CPU that the process may use, which respects `taskset` and the CPU quota of a container.
//! [`Builder::workers`](crate::Builder::workers) sets another number.
//!
//! - More workers than CPUs do not help: fibers that wait do not occupy a worker.
//! - Try one worker for programs whose fibers mostly exchange small messages: then no message crosses between CPUs.
//! - With [kernel polling](#kernel-polling), use at most half as many workers as CPUs.
//!
//! Fibers stay on the worker that started them. Idle workers steal fibers that have not started, so spawn early. Connections are spread
//! over the workers: after an `accept`, the next fiber that is spawned on the same worker starts on another one, in turn. For fibers that both wait
//! for I/O and compute for long, [`Builder::migrating`](crate::Builder::migrating) lets idle workers take started fibers, too. It is
//! `unsafe`: read its contract first. Split pure computation with [`join`](crate::join()) and [`scope`](crate::scope) instead.
//!
//! # Priorities
//!
//! [`priority`](crate::priority) lets requests that somebody waits for overtake the rest. Give the work that can wait the priority
//! `Background`, rather than everything else `Urgent`: an urgent fiber overtakes only as long as urgent ones are few.
//!
//! ```
//! use uthread::priority::{self, Priority};
//! use uthread::thread::Builder;
//!
//! uthread::run(|| {
//!     let compaction = Builder::new().priority(Priority::Background).spawn(|| {
//!         for _ in 0..100 {
//!             uthread::yield_now(); // Others run first, but not forever.
//!         }
//!         priority::current()
//!     })?;
//!     assert_eq!(compaction.join().unwrap(), Priority::Background);
//!     Ok::<(), std::io::Error>(())
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Threads for blocking calls
//!
//! [`blocking`](crate::blocking) starts a thread when none is idle, up to 512. Set
//! [`Builder::blocking_threads`](crate::Builder::blocking_threads) to what the calls use: to the number of connections that a database
//! accepts, or to the number of CPUs for long computations. Long queues and waits show in
//! [`Metrics::blocking`](crate::Metrics::blocking).
//!
//! # Stack size
//!
//! A fiber's stack is 256 KiB of address space by default, and 2 MiB in builds with debug assertions. The kernel commits memory page by
//! page, so a shallow fiber uses a few KiB. A larger size costs page tables: half a KiB per fiber at 256 KiB, 2 KiB at 1 MiB.
//!
//! An overflow ends the process with a message that names the fiber. Give deep recursion and large arrays more space, for one fiber with
//! [`thread::Builder::stack_size`](crate::thread::Builder::stack_size), or for all with
//! [`Builder::stack_size`](crate::Builder::stack_size):
//!
//! ```
//! use uthread::thread;
//!
//! /// Uses about 1 KiB of stack per call.
//! fn depth(left: usize) -> usize {
//!     let frame = std::hint::black_box([0_u8; 1024]);
//!     if left == 0 { frame[0].into() } else { 1 + depth(left - 1) }
//! }
//!
//! let deep = thread::Builder::new()
//!     .name("parser".to_owned())
//!     .stack_size(8 << 20)
//!     .spawn(|| depth(2000))?;
//! assert_eq!(deep.join().unwrap(), 2000);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Kernel polling
//!
//! [`Builder::kernel_polling`](crate::Builder::kernel_polling) lets a kernel thread per worker fetch submissions, so a busy worker makes
//! no system calls for them. Each of these threads keeps a CPU busy while it polls. It pays off with spare CPUs and steady load, and
//! slows everything down where the workers need these CPUs.
//!
//! # I/O polling
//!
//! [`Builder::io_polling`](crate::Builder::io_polling) lets workers poll a disk for completions instead of waiting for interrupts. It
//! concerns only files opened with [`OpenOptions::direct`](crate::fs::OpenOptions::direct) on a device with polling queues, such as NVMe
//! with `poll_queues`.
//!
//! Both need io_uring. [`Runtime::driver`](crate::Runtime::driver) reports whether the kernel accepted them.
//!
//! # Registered memory and files
//!
//! For files and buffers that are used again and again, register them once with the ring of a worker:
//!
//! - [`ring::RegisteredBuffer`](crate::ring::RegisteredBuffer) spares the kernel looking up and locking pages for each operation. Direct I/O
//!   gains most; reads from the page cache gain nothing.
//! - [`ring::RegisteredFile`](crate::ring::RegisteredFile) spares the kernel looking up the file.
//!
//! A registration is valid on the worker where it was made. Everywhere else, and where locked memory is short, the same calls work
//! without it.
//!
//! ```
//! use std::os::unix::fs::FileExt;
//! use uthread::fs::File;
//! use uthread::ring::{RegisteredBuffer, RegisteredFile};
//!
//! uthread::run(|| {
//!     let file = RegisteredFile::new(File::open("Cargo.toml")?);
//!     let mut buffer = RegisteredBuffer::new(4096)?;
//!     let count = file.read_at(&mut buffer, 0)?;
//!     assert!(buffer[..count].starts_with(b"[package]"));
//!     Ok::<(), std::io::Error>(())
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Many idle connections
//!
//! Each fiber that waits in `read` holds its own buffer. [`ring::receive`](crate::ring::receive) takes a buffer from a shared
//! [`ring::BufferRing`](crate::ring::BufferRing) only when data has arrived, so thousands of idle connections share few buffers.
//! [`ring::accept`](crate::ring::accept) accepts with one request for many connections. Neither is a general speed-up: both are for
//! programs that know that they need them.
//!
//! # Fewer system calls
//!
//! - Wrap streams in [`BufReader`](std::io::BufReader) and [`BufWriter`](std::io::BufWriter), as with `std`.
//! - Use [`TcpStream::send_file`](crate::net::TcpStream::send_file), [`fs::copy`](crate::fs::copy) and [`io::splice`](crate::io::splice)
//!   to move bytes inside the kernel.
//! - [`ring::read_file`](crate::ring::read_file) opens, reads and closes a small file with one submission, and
//!   [`ring::read_file_beneath`](crate::ring::read_file_beneath) one of an open directory.
//!   Into an [`AlignedBuffer`](crate::fs::AlignedBuffer) the kernel copies faster.
//!
//! ---
//!
//! [Previous: production](super::production) | [Contents](super) | [Next: soundness](super::soundness)
