//! How to port a program, and what each item of `std` is here.
//!
//! ```sh
//! sed -E -i 's/\bstd::(net|fs|io|sync|thread|time|process|os::unix::net)\b/uthread::\1/g' $(find src -name '*.rs')
//! cargo fmt                                  # the order of imports
//! grep -rnE 'std::\{|std::os::unix' src      # groups to be split first, and what is left
//! ```
//!
//! and `#[uthread::main]` above `fn main`. What a program imports from these modules is there by the same name, with the same
//! signatures, errors and guarantees; what needs no change is `std`'s own item, re-exported. What waits suspends its fiber.
//!
//! | `std` | here |
//! | --- | --- |
//! | `net::{TcpListener, TcpStream, UdpSocket, Incoming, ToSocketAddrs}` | ours. Names are resolved off the worker; timeouts cost no system call |
//! | `net::{IpAddr, SocketAddr, Shutdown, AddrParseError, ..}` | `std`'s own |
//! | `os::unix::net::{UnixStream, UnixListener, UnixDatagram}` | ours, in [`net`](crate::net) and in `os::unix::net` |
//! | `fs::{File, OpenOptions, DirBuilder, DirEntry, ReadDir}` and all functions of `fs` | ours |
//! | `fs::{Metadata, Permissions, FileType, FileTimes, TryLockError}` | `std`'s own |
//! | `os::unix::fs::{symlink, chown, fchown, lchown}` | ours, in `os::unix::fs`; the extension traits of `std` work with our types |
//! | `io::{stdin, stdout, stderr, pipe}` and their types, `IsTerminal` | ours |
//! | `io::{Read, Write, Seek, BufRead, BufReader, BufWriter, Cursor, Error, copy, ..}` | `std`'s own, and they work with ours |
//! | `process::{Command, Child, ChildStdin, ChildStdout, ChildStderr}` | ours |
//! | `process::{Stdio, Output, ExitStatus, ExitCode, exit, abort, id, ..}` | `std`'s own |
//! | `sync::{Mutex, RwLock, Condvar, Barrier, Once, OnceLock, LazyLock}`, their guards | ours, with `std`'s poisoning |
//! | `sync::mpsc` | ours, with `std`'s errors |
//! | `sync::{Arc, Weak, atomic, PoisonError, LockResult, TryLockError, ..}` | `std`'s own |
//! | `thread::{spawn, scope, Builder, JoinHandle, Thread, ThreadId, sleep, park, current, panicking, ..}` | ours: fibers |
//! | `thread::{available_parallelism, LocalKey, AccessError, Result}` | `std`'s own |
//! | `time::{Duration, Instant, SystemTime, ..}` | `std`'s own |
//! | `thread_local!` | stays: it belongs to the worker's thread. [`local!`](mod@crate::local) belongs to the fiber |
//! | `println!`, `eprintln!` | stay; see [`blocking`](super::blocking) |
//!
//! # What differs
//!
//! - When `main` returns, the fibers that are left are cancelled and unwound, where threads just vanish.
//! - A fiber's stack is 256 KiB of address space by default, a thread's 2 MiB: code that recurses deeply asks for more, with
//!   [`thread::Builder::stack_size`](crate::thread::Builder::stack_size) or
//!   [`Builder::stack_size`](crate::Builder::stack_size). An overflow says so.
//! - A fiber that never waits keeps its worker ([`blocking`](super::blocking)).
//! - In a fiber a FIFO that exists is opened without waiting for its other end.
//! - A library that opens its own files and sockets uses `std`'s. Many take a stream or a reader instead, as the programs in
//!   `crates/uthread-examples` show; the others belong into [`blocking`](crate::blocking()).
//! - `impl Trait for std::net::TcpStream` of another crate is not one for ours. Most are written for `Read + Write`; where one is not,
//!   `From` and `Into` convert.
//! - A method that a sealed trait of `std` adds (`CommandExt`, `TcpStreamExt`) is an inherent one here, so that such an import is unused.
//!
//! # What is absent
//!
//! - What is unstable or deprecated in `std`, but for `fs::soft_link`: `sync::mpmc`, `thread::sleep_ms`, `Command::exec` aside as
//!   it is stable in `CommandExt`, `TcpListener::only_v6`.
//! - `os::unix::fs::chroot`: it changes the process, waits for nothing, and is as good from `std`.
//! - `io::copy` between descriptors does not leave the kernel to itself as `std`'s does for its own types:
//!   [`TcpStream::send_file`](crate::net::TcpStream::send_file) and [`fs::copy`](crate::fs::copy) do.
//!
//! # What is new
//!
//! Cancellation and deadlines ([`cancellation`](super::cancellation)), [`select!`](mod@crate::sync::select),
//! [`sync::oneshot`](crate::sync::oneshot), [`signal`](crate::signal), [`net::serve`](crate::net::serve),
//! [`net::TcpSocket`](crate::net::TcpSocket), [`fs::Dir`](crate::fs::Dir), [`fs::TempFile`](crate::fs::TempFile),
//! [`fs::AlignedBuffer`](crate::fs::AlignedBuffer), [`ring`](crate::ring), [`join`](crate::join()),
//! [`time::interval`](crate::time::interval), [`blocking`](crate::blocking()).
