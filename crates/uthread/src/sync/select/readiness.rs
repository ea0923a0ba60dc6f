//! Readiness of descriptors as an arm of a selection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use rustix::io::{Errno, retry_on_intr};

use crate::driver::native;
use crate::op::net;
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::caller::cancellation;
use crate::sched::features::readiness::PollOperation;
use crate::sync::selection::{Arm, ArmHandle, Event};

/// Creates an arm that completes when `descriptor` is readable: when it has bytes or a connection,
/// or is at its end. As with `poll(2)`, an error or a hang-up counts as readable; the next call on
/// the descriptor reports it.
///
/// The arm consumes nothing, so the descriptor stays readable until it is read from. Another fiber
/// may read first, so the next call may still wait. Bytes in a user-space buffer, such as that of a
/// `BufReader` or of [`stdin`](crate::io::stdin), are not considered: empty the buffer first.
///
/// # Errors
///
/// The arm completes with an error if the kernel cannot wait: `ENOMEM`, `ENOSPC` on the epoll
/// driver (`fs.epoll.max_user_watches`), or `EMFILE` on a plain thread.
///
/// # Costs
///
/// One `poll(2)` if the descriptor is ready. If no arm is ready, a fiber starts one operation per
/// descriptor arm, and cancels it if another arm completes first. A plain thread creates an eventfd
/// for the selection and waits for it and all descriptors by one more `poll(2)`.
///
/// ```
/// use std::io::{Read, Write};
/// use uthread::net::UnixStream;
/// use uthread::sync::mpsc;
///
/// let (mut stream, mut peer) = UnixStream::pair()?;
/// let (_stop, stopped) = mpsc::channel::<()>();
/// uthread::spawn(move || peer.write_all(b"hello").unwrap());
/// let mut buffer = [0; 5];
/// uthread::select! {
///     readable(&stream) -> ready => {
///         ready?;
///         stream.read_exact(&mut buffer)?;
///     }
///     recv(&stopped) => unreachable!("no message is sent"),
/// }
/// assert_eq!(&buffer, b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The arm borrows the descriptor:
///
/// ```compile_fail,E0505
/// let (reader, _writer) = std::io::pipe().unwrap();
/// let mut arm = uthread::sync::select::readable(&reader);
/// drop(reader);
/// uthread::sync::select::try_select(&mut [&mut arm]);
/// ```
pub fn readable<F: AsFd + ?Sized>(descriptor: &F) -> Arm<Readiness<'_>> {
    arm(descriptor.as_fd(), PollFlags::IN)
}

/// Creates an arm that completes when `descriptor` is writable, or when the next write would fail
/// at once. Its errors and costs are those of [`readable`].
///
/// ```
/// use std::io::Write;
/// use std::time::Duration;
/// use uthread::io::pipe;
///
/// let (reader, mut writer) = pipe()?;
/// let mut rest: &[u8] = &[b'x'; 100_000];
/// let reading = uthread::spawn(move || uthread::io::read_to_string(reader));
/// while !rest.is_empty() {
///     uthread::select! {
///         writable(&writer) -> ready => {
///             ready?;
///             let (now, later) = rest.split_at(rest.len().min(4096));
///             writer.write_all(now)?;
///             rest = later;
///         }
///         after(Duration::from_secs(60)) => panic!("no bytes are read"),
///     }
/// }
/// drop(writer);
/// assert_eq!(reading.join().unwrap()?.len(), 100_000);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn writable<F: AsFd + ?Sized>(descriptor: &F) -> Arm<Readiness<'_>> {
    arm(descriptor.as_fd(), PollFlags::OUT)
}

/// Returns the error of an arm that completes because the caller may not wait.
pub(super) fn refusal() -> io::Error {
    cancellation::refusal().unwrap_or_else(|| Errno::CANCELED.into())
}

fn arm(fd: BorrowedFd<'_>, events: PollFlags) -> Arm<Readiness<'_>> {
    Arm::new(Readiness::new(fd, events))
}

/// The event of the arms that [`readable`] and [`writable`] create.
pub struct Readiness<'a> {
    fd: BorrowedFd<'a>,
    events: PollFlags,
    state: FdState,
    /// The error with which the kernel refused to wait.
    failure: Option<io::Error>,
}

impl<'a> Readiness<'a> {
    /// Returns the event that the descriptor is readable.
    pub(super) fn of_input(fd: BorrowedFd<'a>) -> Readiness<'a> {
        Readiness::new(fd, PollFlags::IN)
    }

    fn new(fd: BorrowedFd<'a>, events: PollFlags) -> Readiness<'a> {
        Readiness {
            fd,
            events,
            state: FdState::new(),
            failure: None,
        }
    }
}

impl Event for Readiness<'_> {
    type Output = io::Result<()>;

    fn try_complete(&mut self) -> Option<io::Result<()>> {
        if let Some(error) = self.failure.take() {
            return Some(Err(error));
        }
        match retry_on_intr(|| native::ready_now(self.fd, self.events)) {
            Ok(ready) if ready.is_empty() => None,
            Ok(_) => Some(Ok(())),
            Err(errno) => Some(Err(errno.into())),
        }
    }

    /// Returns `true`: the poll of a descriptor that is ready completes as soon as it starts.
    fn enlist(&mut self, _: ArmHandle) -> bool {
        // The descriptor number may refer to another file by the next wait.
        self.state = FdState::new();
        true
    }

    fn withdraw(&mut self) {}

    fn poll(&self) -> Option<PollOperation<'_>> {
        Some(PollOperation(net::Poll {
            descriptor: Descriptor {
                fd: self.fd,
                state: &self.state,
            },
            events: self.events,
        }))
    }

    fn fail(&mut self, error: io::Error) {
        self.failure = Some(error);
    }

    fn cut_off(&mut self) -> io::Result<()> {
        Err(refusal())
    }
}
