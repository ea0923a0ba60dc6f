//! The manager: one worker, and on it a fiber that starts what other threads submit.
//!
//! ```text
//!   any thread          uthread_submit: a message to the owner
//!   the owner, a fiber  a fiber for each request, in the order of the messages
//!   that fiber          the request, the completion, and a request that a completion has submitted
//! ```
//!
//! A request is cancelled by its number, as it may have ended and its memory may be gone.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};

use uthread::runtime::Builder;
use uthread::thread::Thread;
use uthread::{Driver, Runtime};

use crate::batch::Batch;
use crate::completion::{Completion, errno};
use crate::live::{self, Submission, Work};
use crate::registered::Access;
use crate::request::Request;
use crate::stream::Stream;

/// Messages that are handled before the started fibers run.
const BATCH: usize = 64;

/// The `id` of the next manager.
static MANAGERS: AtomicU64 = AtomicU64::new(1);

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
    id: u64,
    /// The number of the last request.
    last: AtomicU64,
}

enum Message {
    Start(Submission),
    Call(Box<dyn FnOnce() + Send>),
    Cancel(u64),
    Credit(u64, u32),
}

impl Manager {
    /// Starts a manager with this driver, by default with the best one. Its thread does not
    /// interrupt those that submit if it `gathers`.
    ///
    /// # Errors
    ///
    /// The errors of [`Builder::build`].
    pub(crate) fn start(
        builder: Builder,
        driver: Option<Driver>,
        gathers: bool,
    ) -> io::Result<Manager> {
        let (runtime, driver) = start_worker(builder, driver)?;
        let (sender, receiver) = channel();
        let sleeps = Arc::new(AtomicBool::new(false));
        let asleep = Arc::clone(&sleeps);
        // Relaxed: only the numbers matter.
        let id = MANAGERS.fetch_add(1, Ordering::Relaxed);
        let fiber = runtime.spawn(move || own(&receiver, id, &asleep, gathers));
        let owner = Owner {
            sleeps,
            thread: fiber.thread().clone(),
        };
        Ok(Manager {
            driver,
            has_ring: runtime.driver().driver().has_ring(),
            runtime: Mutex::new(Some(runtime)),
            sender,
            owner,
            id,
            last: AtomicU64::new(0),
        })
    }

    /// Cancels all requests and waits until each has ended. Later ones are cancelled at once.
    pub(crate) fn stop(&self) {
        let mut runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let stopped = runtime.take();
        // Held meanwhile: a second caller waits, too.
        drop(stopped);
    }

    pub(crate) fn submit(&self, request: Request, completion: Completion) -> u64 {
        self.begin(Work::Request(request, completion))
    }

    pub(crate) fn submit_all(&self, batch: Batch) -> u64 {
        self.begin(Work::Batch(batch))
    }

    pub(crate) fn stream(&self, stream: Stream, completion: Completion) -> u64 {
        self.begin(Work::Stream(stream, completion))
    }

    pub(crate) fn access(&self, access: Access, completion: Completion) -> u64 {
        self.begin(Work::Access(access, completion))
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
            // The receiver lives: it waits for the result below.
            let _ = sender.send(call());
        });
        self.post(Message::Call(call));
        receiver
            .recv()
            .map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn begin(&self, work: Work) -> u64 {
        // Relaxed: the channel orders the submissions of other threads.
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let submission = Submission::new(number, work);
        if live::is_thread_of(self.id) {
            live::defer(submission);
        } else {
            self.post(Message::Start(submission));
        }
        number
    }

    fn post(&self, message: Message) {
        // A message that cannot be sent is dropped, and its completion says so.
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

/// Starts the only worker, and returns its driver and why it was chosen, as text.
///
/// The environment variables of the library are for programs that are written with it. The
/// contract of a manager needs one thread for all completions, so it leaves nothing to them.
fn start_worker(builder: Builder, driver: Option<Driver>) -> io::Result<(Runtime, String)> {
    // A report of a stall would speak of fibers, which the program does not know.
    let builder = builder.workers(1).lean().stall_threshold(None);
    if let Some(driver) = driver {
        let runtime = builder.driver(driver).build()?;
        let text = runtime.driver().to_string();
        return Ok((runtime, text));
    }
    let (runtime, reason) = match builder.clone().driver(Driver::Uring).build() {
        Ok(runtime) => (runtime, "the default".to_owned()),
        Err(error) if is_short_of_descriptors(&error) => return Err(error),
        Err(error) => {
            let runtime = builder.driver(Driver::Epoll).build()?;
            (runtime, format!("as there is no io_uring: {error}"))
        }
    };
    let info = runtime.driver();
    let text = format!("{} ({}), {reason}", info.driver(), info.details());
    Ok((runtime, text))
}

/// Returns `true` if epoll would not be right in place of io_uring, as that was not refused.
fn is_short_of_descriptors(error: &io::Error) -> bool {
    matches!(errno(error).abs(), libc::EMFILE | libc::ENFILE)
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
fn own(receiver: &Receiver<Message>, id: u64, sleeps: &AtomicBool, gathers: bool) {
    if gathers {
        gather();
    }
    let _open = live::open(id);
    loop {
        let mut handled = 0;
        while handled < BATCH {
            match receiver.try_recv() {
                Ok(message) => handle(message),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
            handled += 1;
        }
        if handled > 0 {
            sleeps.store(false, Ordering::Relaxed);
            uthread::yield_now();
        } else if live::has_deferred() {
            live::start_deferred();
        } else if sleeps.swap(true, Ordering::Relaxed) {
            uthread::thread::park();
        } else {
            // Looks once more.
            fence(Ordering::SeqCst);
        }
    }
}

fn handle(message: Message) {
    match message {
        Message::Start(submission) => live::start(submission),
        Message::Call(call) => call(),
        Message::Cancel(number) => live::cancel(number),
        Message::Credit(number, items) => live::add_credit(number, items),
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
