//! Each of our types has the traits that its counterpart in `std` has, and no others: those that
//! say where a value may go (`Send`, `Sync`, `UnwindSafe`), by which a wrong answer is unsound or
//! breaks a port, and those that a port may call by. Nothing of it runs: a row that does not hold
//! is an error of the compiler, which names the type and the trait.
//!
//! A type that `std` has no counterpart of stands in a table of its own, with what it may do and
//! why.

#![allow(
    non_upper_case_globals,
    reason = "a constant is called as the trait is"
)]
#![allow(
    dead_code,
    reason = "that the functions compile is what they are there for"
)]

use std::cell::Cell;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::io::{BufRead, Read, Seek, Write};
use std::iter::FusedIterator;
use std::marker::{PhantomData, PhantomPinned};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, DirEntryExt, FileExt, OpenOptionsExt};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::process::Stdio;
use std::rc::Rc;
use std::sync::MutexGuard;

/// Tells which traits a type has: where the bound of an inherent constant holds, that one hides the
/// trait's.
struct Probe<T: ?Sized>(PhantomData<T>);

macro_rules! probe {
    ($($trait:ident: $type:ty: $($bound:path),+;)*) => {
        #[derive(Clone, Copy)]
        enum Trait {
            $($trait,)*
        }

        trait Without {
            $(const $trait: bool = false;)*
        }

        impl<T: ?Sized> Without for Probe<T> {}

        $(
            impl<T: ?Sized> Probe<T> where for<'a> $type: $($bound +)+ {
                const $trait: bool = true;
            }
        )*

        macro_rules! compare_row {
            ($std:ty, $ours:ty, $others:expr) => {
                const _: () = {
                    const OTHERS: &[Trait] = $others;
                    $(
                        let same = <Probe<$std>>::$trait == <Probe<$ours>>::$trait;
                        assert!(
                            same != has(OTHERS, Trait::$trait),
                            concat!(stringify!($ours), ": ", stringify!($trait)),
                        );
                    )*
                };
            };
        }
    };
}

const fn has(traits: &[Trait], wanted: Trait) -> bool {
    let mut index = 0;
    while index < traits.len() {
        if traits[index] as usize == wanted as usize {
            return true;
        }
        index += 1;
    }
    false
}

probe! {
    IsSend: T: Send;
    IsSync: T: Sync;
    IsUnpin: T: Unpin;
    IsUnwindSafe: T: UnwindSafe;
    IsRefUnwindSafe: T: RefUnwindSafe;
    IsCopy: T: Copy;
    IsClone: T: Clone;
    IsDebug: T: Debug;
    IsDisplay: T: Display;
    IsError: T: std::error::Error;
    HasDefault: T: Default;
    IsPartialEq: T: PartialEq;
    IsEq: T: Eq;
    IsPartialOrd: T: PartialOrd;
    IsHash: T: Hash;
    Derefs: T: Deref;
    DerefsMut: T: DerefMut;
    Reads: T: Read;
    ReadsShared: &'a T: Read;
    ReadsBuffered: T: BufRead;
    Writes: T: Write;
    WritesShared: &'a T: Write;
    Seeks: T: Seek;
    SeeksShared: &'a T: Seek;
    Iterates: T: Iterator;
    IteratesBack: T: DoubleEndedIterator;
    KnowsLength: T: ExactSizeIterator;
    IsFused: T: FusedIterator;
    IsIntoIterator: T: IntoIterator;
    IsIntoIteratorShared: &'a T: IntoIterator;
    IsTerminal: T: std::io::IsTerminal;
    LendsFd: T: AsFd;
    HasRawFd: T: AsRawFd;
    FromRaw: T: FromRawFd;
    IntoRaw: T: IntoRawFd;
    FromFd: T: From<OwnedFd>;
    IntoFd: T: Into<OwnedFd>;
    IntoStdio: T: Into<Stdio>;
    FromValue: T: From<i32>;
    HasFileExt: T: FileExt;
    HasOpenOptionsExt: T: OpenOptionsExt;
    HasDirBuilderExt: T: DirBuilderExt;
    HasDirEntryExt: T: DirEntryExt;
}

/// `Sync`, but not `Send`.
type OnlySync = MutexGuard<'static, i32>;

/// Without any trait that one asks for.
struct Plain;

macro_rules! compare {
    ($($std:ty, $ours:ty;)*) => {
        $(compare_row!($std, $ours, &[]);)*
    };
}

/// Types by their path in both, with the traits in which they differ on purpose.
macro_rules! compare_plain {
    ($($($part:ident)::+ $(<$($lifetime:lifetime),+>)? $(but $($trait:ident)+)?;)*) => {
        $(compare_row!(
            std::$($part)::+ $(<$($lifetime),+>)?,
            uthread::$($part)::+ $(<$($lifetime),+>)?,
            &[$($(Trait::$trait),+)?]
        );)*
    };
}

/// Compares types that have a parameter, for all kinds of values.
macro_rules! compare_generic {
    ($($($part:ident)::+;)*) => {$(
        compare! {
            std::$($part)::+<i32>, uthread::$($part)::+<i32>;
            std::$($part)::+<Cell<i32>>, uthread::$($part)::+<Cell<i32>>;
            std::$($part)::+<Rc<i32>>, uthread::$($part)::+<Rc<i32>>;
            std::$($part)::+<OnlySync>, uthread::$($part)::+<OnlySync>;
            std::$($part)::+<&'static mut i32>, uthread::$($part)::+<&'static mut i32>;
            std::$($part)::+<PhantomPinned>, uthread::$($part)::+<PhantomPinned>;
            std::$($part)::+<Plain>, uthread::$($part)::+<Plain>;
        }
    )*};
}

/// Compares types that also borrow.
macro_rules! compare_borrowing {
    ($($($part:ident)::+;)*) => {$(
        compare! {
            std::$($part)::+<'static, i32>, uthread::$($part)::+<'static, i32>;
            std::$($part)::+<'static, Cell<i32>>, uthread::$($part)::+<'static, Cell<i32>>;
            std::$($part)::+<'static, Rc<i32>>, uthread::$($part)::+<'static, Rc<i32>>;
            std::$($part)::+<'static, OnlySync>, uthread::$($part)::+<'static, OnlySync>;
            std::$($part)::+<'static, &'static mut i32>, uthread::$($part)::+<'static, &'static mut i32>;
            std::$($part)::+<'static, PhantomPinned>, uthread::$($part)::+<'static, PhantomPinned>;
            std::$($part)::+<'static, Plain>, uthread::$($part)::+<'static, Plain>;
        }
    )*};
}

/// Compares types whose value may be unsized.
macro_rules! compare_unsized {
    ($($($part:ident)::+ $(<$lifetime:lifetime>)?;)*) => {$(
        compare! {
            std::$($part)::+<$($lifetime,)? [i32]>, uthread::$($part)::+<$($lifetime,)? [i32]>;
            std::$($part)::+<$($lifetime,)? dyn Debug>, uthread::$($part)::+<$($lifetime,)? dyn Debug>;
            std::$($part)::+<$($lifetime,)? dyn Display + Send>, uthread::$($part)::+<$($lifetime,)? dyn Display + Send>;
        }
    )*};
}

compare_generic! {
    sync::Mutex;
    sync::RwLock;
    sync::OnceLock;
    sync::LazyLock;
    sync::mpsc::Sender;
    sync::mpsc::SyncSender;
    sync::mpsc::Receiver;
    sync::mpsc::IntoIter;
    thread::JoinHandle;
}

compare_borrowing! {
    sync::MutexGuard;
    sync::RwLockReadGuard;
    sync::RwLockWriteGuard;
    sync::mpsc::Iter;
    sync::mpsc::TryIter;
    thread::ScopedJoinHandle;
}

compare_unsized! {
    sync::Mutex;
    sync::RwLock;
    sync::MutexGuard<'static>;
    sync::RwLockReadGuard<'static>;
    sync::RwLockWriteGuard<'static>;
}

compare! {
    std::sync::LazyLock<i32, Cell<i32>>, uthread::sync::LazyLock<i32, Cell<i32>>;
    std::sync::LazyLock<i32, Rc<i32>>, uthread::sync::LazyLock<i32, Rc<i32>>;
    std::sync::LazyLock<i32, OnlySync>, uthread::sync::LazyLock<i32, OnlySync>;
    std::sync::LazyLock<i32, &'static mut i32>, uthread::sync::LazyLock<i32, &'static mut i32>;
    std::sync::LazyLock<i32, PhantomPinned>, uthread::sync::LazyLock<i32, PhantomPinned>;
}

// Where a type differs: `std::io::IsTerminal` is sealed and `uthread::io::IsTerminal` stands in;
// the others are extras.
compare_plain! {
    sync::Barrier;
    sync::BarrierWaitResult;
    sync::Condvar;
    sync::Once;
    sync::OnceState;
    sync::WaitTimeoutResult;
    thread::Builder but IsClone HasDefault;
    thread::Scope<'static, 'static>;
    thread::Thread;
    thread::ThreadId;
    fs::DirBuilder;
    fs::DirEntry;
    fs::File but IsTerminal;
    fs::OpenOptions but HasDefault;
    fs::ReadDir;
    net::Incoming<'static>;
    net::TcpListener;
    net::TcpStream;
    net::UdpSocket;
    os::unix::net::Incoming<'static>;
    os::unix::net::UnixDatagram;
    os::unix::net::UnixListener;
    os::unix::net::UnixStream;
    io::PipeReader;
    io::PipeWriter;
    io::Stderr but IsTerminal;
    io::StderrLock<'static> but IsTerminal;
    io::Stdin but IsTerminal;
    io::StdinLock<'static> but IsTerminal;
    io::Stdout but IsTerminal;
    io::StdoutLock<'static> but IsTerminal;
    process::Child;
    process::ChildStderr but ReadsShared;
    process::ChildStdin;
    process::ChildStdout but ReadsShared;
    process::Command;
}

/// Types without a counterpart: whether they may be sent to another thread, and shared with one.
macro_rules! expect {
    ($($type:ty: $sent:literal $shared:literal,)*) => {$(
        const _: () = {
            assert!(<Probe<$type>>::IsSend == $sent, stringify!($type));
            assert!(<Probe<$type>>::IsSync == $shared, stringify!($type));
        };
    )*};
}

use uthread::sync::select;
use uthread::sync::{broadcast, mpmc, mpsc, oneshot, promise, watch};

// One owner at a time has what they send, so it has to be `Send`.
expect! {
    oneshot::Sender<Cell<i32>>: true true,
    oneshot::Sender<Rc<i32>>: false false,
    oneshot::Receiver<Cell<i32>>: true true,
    oneshot::Receiver<OnlySync>: false false,
    oneshot::TryRecvError<Rc<i32>>: false false,
    oneshot::RecvTimeoutError<Rc<i32>>: false false,
    mpmc::Sender<Cell<i32>>: true true,
    mpmc::Sender<Rc<i32>>: false false,
    mpmc::Receiver<Cell<i32>>: true true,
    mpmc::Receiver<OnlySync>: false false,
}

// Several have what they share, so it has to be `Sync` as well.
expect! {
    broadcast::Sender<i32>: true true,
    broadcast::Sender<Cell<i32>>: false false,
    broadcast::Sender<OnlySync>: false false,
    broadcast::Receiver<i32>: true true,
    broadcast::Receiver<Cell<i32>>: false false,
    watch::Sender<i32>: true true,
    watch::Sender<Cell<i32>>: false false,
    watch::Sender<OnlySync>: false false,
    watch::Receiver<i32>: true true,
    watch::Receiver<Cell<i32>>: false false,
    promise::Promise<i32>: true true,
    promise::Promise<Cell<i32>>: false false,
    promise::Waiter<i32>: true true,
    promise::Waiter<Cell<i32>>: false false,
    promise::Waiter<OnlySync>: false false,
}

// A channel knows of one receiver that waits, so what borrows the receiver stays where that is.
expect! {
    mpsc::Iter<'static, i32>: false false,
}

/// Two ways to call `ask` on a type that may be sent or shared, and one way on any other, so that
/// a call does not compile that has to choose.
trait Ask<Why> {
    fn ask(&self) {}
}

struct Sent;
struct Shared;

impl<T> Ask<()> for T {}
impl<T: Send> Ask<Sent> for T {}
impl<T: Sync> Ask<Shared> for T {}

/// An arm may hold such a receiver, so each stays where it was created, also this one, whose event
/// is a time. The types of arms have no names.
fn no_arm_is_sent_or_shared() {
    select::at(std::time::Instant::now()).ask();
}

// Each fiber has a value of its own, so it need be neither.
expect! {
    uthread::local::Key<Rc<i32>>: true true,
}

// The results of repeated operations come to the worker that began them.
expect! {
    uthread::ring::Accept<'static, uthread::net::TcpListener>: false false,
    uthread::ring::Poll<'static>: false false,
    uthread::ring::Receive<'static>: false false,
}

expect! {
    uthread::runtime::Builder: true true,
    uthread::runtime::Metrics: true true,
    uthread::Runtime: true true,
    uthread::runtime::Stall: true true,
    uthread::fs::AlignedBuffer: true true,
    uthread::fs::Dir: true true,
    uthread::net::Keepalive: true true,
    uthread::net::TcpSocket: true true,
    uthread::net::unix::ReceivedFds: true true,
    uthread::ring::BufferRing: true true,
    uthread::ring::Chunk: true true,
    uthread::ring::Completion: true true,
    uthread::ring::RegisteredBuffer: true true,
    uthread::ring::RegisteredFile<uthread::fs::File>: true true,
    uthread::signal::Signals: true true,
    uthread::sync::OwnedSemaphorePermit: true true,
    uthread::sync::Semaphore: true true,
    uthread::sync::SemaphorePermit<'static>: true true,
    uthread::thread::Cancelled: true true,
    uthread::thread::TryScope<'static, 'static, Rc<i32>>: false false,
    uthread::time::Elapsed: true true,
    uthread::time::Interval: true true,
}

/// Types that are covariant in `std` are covariant here: a longer lifetime is accepted for a
/// shorter one. Types that are invariant, because a value with a shorter lifetime could be stored
/// through them, have an example that does not compile in their documentation.
macro_rules! shorten {
    ($($name:ident: $($part:ident)::+ $(<$value:ty>)?;)*) => {$(
        mod $name {
            fn theirs<'short>(
                long: std::$($part)::+<'static $(, $value)?>,
            ) -> std::$($part)::+<'short $(, $value)?> {
                long
            }

            fn ours<'short>(
                long: uthread::$($part)::+<'static $(, $value)?>,
            ) -> uthread::$($part)::+<'short $(, $value)?> {
                long
            }
        }
    )*};
}

shorten! {
    mutex_guards: sync::MutexGuard<i32>;
    read_guards: sync::RwLockReadGuard<i32>;
    write_guards: sync::RwLockWriteGuard<i32>;
    receiver_iterators: sync::mpsc::Iter<i32>;
    receiver_try_iterators: sync::mpsc::TryIter<i32>;
    scoped_handles: thread::ScopedJoinHandle<i32>;
    connections: net::Incoming;
    unix_connections: os::unix::net::Incoming;
    input_locks: io::StdinLock;
    output_locks: io::StdoutLock;
    error_locks: io::StderrLock;
}

/// The borrow is short from the start: for a longer one the value would have to live as long.
mod values {
    fn theirs<'short>(
        long: std::sync::RwLockReadGuard<'short, &'static str>,
    ) -> std::sync::RwLockReadGuard<'short, &'short str> {
        long
    }

    fn ours<'short>(
        long: uthread::sync::RwLockReadGuard<'short, &'static str>,
    ) -> uthread::sync::RwLockReadGuard<'short, &'short str> {
        long
    }
}
