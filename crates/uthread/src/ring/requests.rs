//! Requests that are started now and waited for later.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::{fmt, io, mem};

use io_uring::squeue::Entry;
use slab::Slab;

use super::refusal::require_ring;
use super::submit::{Completion, check, completion_of};
use crate::op::Operation;
use crate::op::fs::FileOperation;
use crate::op::net::{Receive, Send, SocketOperation};
use crate::op::raw::{ENTRIES_MAX, RawRequest};
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::caller::cancellation;
use crate::sched::features::started_requests::{Origin, Place, StartedRequest};

/// Calls `body`, which may start requests and go on while the kernel carries them out. Returns when all
/// of them have ended.
///
/// A request has its buffer until it has ended: a borrowed one, from outside of `body`, or a `Vec`. Each
/// is waited for by [`Request::wait`], in any order, or passed to a callback by [`Request::then`].
/// Callbacks are called by the calling fiber, in the order in which the requests end, in
/// [`Requests::run`] and once `body` has returned. Requests take part in no order: a send that is
/// started after another one may overtake it, unless the kernel has both as a chain
/// ([`Requests::submit_all`]).
///
/// If the fiber is cancelled, or its deadline passes, requests that have not ended are cancelled once
/// they are waited for. So are those that are left if `body` panics.
///
/// On [`Driver::Threads`](crate::Driver::Threads) and outside of fibers, a read or receive starts when it
/// is waited for, and a write, a send or a sync is done when its start returns.
///
/// ```
/// use std::io::Write;
/// use uthread::ring;
///
/// uthread::run(|| {
///     let mut file = tempfile::tempfile()?;
///     file.write_all(b"some words of text")?;
///     let (mut first, mut last) = ([0; 4], [0; 4]);
///     ring::requests(|requests| {
///         let one = requests.read_at(&file, &mut first[..], 0);
///         let other = requests.read_at(&file, &mut last[..], 14);
///         // Both are read at the same time.
///         assert_eq!((other.wait().0?, one.wait().0?), (4, 4));
///         Ok::<(), std::io::Error>(())
///     })?;
///     assert_eq!((&first, &last), (b"some", b"text"));
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn requests<'env, R>(body: impl for<'scope> FnOnce(&'scope Requests<'scope, 'env>) -> R) -> R {
    let requests = Requests {
        table: Table {
            origin: Origin::new(),
            kept: RefCell::default(),
            callbacks: Cell::new(0),
        },
        scope: PhantomData,
        env: PhantomData,
    };
    let end = End(&requests.table);
    let result = body(&requests);
    requests.run();
    drop(end);
    result
}

/// Starts requests. See the example of [`requests`].
///
/// It stays with its fiber, which the ends of requests wake:
///
/// ```compile_fail,E0277
/// uthread::ring::requests(|requests| {
///     uthread::scope(|scope| {
///         scope.spawn(move || requests.run());
///     });
/// });
/// ```
pub struct Requests<'scope, 'env: 'scope> {
    table: Table,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<(&'env mut &'env (), *const ())>,
}

struct Table {
    origin: Arc<Origin>,
    /// All that have a handle, a callback, or neither, as the handle was forgotten.
    kept: RefCell<Slab<Kept>>,
    /// Number of callbacks that have not been called.
    callbacks: Cell<usize>,
}

struct Kept {
    request: Arc<StartedRequest>,
    place: Place,
    callback: Option<Box<dyn FnOnce()>>,
}

/// Ends all requests that are left, and drops their callbacks.
struct End<'a>(&'a Table);

impl Drop for End<'_> {
    fn drop(&mut self) {
        // What a callback owns may start others when it is dropped.
        while !self.0.kept.borrow().is_empty() {
            let kept = mem::take(&mut *self.0.kept.borrow_mut());
            cancel_all(&kept);
            for (_, kept) in &kept {
                kept.request.end(kept.place);
            }
        }
    }
}

impl Table {
    /// Has a callback called once an operation has ended.
    #[allow(unsafe_code, reason = "a callback without its lifetime")]
    fn call<'scope>(&'scope self, key: usize, callback: Box<dyn FnOnce() + 'scope>) {
        // SAFETY: it is called or dropped before the end of the scope: its place is emptied there.
        let callback = unsafe {
            mem::transmute::<Box<dyn FnOnce() + 'scope>, Box<dyn FnOnce() + 'static>>(callback)
        };
        self.callbacks.set(self.callbacks.get() + 1);
        let kept = &mut self.kept.borrow_mut()[key];
        kept.callback = Some(callback);
        kept.request.tell(key);
    }

    /// Calls all callbacks, and waits until there are none.
    fn run(&self) {
        let mut is_cancelled = false;
        while self.callbacks.get() > 0 {
            if let Some(key) = self.origin.next_told() {
                self.callbacks.set(self.callbacks.get() - 1);
                let callback = self.kept.borrow_mut()[key].callback.take();
                callback.expect("it is told once")();
            } else if !self.origin.is_on_worker() {
                let (request, place) = self.first_with_callback();
                request.wait(place);
            } else if is_cancelled {
                self.origin.await_end_told();
            } else if !self.origin.await_told() {
                is_cancelled = true;
                cancel_all(&self.kept.borrow());
            }
        }
    }

    fn first_with_callback(&self) -> (Arc<StartedRequest>, Place) {
        let kept = self.kept.borrow();
        let mut kept = kept.iter().map(|(_, kept)| kept);
        let first = kept.find(|kept| kept.callback.is_some() && !kept.request.is_done());
        let first = first.expect("one has not ended");
        (Arc::clone(&first.request), first.place)
    }
}

fn cancel_all(kept: &Slab<Kept>) {
    for (_, kept) in kept {
        kept.request.cancel(kept.place);
    }
}

#[allow(unsafe_code, reason = "the kernel gets pointers to buffers")]
impl<'scope, 'env> Requests<'scope, 'env> {
    /// Starts a read of a file into a buffer, at an offset in bytes. See the example of [`requests`].
    pub fn read_at<F: AsFd, B: BufferMut + 'scope>(
        &'scope self,
        file: &'scope F,
        mut buffer: B,
        offset: u64,
    ) -> Request<'scope, B> {
        let bytes: *mut [u8] = buffer.bytes_mut();
        // SAFETY: `start` keeps the file and the buffer as long as the operation.
        let operation = |file, state| unsafe {
            Operation::File(FileOperation::Read {
                file: Descriptor { fd: file, state },
                buffer: &mut *bytes,
                offset: Some(offset),
            })
        };
        // SAFETY: the operation is on the file and the buffer.
        unsafe { self.start(file, buffer, true, operation) }
    }

    /// Starts a write of a buffer to a file, at an offset in bytes.
    ///
    /// ```
    /// use std::io::Read;
    /// use uthread::ring;
    ///
    /// uthread::run(|| {
    ///     let mut file = tempfile::tempfile()?;
    ///     ring::requests(|requests| {
    ///         let parts = [(0, b"one, "), (5, b"two, "), (10, b"three")];
    ///         let writes = parts.map(|(offset, part)| requests.write_at(&file, &part[..], offset));
    ///         writes.into_iter().try_for_each(|write| write.wait().0.map(drop))
    ///     })?;
    ///     let mut text = String::new();
    ///     file.read_to_string(&mut text)?;
    ///     assert_eq!(text, "one, two, three");
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn write_at<F: AsFd, B: Buffer + 'scope>(
        &'scope self,
        file: &'scope F,
        buffer: B,
        offset: u64,
    ) -> Request<'scope, B> {
        let bytes: *const [u8] = buffer.bytes();
        // SAFETY: `start` keeps the file and the buffer as long as the operation.
        let operation = |file, state| unsafe {
            Operation::File(FileOperation::Write {
                file: Descriptor { fd: file, state },
                buffer: &*bytes,
                offset: Some(offset),
            })
        };
        // SAFETY: the operation is on the file and the buffer.
        unsafe { self.start(file, buffer, false, operation) }
    }

    /// Starts a sync of a file: like [`File::sync_data`](crate::fs::File::sync_data) if `data_only`, and like
    /// [`File::sync_all`](crate::fs::File::sync_all) otherwise.
    ///
    /// ```
    /// uthread::run(|| {
    ///     let files = [tempfile::tempfile()?, tempfile::tempfile()?];
    ///     uthread::ring::requests(|requests| {
    ///         let syncs = files.each_ref().map(|file| requests.sync(file, true));
    ///         syncs.into_iter().try_for_each(|sync| sync.wait().0.map(drop))
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn sync<F: AsFd>(&'scope self, file: &'scope F, data_only: bool) -> Request<'scope, ()> {
        let operation = |file, state| {
            let file = Descriptor { fd: file, state };
            Operation::File(FileOperation::Sync { file, data_only })
        };
        // SAFETY: the operation is on the file.
        unsafe { self.start(file, (), false, operation) }
    }

    /// Starts a receive from a connected socket, which ends with the first bytes that arrive.
    ///
    /// ```
    /// use std::io::Write;
    /// use std::os::unix::net::UnixStream;
    ///
    /// uthread::run(|| {
    ///     let (mut sender, receiver) = UnixStream::pair()?;
    ///     uthread::ring::requests(|requests| {
    ///         let receive = requests.receive(&receiver, vec![0; 100]);
    ///         sender.write_all(b"a message")?;
    ///         let (length, bytes) = receive.wait();
    ///         assert_eq!(&bytes[..length?], b"a message");
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn receive<S: AsFd, B: BufferMut + 'scope>(
        &'scope self,
        socket: &'scope S,
        mut buffer: B,
    ) -> Request<'scope, B> {
        let bytes: *mut [u8] = buffer.bytes_mut();
        // SAFETY: `start` keeps the socket and the buffer as long as the operation.
        let operation = |socket, state| unsafe {
            Operation::Socket(SocketOperation::Receive(Receive {
                socket: Descriptor { fd: socket, state },
                buffer: &mut *bytes,
                peek: false,
                drains: false,
            }))
        };
        // SAFETY: the operation is on the socket and the buffer.
        unsafe { self.start(socket, buffer, true, operation) }
    }

    /// Starts a send to a connected socket, which may end with a part of the bytes.
    ///
    /// ```
    /// use std::io::Read;
    /// use std::os::unix::net::UnixStream;
    ///
    /// uthread::run(|| {
    ///     let (sender, mut receiver) = UnixStream::pair()?;
    ///     uthread::ring::requests(|requests| {
    ///         requests.send(&sender, b"ping".to_vec()).then(|sent, _| assert_eq!(sent.unwrap(), 4));
    ///     });
    ///     let mut bytes = [0; 4];
    ///     receiver.read_exact(&mut bytes)?;
    ///     assert_eq!(&bytes, b"ping");
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send<S: AsFd, B: Buffer + 'scope>(
        &'scope self,
        socket: &'scope S,
        buffer: B,
    ) -> Request<'scope, B> {
        let bytes: *const [u8] = buffer.bytes();
        // SAFETY: `start` keeps the socket and the buffer as long as the operation.
        let operation = |socket, state| unsafe {
            Operation::Socket(SocketOperation::Send(Send {
                socket: Descriptor { fd: socket, state },
                buffer: &*bytes,
            }))
        };
        // SAFETY: the operation is on the socket and the buffer.
        unsafe { self.start(socket, buffer, false, operation) }
    }

    /// Starts raw requests together, like [`submit_all`](super::submit_all). Linked ones, with the flag
    /// `IO_LINK`, start one after another without the fiber.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](io::ErrorKind::Unsupported) and [`InvalidInput`](io::ErrorKind::InvalidInput) as for
    /// `submit_all`, and `ECANCELED` if the fiber is cancelled. Nothing has started then.
    ///
    /// # Safety
    ///
    /// The contract of [`submit`](super::submit) holds for each entry until
    /// [`Submitted::wait`] has returned, the callback of [`Submitted::then`] is called, or [`requests`]
    /// has returned, whichever is first.
    ///
    /// ```
    /// use uthread::ring::{self, io_uring::{opcode, squeue::Flags}};
    ///
    /// uthread::run(|| {
    ///     let nop = || opcode::Nop::new().build();
    ///     ring::requests(|requests| {
    ///         // SAFETY: the entries refer to no memory.
    ///         match unsafe { requests.submit_all([nop().flags(Flags::IO_LINK), nop()]) } {
    ///             Ok(started) => assert!(started.wait().iter().all(Result::is_ok)),
    ///             Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Unsupported),
    ///         }
    ///     });
    /// });
    /// ```
    pub unsafe fn submit_all(
        &'scope self,
        entries: impl IntoIterator<Item = Entry>,
    ) -> io::Result<Submitted<'scope>> {
        require_ring()?;
        let entries = entries.into_iter().take(ENTRIES_MAX + 1);
        let raw = Vec::from_iter(entries.map(RawRequest::new));
        check(&raw)?;
        cancellation::refuse_if_cancelled()?;
        if raw.is_empty() {
            return Ok(Submitted(None));
        }
        // SAFETY: the caller's contract.
        let (request, place) = unsafe { StartedRequest::begin_raw(&self.table.origin, raw) };
        Ok(Submitted(Some(self.keep(request, place))))
    }

    /// Waits until all requests with a callback have ended, and calls the callbacks, which may start
    /// others.
    ///
    /// ```
    /// use std::cell::Cell;
    ///
    /// uthread::run(|| {
    ///     let file = tempfile::tempfile().unwrap();
    ///     let synced = Cell::new(0);
    ///     uthread::ring::requests(|requests| {
    ///         for _ in 0..3 {
    ///             requests.sync(&file, true).then(|_, ()| synced.set(synced.get() + 1));
    ///         }
    ///         requests.run();
    ///         assert_eq!(synced.get(), 3);
    ///     });
    /// });
    /// ```
    pub fn run(&self) {
        self.table.run();
    }

    /// Starts an operation.
    ///
    /// # Safety
    ///
    /// The operation refers to the descriptor that it gets, and to memory of the buffer.
    unsafe fn start<F: AsFd, B>(
        &'scope self,
        file: &'scope F,
        buffer: B,
        waits: bool,
        operation: impl FnOnce(BorrowedFd<'static>, &'static FdState) -> Operation<'static>,
    ) -> Request<'scope, B> {
        let buffer = MaybeUninit::new(buffer);
        // SAFETY: the file is open during the scope, before whose end the operation ends.
        let fd = unsafe { BorrowedFd::borrow_raw(file.as_fd().as_raw_fd()) };
        // SAFETY: the file is borrowed for the scope, and so is what the buffer borrows. The operation
        // ends before the scope, and before the buffer is returned or dropped; a handle that is
        // forgotten does neither.
        let (request, place) = unsafe {
            StartedRequest::begin(&self.table.origin, waits, |state| operation(fd, state))
        };
        Request {
            handle: self.keep(request, place),
            buffer: Some(buffer),
        }
    }

    fn keep(&'scope self, request: Arc<StartedRequest>, place: Place) -> Handle<'scope> {
        let kept = Kept {
            request,
            place,
            callback: None,
        };
        Handle {
            table: &self.table,
            key: Some(self.table.kept.borrow_mut().insert(kept)),
        }
    }
}

impl fmt::Debug for Requests<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Requests").finish_non_exhaustive()
    }
}

/// A request that has started. See the example of [`Requests::receive`].
///
/// Dropping it cancels the request and waits for its end.
///
/// What it borrows is borrowed until the end of the scope:
///
/// ```compile_fail,E0506
/// let file = std::fs::File::open("Cargo.toml").unwrap();
/// let mut bytes = [0; 4];
/// uthread::ring::requests(|requests| {
///     let read = requests.read_at(&file, &mut bytes[..], 0);
///     bytes[0] = 1;
///     let _ = read.wait();
/// });
/// ```
///
/// And has to live until then:
///
/// ```compile_fail,E0597
/// let file = std::fs::File::open("Cargo.toml").unwrap();
/// uthread::ring::requests(|requests| {
///     let mut bytes = [0; 4];
///     std::mem::forget(requests.read_at(&file, &mut bytes[..], 0));
/// });
/// ```
#[must_use = "the request is cancelled when it is dropped"]
pub struct Request<'scope, B> {
    /// Dropped, and ended by that, before the buffer.
    handle: Handle<'scope>,
    /// The kernel's until the end: no reference to its memory is used, not even by moving it.
    buffer: Option<MaybeUninit<B>>,
}

impl<'scope, B> Request<'scope, B> {
    /// Waits for the end. Returns the number of bytes, and the buffer. See the example of
    /// [`Requests::receive`].
    ///
    /// The result is an error if the request has failed: `ECANCELED` if it or the fiber was cancelled,
    /// `ETIMEDOUT` if the fiber's deadline has passed, or any error of the call of the same name.
    pub fn wait(self) -> (io::Result<usize>, B) {
        self.handle.with(StartedRequest::wait);
        self.finish()
    }

    /// Has this function called with what [`wait`](Request::wait) returns, once the request has ended. See
    /// the example of [`Requests::run`].
    pub fn then(self, callback: impl FnOnce(io::Result<usize>, B) + 'scope)
    where
        B: 'scope,
    {
        let (table, key) = self.handle.place();
        let callback = move || {
            let (result, buffer) = self.finish();
            callback(result, buffer);
        };
        table.call(key, Box::new(callback));
    }

    /// Requests the end of the request. It may still succeed.
    ///
    /// ```
    /// use std::os::unix::net::UnixStream;
    ///
    /// uthread::run(|| {
    ///     let (_sender, receiver) = UnixStream::pair()?;
    ///     uthread::ring::requests(|requests| {
    ///         let receive = requests.receive(&receiver, vec![0; 100]);
    ///         receive.cancel();
    ///         let (result, bytes) = receive.wait();
    ///         assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
    ///         assert_eq!(bytes.len(), 100);
    ///     });
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cancel(&self) {
        self.handle.with(StartedRequest::cancel);
    }

    /// Returns `true` once [`wait`](Request::wait) does not have to wait.
    ///
    /// ```
    /// uthread::run(|| {
    ///     let file = tempfile::tempfile().unwrap();
    ///     uthread::ring::requests(|requests| {
    ///         let sync = requests.sync(&file, true);
    ///         while !sync.is_finished() {
    ///             uthread::yield_now();
    ///         }
    ///     });
    /// });
    /// ```
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.with(|request, _| request.is_done())
    }

    /// Returns the result and the buffer of a request that has ended.
    #[allow(unsafe_code, reason = "a buffer that the kernel has had")]
    fn finish(mut self) -> (io::Result<usize>, B) {
        let request = self.handle.end().expect("it is taken once");
        let result = request.result().map(|count| count as usize);
        let buffer = self.buffer.take().expect("it is taken once");
        // SAFETY: it was initialized when the request started, and the operation has ended.
        (result, unsafe { buffer.assume_init() })
    }
}

impl<B> Drop for Request<'_, B> {
    #[allow(unsafe_code, reason = "a buffer that the kernel has had")]
    fn drop(&mut self) {
        self.handle.end();
        if let Some(buffer) = self.buffer.take() {
            // SAFETY: it was initialized when the request started, and the operation has ended.
            drop(unsafe { buffer.assume_init() });
        }
    }
}

impl<B> fmt::Debug for Request<'_, B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Request")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

/// Raw requests that have started together. Dropping it cancels them and waits for their ends. See the
/// example of [`Requests::submit_all`].
#[must_use = "the requests are cancelled when this is dropped"]
pub struct Submitted<'scope>(Option<Handle<'scope>>);

impl<'scope> Submitted<'scope> {
    /// Waits for the ends of all, and returns the result of each. See the example of
    /// [`Requests::submit_all`].
    #[must_use]
    pub fn wait(self) -> Vec<io::Result<Completion>> {
        if let Some(handle) = &self.0 {
            handle.with(StartedRequest::wait);
        }
        self.finish()
    }

    /// Has this function called with what [`wait`](Submitted::wait) returns, once all have ended: by
    /// [`Requests::run`] or at the end of the scope, or at once if there are none.
    ///
    /// ```
    /// use std::cell::Cell;
    /// use uthread::ring::{self, io_uring::opcode};
    ///
    /// uthread::run(|| {
    ///     let ended = Cell::new(0);
    ///     ring::requests(|requests| {
    ///         for _ in 0..3 {
    ///             // SAFETY: the entry refers to no memory.
    ///             match unsafe { requests.submit_all([opcode::Nop::new().build()]) } {
    ///                 Ok(nop) => nop.then(|results| ended.set(ended.get() + results.len())),
    ///                 Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::Unsupported),
    ///             }
    ///         }
    ///         requests.run();
    ///         assert!([0, 3].contains(&ended.get()));
    ///     });
    /// });
    /// ```
    pub fn then(self, callback: impl FnOnce(Vec<io::Result<Completion>>) + 'scope) {
        match &self.0 {
            None => callback(Vec::new()),
            Some(handle) => {
                let (table, key) = handle.place();
                table.call(key, Box::new(move || callback(self.finish())));
            }
        }
    }

    /// Returns the results of requests that have ended.
    fn finish(mut self) -> Vec<io::Result<Completion>> {
        let Some(handle) = &mut self.0 else {
            return Vec::new();
        };
        let request = handle.end().expect("it is taken once");
        request.take_raw().iter().map(completion_of).collect()
    }

    /// Requests the end of those that have not ended.
    ///
    /// ```
    /// use uthread::ring::{self, io_uring::{opcode, types::Timespec}};
    ///
    /// uthread::run(|| {
    ///     let hour = Timespec::new().sec(3600);
    ///     ring::requests(|requests| {
    ///         // SAFETY: the time lives until the scope has ended.
    ///         if let Ok(sleep) = unsafe { requests.submit_all([opcode::Timeout::new(&hour).build()]) } {
    ///             sleep.cancel();
    ///             assert!(sleep.wait()[0].is_err());
    ///         }
    ///     });
    /// });
    /// ```
    pub fn cancel(&self) {
        if let Some(handle) = &self.0 {
            handle.with(StartedRequest::cancel);
        }
    }
}

impl fmt::Debug for Submitted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Submitted").finish_non_exhaustive()
    }
}

/// The right to an operation's result. Ends the operation when it is dropped.
struct Handle<'scope> {
    table: &'scope Table,
    /// `None` once the operation is out of the table.
    key: Option<usize>,
}

impl<'scope> Handle<'scope> {
    /// Returns where the operation is.
    fn place(&self) -> (&'scope Table, usize) {
        (self.table, self.key.expect("it was not taken"))
    }

    /// Calls `action`, in which the fiber may wait but calls no callback, with the operation.
    fn with<R>(&self, action: impl FnOnce(&StartedRequest, Place) -> R) -> R {
        let kept = self.table.kept.borrow();
        let kept = &kept[self.key.expect("it was not taken")];
        action(&kept.request, kept.place)
    }

    /// Ends the operation. Returns it, unless that was done before.
    fn end(&mut self) -> Option<Arc<StartedRequest>> {
        let key = self.key?;
        if !self.table.kept.borrow().contains(key) {
            // The scope has ended it.
            return None;
        }
        self.with(|request, place| request.end(place));
        self.key = None;
        let kept = self.table.kept.borrow_mut().try_remove(key);
        kept.map(|kept| kept.request)
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Bytes that a request takes: a borrowed slice, or a `Vec`, whose bytes stay where they are when it is
/// moved. See the examples of [`Requests::write_at`] and [`Requests::send`].
pub trait Buffer: sealed::Bytes {}

/// A buffer that a request fills: a borrowed slice, or a `Vec` up to its length. See the examples of
/// [`requests`] and [`Requests::receive`].
pub trait BufferMut: sealed::BytesMut {}

impl Buffer for &[u8] {}
impl Buffer for Vec<u8> {}
impl BufferMut for &mut [u8] {}
impl BufferMut for Vec<u8> {}

mod sealed {
    pub trait Bytes {
        fn bytes(&self) -> &[u8];
    }

    pub trait BytesMut {
        fn bytes_mut(&mut self) -> &mut [u8];
    }

    impl Bytes for &[u8] {
        fn bytes(&self) -> &[u8] {
            self
        }
    }

    impl Bytes for Vec<u8> {
        fn bytes(&self) -> &[u8] {
            self
        }
    }

    impl BytesMut for &mut [u8] {
        fn bytes_mut(&mut self) -> &mut [u8] {
            self
        }
    }

    impl BytesMut for Vec<u8> {
        fn bytes_mut(&mut self) -> &mut [u8] {
            self
        }
    }
}
