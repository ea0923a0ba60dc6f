//! Every stable item of the modules that a port replaces is there by its name: the list, which Rust 1.95 documents, compiles
//! with `std`, and so it must with `uthread`. What each item does, the behaviours try.

#![allow(unused_imports, reason = "to name an item is all that is tried")]

macro_rules! items {
    ($library:ident) => {
        pub(crate) mod fs {
            pub(crate) use $library::fs::{
                DirBuilder, DirEntry, File, FileTimes, FileType, Metadata, OpenOptions,
                Permissions, ReadDir, TryLockError, canonicalize, copy, create_dir, create_dir_all,
                exists, hard_link, metadata, read, read_dir, read_link, read_to_string, remove_dir,
                remove_dir_all, remove_file, rename, set_permissions, symlink_metadata, write,
            };
        }
        pub(crate) mod io {
            pub(crate) use $library::io::{
                BufRead, BufReader, BufWriter, Bytes, Chain, Cursor, Empty, Error, ErrorKind,
                IntoInnerError, IoSlice, IoSliceMut, IsTerminal, LineWriter, Lines, PipeReader,
                PipeWriter, Read, Repeat, Result, Seek, SeekFrom, Sink, Split, Stderr, StderrLock,
                Stdin, StdinLock, Stdout, StdoutLock, Take, Write, WriterPanicked, copy, empty,
                pipe, read_to_string, repeat, sink, stderr, stdin, stdout,
            };
        }
        pub(crate) mod net {
            pub(crate) use $library::net::{
                AddrParseError, Incoming, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr,
                SocketAddrV4, SocketAddrV6, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
            };
        }
        pub(crate) mod process {
            pub(crate) use $library::process::{
                Child, ChildStderr, ChildStdin, ChildStdout, Command, CommandArgs, CommandEnvs,
                ExitCode, ExitStatus, Output, Stdio, Termination, abort, exit, id,
            };
        }
        pub(crate) mod sync {
            pub(crate) use $library::sync::{
                Arc, Barrier, BarrierWaitResult, Condvar, LazyLock, LockResult, Mutex, MutexGuard,
                Once, OnceLock, OnceState, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
                TryLockError, TryLockResult, WaitTimeoutResult, Weak,
            };
            pub(crate) mod atomic {
                pub(crate) use $library::sync::atomic::{
                    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicPtr,
                    AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
                    compiler_fence, fence,
                };
            }
            pub(crate) mod mpsc {
                pub(crate) use $library::sync::mpsc::{
                    IntoIter, Iter, Receiver, RecvError, RecvTimeoutError, SendError, Sender,
                    SyncSender, TryIter, TryRecvError, TrySendError, channel, sync_channel,
                };
            }
        }
        pub(crate) mod thread {
            pub(crate) use $library::thread::{
                AccessError, Builder, JoinHandle, LocalKey, Result, Scope, ScopedJoinHandle,
                Thread, ThreadId, available_parallelism, current, panicking, park, park_timeout,
                scope, sleep, spawn, yield_now,
            };
        }
        pub(crate) mod time {
            pub(crate) use $library::time::{
                Duration, Instant, SystemTime, SystemTimeError, TryFromFloatSecsError, UNIX_EPOCH,
            };
        }
    };
}

mod theirs {
    items!(std);
}

mod ours {
    items!(uthread);
}

/// Where no change is needed it is the same item, so that both worlds understand each other.
#[test]
fn what_never_waits_is_the_same_item() {
    fn is_same<T>(_: fn(T), _: fn(T)) {}
    is_same::<theirs::io::Error>(|_: ours::io::Error| (), |_| ());
    is_same::<theirs::sync::Arc<u8>>(|_: ours::sync::Arc<u8>| (), |_| ());
    is_same::<theirs::net::SocketAddr>(|_: ours::net::SocketAddr| (), |_| ());
    is_same::<theirs::time::Instant>(|_: ours::time::Instant| (), |_| ());
    is_same::<theirs::process::ExitStatus>(|_: ours::process::ExitStatus| (), |_| ());
    is_same::<theirs::fs::Metadata>(|_: ours::fs::Metadata| (), |_| ());
}
