//! Every stable item of the modules that a port replaces is there by its name: the list, which Rust
//! 1.95 documents, compiles with `std`, and so it must with `uthread`, but for the few that are
//! absent. What the list calls `std`'s own must be the same item, so that both worlds understand
//! each other; and the guide says of each what the list does. What it does, the behaviours try.

#![allow(unused_imports, reason = "to name an item is all that is tried")]
#![allow(deprecated, reason = "what `std` has deprecated is stable too")]
#![allow(
    non_camel_case_types,
    reason = "types stand for functions that are absent"
)]
#![deny(
    ambiguous_glob_imports,
    reason = "that two items have one name is what is asked"
)]

use std::collections::BTreeSet;

/// Gives another macro the modules, each with the items that are ours, those that are `std`'s own,
/// as they need no change, and those that are absent.
macro_rules! give_items {
    ($macro:ident) => {
        $macro! {
            net: net {
                Incoming, TcpListener, TcpStream, ToSocketAddrs, UdpSocket,
            } {
                AddrParseError, IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV4,
                SocketAddrV6,
            } {
            }
            unix_net: os::unix::net {
                Incoming, UnixDatagram, UnixListener, UnixStream,
            } {
                SocketAddr,
            } {
            }
            fs: fs {
                DirBuilder, DirEntry, File, OpenOptions, ReadDir, canonicalize, copy, create_dir,
                create_dir_all, exists, hard_link, metadata, read, read_dir, read_link,
                read_to_string, remove_dir, remove_dir_all, remove_file, rename, set_permissions,
                soft_link, symlink_metadata, write,
            } {
                FileTimes, FileType, Metadata, Permissions, TryLockError,
            } {
            }
            unix_fs: os::unix::fs {
                chown, fchown, lchown, symlink,
            } {
                DirBuilderExt, DirEntryExt, FileExt, FileTypeExt, MetadataExt, OpenOptionsExt,
                PermissionsExt,
            } {
                chroot,
            }
            io: io {
                IsTerminal, PipeReader, PipeWriter, Stderr, StderrLock, Stdin, StdinLock, Stdout,
                StdoutLock, pipe, stderr, stdin, stdout,
            } {
                BufRead, BufReader, BufWriter, Bytes, Chain, Cursor, Empty, Error, ErrorKind,
                IntoInnerError, IoSlice, IoSliceMut, LineWriter, Lines, Read, Repeat, Result, Seek,
                SeekFrom, Sink, Split, Take, Write, WriterPanicked, copy, empty, prelude,
                read_to_string, repeat, sink,
            } {
            }
            process: process {
                Child, ChildStderr, ChildStdin, ChildStdout, Command, exit,
            } {
                CommandArgs, CommandEnvs, ExitCode, ExitStatus, Output, Stdio, Termination, abort,
                id,
            } {
            }
            sync: sync {
                Barrier, BarrierWaitResult, Condvar, LazyLock, Mutex, MutexGuard, Once, OnceLock,
                OnceState, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
            } {
                Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak, atomic,
            } {
                ONCE_INIT,
            }
            mpsc: sync::mpsc {
                IntoIter, Iter, Receiver, Sender, SyncSender, TryIter, channel, sync_channel,
            } {
                RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError,
            } {
            }
            thread: thread {
                Builder, JoinHandle, Scope, ScopedJoinHandle, Thread, ThreadId, current, panicking,
                park, park_timeout, scope, sleep, spawn, yield_now,
            } {
                AccessError, LocalKey, Result, available_parallelism,
            } {
                park_timeout_ms, sleep_ms,
            }
            time: time {
            } {
                Duration, Instant, SystemTime, SystemTimeError, TryFromFloatSecsError, UNIX_EPOCH,
            } {
            }
        }
    };
}

macro_rules! import_items {
    ($($name:ident: $($part:ident)::+ { $($ours:ident,)* } { $($same:ident,)* } { $($absent:ident,)* })*) => {$(
        mod $name {
            mod theirs {
                pub(crate) use std::$($part)::+::{$($ours,)* $($same,)* $($absent,)*};
            }

            mod ours {
                pub(crate) use uthread::$($part)::+::{$($ours,)* $($same,)*};
            }

            /// An item imported by two globs is a conflict unless it is the same item.
            mod both {
                mod globs {
                    pub(crate) use std::$($part)::+::*;
                    pub(crate) use uthread::$($part)::+::*;
                }

                pub(crate) use globs::{$($same,)*};
            }

            /// And here it is one if there is any function of that name.
            mod absent {
                mod others {
                    $(pub(crate) use std::mem::drop as $absent;)*
                }

                mod globs {
                    pub(crate) use super::others::*;
                    pub(crate) use uthread::$($part)::+::*;
                }

                pub(crate) use globs::{$($absent,)*};
            }
        }
    )*};
}

give_items!(import_items);

/// A module, and its items, by what the guide says of them.
struct Module {
    path: &'static str,
    ours: &'static [&'static str],
    same: &'static [&'static str],
    absent: &'static [&'static str],
}

macro_rules! name_items {
    ($($name:ident: $($part:ident)::+ { $($ours:ident,)* } { $($same:ident,)* } { $($absent:ident,)* })*) => {
        const MODULES: &[Module] = &[$(Module {
            path: stringify!($($part)::+),
            ours: &[$(stringify!($ours),)*],
            same: &[$(stringify!($same),)*],
            absent: &[$(stringify!($absent),)*],
        },)*];
    };
}

give_items!(name_items);

/// Returns the items of which the guide's table of a module says `word`.
fn in_guide(module: &str, word: &str) -> BTreeSet<&'static str> {
    let guide = include_str!("../src/guide/items.md");
    let heading = format!("# `{module}`\n");
    let (_, table) = guide.split_once(&heading).expect("each module has a table");
    let table = table.split("\n# ").next().unwrap_or_default();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    // Every other piece is in backquotes.
    let names = cells
        .filter(|cells| cells[1] == word)
        .flat_map(|cells| cells[0].split('`').skip(1).step_by(2));
    names.collect()
}

#[test]
fn the_guide_names_each_item() {
    for module in MODULES {
        let path = module.path.replace(' ', "");
        let listed = |items: &[&'static str]| items.iter().copied().collect();
        assert_eq!(in_guide(&path, "own"), listed(module.ours), "{path}");
        assert_eq!(in_guide(&path, "`std`'s"), listed(module.same), "{path}");
        assert_eq!(in_guide(&path, "absent"), listed(module.absent), "{path}");
    }
}
