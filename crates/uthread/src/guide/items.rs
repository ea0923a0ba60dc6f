//! Every stable item of the ported `std` modules and its counterpart in uthread.
//!
//! | word | meaning |
//! | --- | --- |
//! | own | uthread has its own item of this name, with `std`'s signatures, errors and guarantees; where it waits, it suspends the fiber |
//! | `std`'s | a re-export of the item of `std`, so code written for one works with the other |
//! | absent | uthread does not have the item; the last column says what to use instead |
//!
//! The last column lists additions to `std`, including methods that are unstable there, and differences.
//!
//! # `net`
//!
//! | [`net`](crate::net) | is | additions and differences |
//! | --- | --- | --- |
//! | `TcpListener`, `Incoming` | own | `shutdown` ends every wait for a connection |
//! | `TcpStream` | own | `linger`, `keepalive`, `send_buffer_size`, `recv_buffer_size`, `send_file`; `quickack` without a trait. Setting a timeout makes no system call |
//! | `UdpSocket` | own | `send_buffer_size`, `recv_buffer_size`. Setting a timeout makes no system call |
//! | `ToSocketAddrs` | own | resolves names on another thread |
//! | `IpAddr`, `Ipv4Addr`, `Ipv6Addr`, `SocketAddr`, `SocketAddrV4`, `SocketAddrV6`, `AddrParseError` | `std`'s | |
//! | `Shutdown` | `std`'s | |
//!
//! New here: [`serve`](crate::net::serve), [`AcceptFailure`](crate::net::AcceptFailure) for accept loops of your own, [`TcpSocket`](crate::net::TcpSocket) for options to set before a socket listens or
//! connects, [`Keepalive`](crate::net::Keepalive), [`listeners_from_env`](crate::net::listeners_from_env) for sockets that systemd passes.
//!
//! # `os::unix::net`
//!
//! | [`os::unix::net`](crate::net::unix) | is | additions and differences |
//! | --- | --- | --- |
//! | `UnixStream` | own | `peek`, `peer_cred`, `send_fds`, `recv_fds`, `send_file`, `send_buffer_size`, `recv_buffer_size` |
//! | `UnixListener`, `Incoming` | own | `shutdown` ends every wait for a connection |
//! | `UnixDatagram` | own | `peek`, `peek_from`, `send_fds`, `recv_fds`, `send_buffer_size`, `recv_buffer_size` |
//! | `SocketAddr` | `std`'s | |
//!
//! [`net`](crate::net) exports them, too. New here: [`UCred`](crate::net::unix::UCred),
//! [`ReceivedFds`](crate::net::unix::ReceivedFds).
//!
//! # `fs`
//!
//! | [`fs`](crate::fs) | is | additions and differences |
//! | --- | --- | --- |
//! | `File` | own | `allocate`, `direct_alignment`, `is_terminal`. `&File` reads, writes and seeks; `Arc<File>` does not: use `&*file` |
//! | `OpenOptions` | own | `direct`, for `O_DIRECT`. In a fiber, opening an existing FIFO does not wait for the other end |
//! | `DirBuilder`, `create_dir`, `create_dir_all` | own | |
//! | `ReadDir`, `DirEntry`, `read_dir` | own | |
//! | `read`, `read_to_string`, `write`, `copy` | own | |
//! | `metadata`, `symlink_metadata`, `exists`, `canonicalize`, `read_link` | own | `Path::metadata` and similar methods stay `std`'s: short calls that block the worker |
//! | `rename`, `hard_link`, `remove_file`, `remove_dir`, `remove_dir_all`, `set_permissions` | own | |
//! | `soft_link` | own | deprecated, as in `std` |
//! | `Metadata`, `Permissions`, `FileType`, `FileTimes`, `TryLockError` | `std`'s | |
//!
//! New here: [`Dir`](crate::fs::Dir), [`TempFile`](crate::fs::TempFile), [`tempfile`](crate::fs::tempfile()),
//! [`tempfile_in`](crate::fs::tempfile_in), [`AlignedBuffer`](crate::fs::AlignedBuffer).
//!
//! # `os::unix::fs`
//!
//! | [`os::unix::fs`](crate::os::unix::fs) | is | additions and differences |
//! | --- | --- | --- |
//! | `symlink`, `chown`, `fchown`, `lchown` | own | |
//! | `FileExt`, `OpenOptionsExt`, `DirBuilderExt`, `DirEntryExt` | `std`'s | implemented for uthread's types |
//! | `MetadataExt`, `PermissionsExt`, `FileTypeExt` | `std`'s | |
//! | `chroot` | absent | it never blocks: use `std::os::unix::fs::chroot` |
//!
//! # `io`
//!
//! | [`io`](crate::io) | is | additions and differences |
//! | --- | --- | --- |
//! | `stdin`, `Stdin`, `StdinLock` | own | has its own buffer: it misses bytes that `std`'s has already read |
//! | `stdout`, `Stdout`, `StdoutLock` | own | shares the buffer of `println!`, so output keeps its order |
//! | `stderr`, `Stderr`, `StderrLock` | own | |
//! | `pipe`, `PipeReader`, `PipeWriter` | own | |
//! | `IsTerminal` | own | implemented for every type with a descriptor; `std`'s covers only types of `std` |
//! | `Read`, `Write`, `Seek`, `BufRead`, `prelude` | `std`'s | implemented for uthread's types |
//! | `BufReader`, `BufWriter`, `LineWriter`, `IntoInnerError`, `WriterPanicked` | `std`'s | |
//! | `Bytes`, `Chain`, `Lines`, `Split`, `Take` | `std`'s | |
//! | `Cursor`, `Empty`, `Repeat`, `Sink`, `empty`, `repeat`, `sink` | `std`'s | |
//! | `Error`, `ErrorKind`, `Result`, `IoSlice`, `IoSliceMut`, `SeekFrom` | `std`'s | |
//! | `copy`, `read_to_string` | `std`'s | `copy` moves bytes inside the kernel only for types of `std`; use [`splice`](crate::io::splice) for uthread's |
//!
//! `Read::read_buf` cannot be implemented outside `std` yet, so uthread's types use the default: `BufReader` and `read_to_end` zero the
//! memory they read into, once per allocation. For 256 MiB through a socket this made no measurable difference.
//!
//! New here: [`splice`](crate::io::splice).
//!
//! # `process`
//!
//! | [`process`](crate::process) | is | additions and differences |
//! | --- | --- | --- |
//! | `Command` | own | `uid`, `gid`, `arg0`, `process_group`, `pre_exec` and `exec` without a trait: `CommandExt` is sealed |
//! | `exit` | own | destructors of thread-locals that wait block the worker instead of suspending the fiber |
//! | `Child` | own | `send_signal`. Identified by a pidfd, which never refers to another process |
//! | `ChildStdin`, `ChildStdout`, `ChildStderr` | own | |
//! | `CommandArgs`, `CommandEnvs`, `Stdio`, `Output`, `ExitStatus`, `ExitCode`, `Termination` | `std`'s | |
//! | `abort`, `id` | `std`'s | |
//!
//! # `sync`
//!
//! | [`sync`](crate::sync) | is | additions and differences |
//! | --- | --- | --- |
//! | `Mutex`, `MutexGuard` | own | a guard may be held across calls that wait; unwinding a cancelled fiber poisons the lock, as a panic does |
//! | `RwLock`, `RwLockReadGuard`, `RwLockWriteGuard` | own | as for `Mutex`. Readers and writers queue in order of arrival |
//! | `Condvar`, `WaitTimeoutResult` | own | a cancellation point; notifies waiters in order of arrival |
//! | `Barrier`, `BarrierWaitResult` | own | a cancellation point |
//! | `Once`, `OnceState`, `OnceLock`, `LazyLock` | own | |
//! | `Arc`, `Weak`, `atomic` | `std`'s | |
//! | `LockResult`, `TryLockResult`, `PoisonError`, `TryLockError` | `std`'s | |
//! | `ONCE_INIT` | absent | deprecated in `std`: use `Once::new()` |
//!
//! New here: [`Semaphore`](crate::sync::Semaphore), [`mpmc`](mod@crate::sync::mpmc) with the names of `std`'s unstable module, [`oneshot`](mod@crate::sync::oneshot), [`promise`](mod@crate::sync::promise),
//! [`broadcast`](mod@crate::sync::broadcast), [`watch`](mod@crate::sync::watch), [`select!`](crate::select).
//!
//! # `sync::mpsc`
//!
//! | [`sync::mpsc`](crate::sync::mpsc) | is | additions and differences |
//! | --- | --- | --- |
//! | `channel`, `sync_channel`, `Sender`, `SyncSender`, `Receiver` | own | each end can be an arm of [`select!`](crate::select) |
//! | `Iter`, `TryIter`, `IntoIter` | own | |
//! | `RecvError`, `RecvTimeoutError`, `SendError`, `TryRecvError`, `TrySendError` | `std`'s | |
//!
//! # `thread`
//!
//! | [`thread`](crate::thread) | is | additions and differences |
//! | --- | --- | --- |
//! | `spawn`, `Builder` | own | starts a fiber; its stack is 256 KiB by default (2 MiB with debug assertions) |
//! | `JoinHandle` | own | `cancel`. No `JoinHandleExt`, because a fiber has no `pthread_t` |
//! | `scope`, `Scope`, `ScopedJoinHandle` | own | `cancel` |
//! | `current`, `Thread`, `ThreadId`, `panicking` | own | refer to the fiber, or to the thread outside the runtime |
//! | `park`, `park_timeout`, `sleep`, `yield_now` | own | cancellation points |
//! | `LocalKey`, `AccessError` | `std`'s | for `thread_local!`, whose values belong to the worker; those of [`local!`](mod@crate::local) belong to the fiber |
//! | `Result`, `available_parallelism` | `std`'s | |
//! | `sleep_ms`, `park_timeout_ms` | absent | deprecated in `std`: use `sleep`, `park_timeout` |
//!
//! With [`Driver::Threads`](crate::Driver::Threads), `join` waits for the destructors of `thread_local!` values and the end of a scope does
//! not, both as in `std`. On workers these values belong to the worker and outlive the fiber. The panic message of a scope whose fiber has
//! panicked differs from `std`'s.
//!
//! New here: [`sleep_until`](crate::thread::sleep_until), [`try_scope`](crate::thread::try_scope),
//! [`shield`](crate::thread::shield), [`is_cancelled`](crate::thread::is_cancelled), [`blocking`](crate::thread::blocking()).
//!
//! # `time`
//!
//! | [`time`](crate::time) | is | additions and differences |
//! | --- | --- | --- |
//! | `Duration`, `Instant`, `SystemTime`, `SystemTimeError`, `TryFromFloatSecsError`, `UNIX_EPOCH` | `std`'s | |
//!
//! New here: [`interval`](crate::time::interval), [`timeout`](crate::time::timeout), [`deadline`](crate::time::deadline).
//!
//! ---
//!
//! [Previous: porting](super::porting) | [Contents](super) | [Next: blocking](super::blocking)
