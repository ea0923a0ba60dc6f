//! Each stable item of the modules of `std` that a port replaces, and what it is here.
//!
//! | word | means |
//! | --- | --- |
//! | ours | an item of the same name, with the signatures, errors and guarantees of `std`'s; what waits suspends its fiber |
//! | `std`'s | that very item, so that what is written for the one works with the other |
//! | absent | what it does, and what to write instead |
//!
//! The last column says what `std` does not have, or has not made stable, and what differs.
//!
//! # `net`
//!
//! | [`net`](crate::net) | is | beyond `std`, or other than there |
//! | --- | --- | --- |
//! | `TcpListener`, `Incoming` | ours | `shutdown` ends all waits for connections |
//! | `TcpStream` | ours | `linger`, `keepalive`, `send_buffer_size`, `recv_buffer_size`, `send_file`; `quickack` without a trait. To set a timeout costs no system call |
//! | `UdpSocket` | ours | `send_buffer_size`, `recv_buffer_size`. To set a timeout costs no system call |
//! | `ToSocketAddrs` | ours | names are resolved off the worker |
//! | `IpAddr`, `Ipv4Addr`, `Ipv6Addr`, `SocketAddr`, `SocketAddrV4`, `SocketAddrV6`, `AddrParseError` | `std`'s | |
//! | `Shutdown` | `std`'s | |
//!
//! New here: [`serve`](crate::net::serve), [`TcpSocket`](crate::net::TcpSocket) for what has to be set before a socket listens or
//! connects, [`Keepalive`](crate::net::Keepalive).
//!
//! # `os::unix::net`
//!
//! | [`os::unix::net`](crate::net::unix) | is | beyond `std`, or other than there |
//! | --- | --- | --- |
//! | `UnixStream` | ours | `peek`, `peer_cred`, `send_fds`, `recv_fds`, `send_file`, `send_buffer_size`, `recv_buffer_size` |
//! | `UnixListener`, `Incoming` | ours | `shutdown` ends all waits for connections |
//! | `UnixDatagram` | ours | `peek`, `peek_from`, `send_fds`, `recv_fds`, `send_buffer_size`, `recv_buffer_size` |
//! | `SocketAddr` | `std`'s | |
//!
//! They are in [`net`](crate::net) too. New here: [`UCred`](crate::net::unix::UCred),
//! [`ReceivedFds`](crate::net::unix::ReceivedFds).
//!
//! # `fs`
//!
//! | [`fs`](crate::fs) | is | beyond `std`, or other than there |
//! | --- | --- | --- |
//! | `File` | ours | `allocate`, `direct_alignment`, `is_terminal`. `&File` reads, writes and seeks, `Arc<File>` does not: write `&*file` |
//! | `OpenOptions` | ours | `direct`, for `O_DIRECT`. In a fiber a FIFO that exists is opened without waiting for its other end |
//! | `DirBuilder`, `create_dir`, `create_dir_all` | ours | |
//! | `ReadDir`, `DirEntry`, `read_dir` | ours | |
//! | `read`, `read_to_string`, `write`, `copy` | ours | |
//! | `metadata`, `symlink_metadata`, `exists`, `canonicalize`, `read_link` | ours | `Path::metadata` and its like stay `std`'s: short calls, which keep the worker |
//! | `rename`, `hard_link`, `remove_file`, `remove_dir`, `remove_dir_all`, `set_permissions` | ours | |
//! | `soft_link` | ours | deprecated as there |
//! | `Metadata`, `Permissions`, `FileType`, `FileTimes`, `TryLockError` | `std`'s | |
//!
//! New here: [`Dir`](crate::fs::Dir), [`TempFile`](crate::fs::TempFile), [`tempfile`](crate::fs::tempfile()),
//! [`tempfile_in`](crate::fs::tempfile_in), [`AlignedBuffer`](crate::fs::AlignedBuffer).
//!
//! # `os::unix::fs`
//!
//! | [`os::unix::fs`](crate::os::unix::fs) | is | beyond `std`, or other than there |
//! | --- | --- | --- |
//! | `symlink`, `chown`, `fchown`, `lchown` | ours | |
//! | `FileExt`, `OpenOptionsExt`, `DirBuilderExt`, `DirEntryExt` | `std`'s | and our types have them |
//! | `MetadataExt`, `PermissionsExt`, `FileTypeExt` | `std`'s | |
//! | `chroot` | absent | it changes the whole process, and waits for nothing: `std::os::unix::fs::chroot` |
//!
//! # `io`
//!
//! | [`io`](crate::io) | is | beyond `std`, or other than there |
//! | --- | --- | --- |
//! | `stdin`, `Stdin`, `StdinLock` | ours | with a buffer of its own: bytes that `std`'s has taken are missed here |
//! | `stdout`, `Stdout`, `StdoutLock` | ours | with the buffer of `println!`, so that both keep their order |
//! | `stderr`, `Stderr`, `StderrLock` | ours | |
//! | `pipe`, `PipeReader`, `PipeWriter` | ours | |
//! | `IsTerminal` | ours | of everything that has a descriptor, as `std`'s is for its own types alone |
//! | `Read`, `Write`, `Seek`, `BufRead`, `prelude` | `std`'s | and our types have them |
//! | `BufReader`, `BufWriter`, `LineWriter`, `IntoInnerError`, `WriterPanicked` | `std`'s | |
//! | `Bytes`, `Chain`, `Lines`, `Split`, `Take` | `std`'s | |
//! | `Cursor`, `Empty`, `Repeat`, `Sink`, `empty`, `repeat`, `sink` | `std`'s | |
//! | `Error`, `ErrorKind`, `Result`, `IoSlice`, `IoSliceMut`, `SeekFrom` | `std`'s | |
//! | `copy`, `read_to_string` | `std`'s | of `std`'s own descriptors `copy` leaves the bytes in the kernel; of ours [`splice`](crate::io::splice) does |
//!
//! `Read::read_buf` cannot be implemented yet outside `std`, so our types have the one that every `Read` has: `BufReader` and
//! `read_to_end` fill the memory they read into with zeros first, once for each allocation. At 256 MiB through a socket that
//! made no difference that could be measured.
//!
//! New here: [`splice`](crate::io::splice).
//!
//! # `process`
//!
//! | [`process`](crate::process) | is | beyond `std`, or other than there |
//! | --- | --- | --- |
//! | `Command` | ours | `uid`, `gid`, `arg0`, `process_group`, `pre_exec` and `exec` without a trait: `CommandExt` is for `std`'s own type alone |
//! | `exit` | ours | destructors of thread-locals block the worker instead of suspending the fiber that calls |
//! | `Child` | ours | `send_signal`. It is known by a descriptor, which never means another process |
//! | `ChildStdin`, `ChildStdout`, `ChildStderr` | ours | |
//! | `CommandArgs`, `CommandEnvs`, `Stdio`, `Output`, `ExitStatus`, `ExitCode`, `Termination` | `std`'s | |
//! | `abort`, `id` | `std`'s | |
//!
//! # `sync`
//!
//! | [`sync`](crate::sync) | is | beyond `std`, or other than there |
//! | --- | --- | --- |
//! | `Mutex`, `MutexGuard` | ours | a guard may be held across calls that wait; the end of a cancelled fiber poisons, as a panic does |
//! | `RwLock`, `RwLockReadGuard`, `RwLockWriteGuard` | ours | the same. Readers and writers stand in one line |
//! | `Condvar`, `WaitTimeoutResult` | ours | a point of cancellation; the first to wait is the first to be notified |
//! | `Barrier`, `BarrierWaitResult` | ours | a point of cancellation |
//! | `Once`, `OnceState`, `OnceLock`, `LazyLock` | ours | |
//! | `Arc`, `Weak`, `atomic` | `std`'s | |
//! | `LockResult`, `TryLockResult`, `PoisonError`, `TryLockError` | `std`'s | |
//! | `ONCE_INIT` | absent | deprecated there: `Once::new()` |
//!
//! New here: [`Semaphore`](crate::sync::Semaphore), [`oneshot`](mod@crate::sync::oneshot), [`promise`](mod@crate::sync::promise),
//! [`broadcast`](mod@crate::sync::broadcast), [`select!`](crate::select).
//!
//! # `sync::mpsc`
//!
//! | [`sync::mpsc`](crate::sync::mpsc) | is | beyond `std`, or other than there |
//! | --- | --- | --- |
//! | `channel`, `sync_channel`, `Sender`, `SyncSender`, `Receiver` | ours | each end may be a case of [`select!`](crate::select) |
//! | `Iter`, `TryIter`, `IntoIter` | ours | |
//! | `RecvError`, `RecvTimeoutError`, `SendError`, `TryRecvError`, `TrySendError` | `std`'s | |
//!
//! # `thread`
//!
//! | [`thread`](crate::thread) | is | beyond `std`, or other than there |
//! | --- | --- | --- |
//! | `spawn`, `Builder` | ours | what starts is a fiber; its stack is of 256 KiB (2 MiB with debug assertions) where nothing else is said |
//! | `JoinHandle` | ours | `cancel`. A fiber has no `pthread_t`, so there is no `JoinHandleExt` |
//! | `scope`, `Scope`, `ScopedJoinHandle` | ours | `cancel` |
//! | `current`, `Thread`, `ThreadId`, `panicking` | ours | of the fiber, or of the thread outside the runtime |
//! | `park`, `park_timeout`, `sleep`, `yield_now` | ours | points of cancellation |
//! | `LocalKey`, `AccessError` | `std`'s | of `thread_local!`, whose values are the worker's; those of [`local!`](mod@crate::local) are the fiber's |
//! | `Result`, `available_parallelism` | `std`'s | |
//! | `sleep_ms`, `park_timeout_ms` | absent | deprecated there: `sleep`, `park_timeout` |
//!
//! With [`Driver::Threads`](crate::Driver::Threads) a `join` waits for the destructors of `thread_local!` as `std`'s does; a scope
//! that ends does not, as `std`'s does not. On workers these values are the worker's and stay. A scope whose fiber has panicked
//! says so in other words than `std`'s.
//!
//! New here: [`sleep_until`](crate::thread::sleep_until), [`try_scope`](crate::thread::try_scope),
//! [`shield`](crate::thread::shield), [`is_cancelled`](crate::thread::is_cancelled), [`blocking`](crate::thread::blocking()).
//!
//! # `time`
//!
//! | [`time`](crate::time) | is | beyond `std`, or other than there |
//! | --- | --- | --- |
//! | `Duration`, `Instant`, `SystemTime`, `SystemTimeError`, `TryFromFloatSecsError`, `UNIX_EPOCH` | `std`'s | |
//!
//! New here: [`interval`](crate::time::interval), [`timeout`](crate::time::timeout), [`deadline`](crate::time::deadline).
