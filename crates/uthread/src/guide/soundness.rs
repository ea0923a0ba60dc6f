//! Thread-locals, values that are not `Send`, borrowed buffers, and why fibers stay.
//!
//! # Fibers stay
//!
//! A fiber that has run its first instruction keeps its worker, which is a thread of the system. So two things are true of code in
//! a fiber as they are of code on a thread:
//!
//! - A reference to a thread-local stays valid across calls that suspend, and the compiler may keep its address. (LLVM does,
//!   and runtimes that move stacks between threads have crashed on it.)
//! - Values that are not `Send`, an `Rc` or a guard of a lock, may live on a fiber's stack across such calls. `spawn` asks for
//!   `Send` only of what goes *into* a fiber, before it has started, and of what comes out.
//!
//! What moves between workers is work that has not started: closures, which the compiler has checked to be `Send`.
//!
//! ```
//! use std::rc::Rc;
//! uthread::spawn(|| {
//!     let counted = Rc::new(1); // Not `Send`, and here to stay.
//!     uthread::yield_now();
//!     assert_eq!(Rc::strong_count(&counted), 1);
//! })
//! .join()
//! .unwrap();
//! ```
//!
//! ```compile_fail,E0277
//! let counted = std::rc::Rc::new(1);
//! uthread::spawn(move || println!("{counted}")); // This one would be sent.
//! ```
//!
//! # Thread-locals of `std` are shared
//!
//! One thing is not: what a `thread_local!` *holds* is shared by the fibers of a worker, and their calls do not nest. `std` and
//! many crates assume that they do: that a call which uses a thread-local has returned before other code of the thread runs.
//! Where a fiber suspends in the midst of such a call, other fibers of its worker find the value as it is then:
//!
//! | code that suspends | what happens |
//! | --- | --- |
//! | the initializer of a `thread_local!` | another fiber initializes the key as well, and the first one replaces the value while the other uses it: **freed memory is read, in safe code** |
//! | the closure of `LocalKey::with`, or what holds a borrow of a `RefCell` there | another fiber finds the `RefCell` borrowed: a panic |
//! | a call under a value that is set for its duration, as `scoped-tls` does | another fiber sees the value of the first, **also after it is gone** |
//! | between `thread::current()` that a thread-local keeps and the `park` that it is for | another fiber parks under that handle and is never woken ([`porting`](super::porting) tells more) |
//! | a destructor at `exit` | nothing: from then on no other fiber of the worker runs |
//!
//! So: no call of this crate may be made in the initializer of a `thread_local!`, nor while such a value is borrowed or set. The
//! compiler cannot check this, and the library sees no initializer but its own. Values of [`local!`](mod@crate::local) have none of
//! these problems: each fiber has its own, and initializers, closures and destructors may suspend. A dependency that
//! uses thread-locals in such a way is ported too, or called in [`blocking`](crate::blocking).
//!
//! `exit` runs the destructors of the calling thread's values on the stack of the fiber that calls. From the first one on that
//! thread is a plain one, whose calls block. [`process::exit`](crate::process::exit) ensures it; of `std::process::exit` the library
//! learns by a destructor of its own, which runs first unless a newer value has come since the worker slept last for long.
//!
//! # Migration
//!
//! A program that can promise that nothing of this kind lives across a suspension may let started fibers migrate:
//! [`Builder::migrating`](crate::Builder::migrating) is `unsafe`, and its contract says exactly what is promised.
//!
//! # Buffers are borrowed
//!
//! `read(&mut buffer)` hands the kernel a pointer into the fiber's own stack. That is sound because of one rule: *a call
//! returns only after the kernel has completed the operation*, also when it is cancelled, when its time is over, when the runtime
//! is dropped, and while the fiber unwinds. Until then the fiber is suspended: nothing can touch the buffer, move it or free it,
//! and no stack with an operation in flight is ever freed. A future can be dropped at any time, and with it the buffer
//! that it lent; a fiber cannot.
//!
//! # Scopes wait
//!
//! [`scope`](crate::scope) and [`join`](crate::join) lend what is on the caller's stack to other fibers, so they return only when
//! those have ended, also while unwinding. To leak a handle changes nothing, because it is not the handle that waits.
//!
//! ```compile_fail,E0373
//! let handle = {
//!     let numbers = vec![1, 2, 3];
//!     uthread::spawn(|| numbers.len()) // Without a scope nothing may be borrowed.
//! };
//! ```
//!
//! # Waits that end early
//!
//! A wait that returns normally has come to what it was for, here as in `std`. But some waits can be *left by unwinding* here that
//! `std`'s never are, and unsafe code in a dependency may have been written for those of `std`: it lends a pointer to
//! another thread, waits by `recv`, `join` or `park` until that one is done with it, and holds no guard in case the wait unwinds.
//! `scoped_threadpool` 0.1 is an example: `Scope::drop` waits by `recv()`, and to leave that early is a use after free.
//!
//! | what may unwind a wait | which waits |
//! | --- | --- |
//! | [`JoinHandle::cancel`](crate::JoinHandle::cancel) | those of that fiber, and of the fibers of its scopes |
//! | [`timeout`](crate::timeout), [`deadline`](crate::time::deadline) | those within the block, and of the fibers of its scopes |
//! | a failure in a [`try_scope`](crate::try_scope) | those of the scope's fibers and of its closure |
//! | the drop of a [`Runtime`](crate::Runtime#dropping), so also the end of [`run`](crate::run); `Shutdown::Cancel` | those of all its fibers |
//!
//! [`cancellation`](super::cancellation) tells call by call which unwinds. Each row is an act of the program itself: a program that was
//! ported from threads does none of them, and at its end, under `#[uthread::main]`, nothing unwinds. Who cancels code whose
//! dependencies wait in such a way puts that code into a [`shield`](crate::shield), or ends the runtime by `Shutdown::Join` or
//! `Shutdown::Abandon`. Within a destructor of a fiber that unwinds already, such a call cannot unwind and returns early, `recv` with
//! an error: unsafe code that takes that for the end of the other side needs the shield, too.
//!
//! Our own scopes, joins of borrowing fibers and calls on other threads never end early: see above. A fiber that is abandoned
//! at the end of a runtime is never resumed, and its stack is never freed: what it has lent stays valid, and what it has
//! borrowed it does not touch. Who joins it gets an answer after the last fiber of the runtime has stopped, and the
//! last operation and call on another thread has ended.
//!
//! # Stacks have a guard
//!
//! Each stack ends at a page that may not be touched. An overflow is reported with the name of the fiber and where it was
//! spawned, and ends the process, as in a thread of `std`. [`thread::Builder::stack_size`](crate::thread::Builder::stack_size)
//! makes a stack larger.
//!
//! # What is still the program's business
//!
//! - A lock of `std` that is held across a call that suspends keeps its worker from going on where another fiber of the same
//!   worker wants it: [`blocking`](super::blocking) tells more. That is a deadlock, not unsoundness.
//! - `thread_local!` destructors run when the worker ends, not when a fiber does.
//! - `std::thread::panicking` is true in all fibers of a worker while one of them is suspended in a destructor during its panic:
//!   [`thread::panicking`](crate::thread::panicking) is the fiber's own, and so is the poisoning of this crate's locks.
//! - A panic hook that waits keeps its worker, on which nothing else runs until the hook returns. One that waits for another fiber of
//!   that worker waits for ever.
//! - Signals are delivered to threads, and handlers run on whatever stack is current there.
//! - A lock that another fiber or thread holds at the time of a `fork` stays locked in the child, as with `std`.
//!
//! # Children made by `fork`
//!
//! [`process::Command`](crate::process::Command) starts processes as `std`'s does. A fiber that calls `fork(2)` itself, or through a
//! library, goes on in the child as a thread does that forks: as the only one. There it is a plain thread:
//!
//! - Every call is the ordinary blocking one. Nothing is left to a ring of the parent, whose memory the child does not have, nor to
//!   the pool of threads: what the child writes has been written when the call returns, also if it ends by `_exit`.
//! - Limits of the fiber end: the child is not cancelled with it, and has no deadline of it. Its [`local!`](mod@crate::local) values are
//!   those of a plain thread, made anew when they are first asked for.
//! - [`spawn`](crate::spawn) starts a default runtime of the child's own. A [`Runtime`](crate::Runtime) of the parent panics when it is
//!   given a fiber, because its workers are not there, and does nothing when it is dropped. Handles to fibers of the parent wait
//!   for ever.
//! - When the fiber's closure returns, the process ends with the status 0, and after a panic with 101: its worker's loop is
//!   the parent's, so there is nothing to return to. The child of a call in [`blocking`](crate::blocking()) ends in the same way. Code
//!   after [`run`](crate::run) runs in the parent only.
//!
//! `fork` tells of its children through `pthread_atfork(3)`. A bare `clone(2)` tells nobody: do not call anything of this crate in
//! the child of one before `exec`.
