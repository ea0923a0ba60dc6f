//! The manager: one worker, and on it a fiber that starts what other threads submit.
//!
//! ```text
//!   any thread          uthread_submit: a message to the owner
//!   the owner, a fiber  a fiber for each request, in the order of the messages
//!   that fiber          the request, then the completion
//! ```
//!
//! A request is cancelled by its number, as it may have ended and its memory may be gone. What is
//! live is known to the fibers of the one worker only, so that nothing has to be synchronized with
//! the threads that submit.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use uthread::sync::Semaphore;
use uthread::thread::{JoinHandle, Thread};
use uthread::{Builder, Driver, Runtime};

use crate::completion::Completion;
use crate::registered::Access;
use crate::request::{self, Request};
use crate::stream::Stream;

/// Messages that are handled before the started fibers run.
const BATCH: usize = 64;

/// A manager of one ring. Where the kernel refuses io_uring, epoll takes its place.
pub(crate) struct Manager {
    /// `None` once it was stopped.
    runtime: Mutex<Option<Runtime>>,
    /// The driver and why it was chosen.
    pub(crate) driver: String,
    pub(crate) has_ring: bool,
    /// A channel of `std`, as its sender never lets other fibers run: completions submit, and may
    /// hold a lock meanwhile.
    sender: Sender<Message>,
    owner: Owner,
    /// The number of the last request.
    last: AtomicU64,
}

enum Message {
    Submit(u64, Request, Completion),
    Stream(u64, Stream, Completion),
    Access(u64, Access, Completion),
    Call(Box<dyn FnOnce() + Send>),
    Cancel(u64),
    Credit(u64, u32),
}

/// The requests that have not ended.
#[derive(Default)]
struct Live(Mutex<FxHashMap<u64, Entry>>);

struct Entry {
    fiber: JoinHandle<()>,
    /// The items that a stream may still deliver.
    credit: Option<Arc<Semaphore>>,
}

impl Manager {
    /// Starts a manager, whose thread does not interrupt those that submit if it `gathers`.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::build`].
    pub(crate) fn start(builder: Builder, gathers: bool) -> io::Result<Manager> {
        // A report of a stall would speak of fibers, which the program does not know.
        let runtime = builder.workers(1).stall_threshold(None).build()?;
        let (sender, receiver) = channel();
        let sleeps = Arc::new(AtomicBool::new(false));
        let asleep = Arc::clone(&sleeps);
        let fiber = runtime.spawn(move || own(&receiver, &asleep, gathers));
        let owner = Owner {
            sleeps,
            thread: fiber.thread().clone(),
        };
        Ok(Manager {
            driver: runtime.driver().to_string(),
            has_ring: runtime.driver().driver() == Driver::Uring,
            runtime: Mutex::new(Some(runtime)),
            sender,
            owner,
            last: AtomicU64::new(0),
        })
    }

    /// Cancels all requests and waits until each has told its end. Later ones are cancelled at
    /// once.
    pub(crate) fn stop(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let stopped = runtime.take();
        // Held meanwhile: a second caller waits, too.
        drop(stopped);
    }

    pub(crate) fn submit(&self, request: Request, completion: Completion) -> u64 {
        self.send(|number| Message::Submit(number, request, completion))
    }

    pub(crate) fn stream(&self, stream: Stream, completion: Completion) -> u64 {
        self.send(|number| Message::Stream(number, stream, completion))
    }

    pub(crate) fn access(&self, access: Access, completion: Completion) -> u64 {
        self.send(|number| Message::Access(number, access, completion))
    }

    /// Calls a function on the manager's thread, and waits for its result.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if the manager has ended.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (sender, receiver) = channel();
        let call = Box::new(move || {
            // Whoever waits for it is there.
            let _ = sender.send(call());
        });
        self.post(Message::Call(call));
        receiver
            .recv()
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn send(&self, message: impl FnOnce(u64) -> Message) -> u64 {
        // Relaxed: the channel orders the messages.
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        // A message that cannot be sent is dropped, and its completion says so.
        self.post(message(number));
        number
    }

    fn post(&self, message: Message) {
        let _ = self.sender.send(message);
        self.owner.wake();
    }

    pub(crate) fn cancel(&self, number: u64) {
        self.post(Message::Cancel(number));
    }

    pub(crate) fn add_credit(&self, number: u64, items: u32) {
        self.post(Message::Credit(number, items));
    }
}

/// The fiber that handles the messages.
struct Owner {
    /// Set before its last look at the messages.
    sleeps: Arc<AtomicBool>,
    thread: Thread,
}

impl Owner {
    fn wake(&self) {
        // Ordered after the message was sent, and the owner's look after its store: one of them
        // sees the other.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) && self.sleeps.swap(false, Ordering::Relaxed) {
            self.thread.unpark();
        }
    }
}

/// Starts what is submitted, until the manager is closed.
fn own(receiver: &Receiver<Message>, sleeps: &AtomicBool, gathers: bool) {
    if gathers {
        gather();
    }
    let live = Arc::new(Live::default());
    loop {
        let mut handled = 0;
        while handled < BATCH {
            match receiver.try_recv() {
                Ok(message) => live.handle(message),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
            handled += 1;
        }
        if handled > 0 {
            sleeps.store(false, Ordering::Relaxed);
            uthread::yield_now();
        } else if sleeps.swap(true, Ordering::Relaxed) {
            uthread::thread::park();
        } else {
            // Looks once more.
            fence(Ordering::SeqCst);
        }
    }
}

/// Makes the calling thread, the only worker, wait for its turn when it is woken on a CPU that
/// another thread uses.
#[allow(unsafe_code, reason = "a system call that std has no function for")]
fn gather() {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters live until the call has returned. Where it is refused, nothing
    // changes.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const priority) };
}

impl Live {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<u64, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(self: &Arc<Live>, message: Message) {
        match message {
            Message::Submit(number, request, completion) => {
                self.start(number, None, completion, move |completion| {
                    let (result, flags) = request::perform(request);
                    completion.end(result, flags);
                });
            }
            Message::Access(number, access, completion) => {
                self.start(number, None, completion, move |completion| {
                    completion.end(access.perform(), 0);
                });
            }
            Message::Call(call) => call(),
            Message::Stream(number, stream, completion) => {
                let credit = stream.credit();
                self.start(number, Some(credit), completion, move |completion| {
                    stream.run(completion);
                });
            }
            Message::Cancel(number) => {
                if let Some(entry) = self.lock().get(&number) {
                    entry.fiber.cancel();
                }
            }
            Message::Credit(number, items) => {
                let credit = self
                    .lock()
                    .get(&number)
                    .and_then(|entry| entry.credit.clone());
                if let Some(credit) = credit {
                    credit.add_permits(items as usize);
                }
            }
        }
    }

    /// Spawns the fiber of a request. It starts when the owner suspends, as there is one worker.
    fn start(
        self: &Arc<Live>,
        number: u64,
        credit: Option<Arc<Semaphore>>,
        completion: Completion,
        run: impl FnOnce(Completion) + Send + 'static,
    ) {
        // Moved into the closure, so that a fiber that is cancelled before it has started ends the
        // same way.
        let end = End {
            number,
            live: Arc::clone(self),
        };
        let fiber = uthread::spawn(move || {
            let _end = end;
            run(completion);
        });
        // A runtime that stops ends it at once.
        if !fiber.is_finished() {
            self.lock().insert(number, Entry { fiber, credit });
        }
    }
}

/// Removes a request from the live ones when it is dropped.
struct End {
    number: u64,
    live: Arc<Live>,
}

impl Drop for End {
    fn drop(&mut self) {
        // The handle of the own fiber is dropped without the lock.
        let removed = self.live.lock().remove(&self.number);
        drop(removed);
    }
}
