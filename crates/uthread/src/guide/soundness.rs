//! Thread-locals, values that are not `Send`, borrowed buffers, unwinding and `fork`: why fibers are sound, and what programs must avoid.
//!
//! # Fibers stay on their worker
//!
//! A fiber that has run its first instruction stays on its worker, which is an OS thread. So code in a fiber may rely on two
//! properties of threads:
//!
//! - A reference to a thread-local stays valid across calls that suspend, and the compiler may cache its address. (LLVM does,
//!   and runtimes that move stacks between threads have crashed because of it.)
//! - Values that are not `Send`, such as an `Rc` or the guard of a lock, may live on a fiber's stack across such calls. `spawn` requires
//!   `Send` only of values that go *into* a fiber before it starts, and of its result.
//!
//! Only work that has not started moves between workers: closures, which the compiler has checked to be `Send`.
//!
//! ```
//! use std::rc::Rc;
//! uthread::spawn(|| {
//!     let counted = Rc::new(1); // Not `Send`, so it stays here.
//!     uthread::yield_now();
//!     assert_eq!(Rc::strong_count(&counted), 1);
//! })
//! .join()
//! .unwrap();
//! ```
//!
//! ```compile_fail,E0277
//! let counted = std::rc::Rc::new(1);
//! uthread::spawn(move || println!("{counted}")); // Sends `counted`: an error.
//! ```
//!
//! # Fibers share the thread-locals of `std`
//!
//! One property does not hold: fibers of a worker share the *values* of a `thread_local!`, and their calls do not nest. `std` and
//! many crates assume that a call which uses a thread-local returns before other code of the thread runs. If a fiber suspends inside such
//! a call, other fibers of its worker see the intermediate state:
//!
//! | the fiber suspends in | consequence |
//! | --- | --- |
//! | the initializer of a `thread_local!` | another fiber initializes the key as well, and the first one replaces the value while the other uses it: **safe code reads freed memory** |
//! | the closure of `LocalKey::with`, or while it borrows a `RefCell` there | another fiber finds the `RefCell` borrowed, and panics |
//! | a call under a value that is set for the duration of the call, as with `scoped-tls` | another fiber sees the first fiber's value, **even after the value is gone** |
//! | code between storing `thread::current()` in a thread-local and the matching `park` | another fiber parks with that handle, and is never woken; see [`porting`](super::porting) |
//! | a destructor during `exit` | none: from then on the worker runs no other fiber |
//!
//! Therefore: do not call this crate in the initializer of a `thread_local!`, nor while such a value is borrowed or set. The compiler cannot
//! check this rule. Values of [`local!`](mod@crate::local) have none of these problems: each fiber has its own, and initializers,
//! closures and destructors may suspend. Port a dependency that uses thread-locals in this way, or call it in
//! [`blocking`](crate::blocking).
//!
//! `exit` runs the destructors of the thread's values on the stack of the fiber that calls it. From the first destructor on, the thread
//! behaves like one outside the runtime, whose calls block. [`process::exit`](crate::process::exit) guarantees this. The library
//! detects a `std::process::exit` by a destructor of its own. It runs first, unless a thread-local was created after the worker's last
//! long sleep.
//!
//! # Thread-local storage of its own
//!
//! With [`Builder::own_tls`](crate::Builder::own_tls), none of the above applies. A fiber has a thread control block of the C library, as
//! a thread has, and the worker's thread pointer refers to it while the fiber runs. Each fiber has its own values of `thread_local!`, its
//! own `errno`, and its own count of panics; its thread-local values are dropped when it ends, before a join returns. It moves between
//! workers together with its storage, so that addresses that the compiler has kept stay right. Values that are not `Send` may live on
//! its stack: they never leave the fiber, which is the thread that they belong to.
//!
//! ```
//! use std::cell::RefCell;
//!
//! thread_local! {
//!     static WORDS: RefCell<Vec<&'static str>> = RefCell::default();
//! }
//! let runtime = uthread::Runtime::builder().own_tls(true).build()?;
//! runtime.run(|| {
//!     WORDS.with_borrow_mut(|words| {
//!         words.push("mine");
//!         // Another fiber, on this worker or another one, has words of its own.
//!         uthread::spawn(|| WORDS.with_borrow(|words| assert!(words.is_empty()))).join().unwrap();
//!     });
//! });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! What the kernel keeps for each thread is still the worker's, and changes when the fiber moves:
//!
//! | kept by the kernel | in a fiber |
//! | --- | --- |
//! | thread id (`gettid`), CPU affinity, scheduling class, nice value | those of the present worker |
//! | signal mask, alternate signal stack, pending signals of the thread | those of the present worker; handlers run with the fiber's storage |
//! | credentials of the thread (`setfsuid`), namespaces, seccomp filters | those of the present worker |
//! | list of robust mutexes | none: a robust mutex that a fiber holds at the end of the process is not marked |
//! | restartable sequences (`rseq`) | none: `sched_getcpu` makes a system call |
//!
//! The functions of the C library that name a thread by its `pthread_t` do not find the fiber's kernel thread, as there is none:
//! `pthread_kill`, `pthread_getaffinity_np`, `pthread_getattr_np`, `pthread_getschedparam` and priority-inheritance mutexes do not
//! work, and `setuid` and its relatives must not be called while a fiber runs, as the C library would wait forever for its answer to a
//! signal. To `std`, the thread of a fiber has no name.
//!
//! | CPU and C library | what was run |
//! | --- | --- |
//! | x86-64, glibc 2.36 | all tests, in each run of the checks; all behaviours by hand in a release build, with LTO |
//! | x86-64, glibc 2.41 and 2.43 | the unit tests and all behaviours of this mode, by `cargo xtask glibc` |
//! | x86-64, musl 1.2.5, linked statically | all unit tests and all behaviours, by the commands in CONTRIBUTING.md |
//! | x86-64, musl 1.2.3, linked dynamically | the unit tests of this mode and the behaviours about it, by the commands in CONTRIBUTING.md |
//! | aarch64, glibc 2.36, emulated by qemu-user | the behaviours about this mode on the driver epoll, by the commands in CONTRIBUTING.md; no machine |
//!
//! Elsewhere a runtime that asks for this mode does not start, and the error says why. With musl, these are different:
//!
//! - A fiber with values that have destructors, or with values for keys, is ended by the C library, on a thread of its own: the
//!   destructors run there, and where they wait, they block that thread and the worker. The next fiber gets a new block, so that such
//!   a fiber costs as much as a thread.
//! - `raise` fails with `ESRCH`, and `abort` ends the process by SIGSEGV instead of SIGABRT, as both name the thread by the id in its block.
//! - The kernel needs `CONFIG_CHECKPOINT_RESTORE`, which distributions enable.
//!
//! With AddressSanitizer, which sets a value for a key in each thread, each fiber is ended by the C library with glibc, too.
//!
//! # Migration
//!
//! A program whose fibers keep nothing of this kind across a suspension may let started fibers migrate:
//! [`Builder::migrating`](crate::Builder::migrating) is `unsafe`, and its contract states the exact requirements.
//!
//! # Buffers are borrowed
//!
//! `read(&mut buffer)` passes the kernel a pointer into the fiber's own stack. One rule makes this sound: *a call returns only after the
//! kernel has completed the operation*. The rule holds when the call is cancelled or times out, when the runtime is dropped, and
//! while the fiber unwinds. Until then the fiber is suspended, so nothing can access, move or free the buffer. No stack with an
//! operation in flight is ever freed. A future can be dropped at any time, and with it the buffer that it lent; a fiber cannot.
//!
//! # Scopes wait
//!
//! [`scope`](crate::scope) and [`join`](crate::join) lend values on the caller's stack to other fibers. They return only when those
//! fibers have ended, also while unwinding. Leaking a handle changes nothing, because the scope waits, not the handle.
//!
//! ```compile_fail,E0373
//! let handle = {
//!     let numbers = vec![1, 2, 3];
//!     uthread::spawn(|| numbers.len()) // Borrows without a scope: an error.
//! };
//! ```
//!
//! # Waits that unwind
//!
//! A wait that returns normally has reached its purpose, as in `std`. But some waits can *unwind* here that never unwind in
//! `std`, and unsafe code in a dependency may rely on `std`'s behaviour: it lends a pointer to another thread, waits with `recv`,
//! `join` or `park` until that thread is done, and has no guard for the case that the wait unwinds. `scoped_threadpool` 0.1 is an
//! example: `Scope::drop` waits with `recv()`, and leaving it early is a use after free.
//!
//! | what can unwind a wait | which waits |
//! | --- | --- |
//! | [`JoinHandle::cancel`](crate::JoinHandle::cancel) | those of the fiber, and of the fibers of its scopes |
//! | [`timeout`](crate::timeout), [`deadline`](crate::time::deadline) | those inside the block, and of the fibers of its scopes |
//! | a failure in a [`try_scope`](crate::try_scope) | those of the scope's fibers and of its closure |
//! | dropping a [`Runtime`](crate::Runtime#dropping), and so the end of [`run`](crate::run); `Shutdown::Cancel` | those of all its fibers |
//!
//! [`cancellation`](super::cancellation) lists which calls unwind. Each row is an action of the program itself. A program that was ported
//! from threads takes none of them, and under `#[uthread::main]` nothing unwinds at its end.
//!
//! If you cancel code whose dependencies wait in this way, put that code into a [`shield`](crate::shield), or end the runtime with
//! `Shutdown::Join` or `Shutdown::Abandon`. In a destructor of a fiber that already unwinds, such a call cannot unwind and returns early
//! instead, `recv` with an error. Unsafe code that takes this for the end of the other side needs the shield, too.
//!
//! The library's own scopes, joins of borrowing fibers and calls on other threads never end early. A fiber that is abandoned at the end of a
//! runtime is never resumed, and its stack is never freed: what it has lent stays valid, and it never touches what it has
//! borrowed. Joining it returns after the last fiber of the runtime has stopped and the last operation and call on another thread has
//! ended.
//!
//! # Stacks have a guard page
//!
//! Each stack ends at a page that may not be accessed. An overflow is reported with the fiber's name and where it was spawned, and ends the
//! process, as in a thread of `std`. [`thread::Builder::stack_size`](crate::thread::Builder::stack_size) sets a larger size.
//!
//! # What the program must take care of
//!
//! - A lock of `std` that is held across a call that suspends can deadlock the worker: see [`blocking`](super::blocking). That is not
//!   unsoundness.
//! - Destructors of `thread_local!` values run when the worker ends, not when a fiber does.
//! - `std::thread::panicking` returns true in all fibers of a worker while one of them is suspended in a destructor during its panic.
//!   [`thread::panicking`](crate::thread::panicking) is per fiber, and so is the poisoning of this crate's locks.
//! - A panic hook that waits keeps its worker, which runs nothing else until the hook returns. A hook that waits for another fiber of
//!   the same worker waits forever.
//! - Signals are delivered to threads, and handlers run on whichever stack is current.
//! - A lock that another fiber or thread holds at the time of a `fork` stays locked in the child, as with `std`.
//!
//! # Children made by `fork`
//!
//! [`process::Command`](crate::process::Command) starts processes as in `std`. A fiber that calls `fork(2)` itself, or through a
//! library, continues in the child as a thread that forks does: alone. In the child it behaves like an ordinary thread:
//!
//! - Every call is the ordinary blocking one. Nothing depends on a ring of the parent, whose memory the child does not have, or on the
//!   thread pool. What the child writes has been written when the call returns, even if the child ends by `_exit`.
//! - Limits of the fiber end: the child is not cancelled with it, and has no deadline. Its [`local!`](mod@crate::local) values are
//!   those of an ordinary thread, and are initialized again on first use.
//! - [`spawn`](crate::spawn) starts a default runtime of the child. Spawning on a [`Runtime`](crate::Runtime) of the parent panics,
//!   because its workers do not exist, and dropping it does nothing. Handles to fibers of the parent wait forever.
//! - When the fiber's closure returns, the process exits with status 0, and after a panic with 101, because the worker's loop belongs
//!   to the parent. A child created in a [`blocking`](crate::blocking()) call ends in the same way. Code after [`run`](crate::run) runs
//!   in the parent only.
//!
//! The library learns of children through `pthread_atfork(3)`. A bare `clone(2)` notifies nobody: call nothing of this crate in such a child
//! before `exec`.
//!
//! ---
//!
//! [Previous: tuning](super::tuning) | [Contents](super)
