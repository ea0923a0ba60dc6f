//! Descriptors that are ready, among the arms of a choice.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;
use rustix::io::{Errno, retry_on_intr};

use crate::driver::native;
use crate::op::Operation;
use crate::op::net::SocketOperation;
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::readiness::PollOperation;
use crate::sched::wait;
use crate::sync::select::{Arm, ArmHandle, Event};

/// The arm that a descriptor has something to read: bytes, a connection, or the end of them. As by `poll(2)`, an
/// error or a hang-up counts as such: the next call tells.
///
/// It takes nothing, so what is ready stays so until somebody reads. Nor does it promise anything: another fiber may
/// be first. A buffer that lies before the descriptor, as that of a `BufReader` or of [`stdin`](crate::io::stdin), is
/// not looked at: empty it first.
///
/// # Errors
///
/// The arm gives the kernel's error where that cannot wait: `ENOMEM`, on epoll `ENOSPC` (`fs.epoll.max_user_watches`), for a
/// thread `EMFILE`.
///
/// # Costs
///
/// A `poll(2)` where it is ready. Where nothing is, a fiber has an operation begun for each such arm, and cancelled
/// if something else comes first. A thread makes an eventfd for the choice, and waits for it and all
/// descriptors by one more `poll(2)`.
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
///     recv(&stopped) => unreachable!("nobody stops it"),
/// }
/// assert_eq!(&buffer, b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The descriptor outlives it:
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

/// The arm that a descriptor has room for something to be written, or will never have any: then the next write
/// fails. Otherwise as [`readable`], errors and costs too.
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
///         after(Duration::from_secs(60)) => panic!("nobody reads"),
///     }
/// }
/// drop(writer);
/// assert_eq!(reading.join().unwrap()?.len(), 100_000);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn writable<F: AsFd + ?Sized>(descriptor: &F) -> Arm<Readiness<'_>> {
    arm(descriptor.as_fd(), PollFlags::OUT)
}

fn arm(fd: BorrowedFd<'_>, events: PollFlags) -> Arm<Readiness<'_>> {
    Arm::new(Readiness {
        fd,
        events,
        state: FdState::new(),
        failure: None,
    })
}

/// The event of [`readable`] and [`writable`].
pub struct Readiness<'a> {
    fd: BorrowedFd<'a>,
    events: PollFlags,
    state: FdState,
    /// Why the kernel cannot wait for it.
    failure: Option<io::Error>,
}

impl fmt::Debug for Readiness<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Readiness")
            .field("fd", &self.fd)
            .field("events", &self.events)
            .finish_non_exhaustive()
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

    /// What is ready already ends the poll as soon as it is begun.
    fn enlist(&mut self, _: ArmHandle) -> bool {
        // The number 0 may come to mean another file before the next wait.
        self.state = FdState::new();
        true
    }

    fn withdraw(&mut self) {}

    fn poll(&self) -> Option<PollOperation<'_>> {
        Some(PollOperation(Operation::Socket(SocketOperation::Poll {
            descriptor: Descriptor {
                fd: self.fd,
                state: &self.state,
            },
            events: self.events,
        })))
    }

    fn fail(&mut self, error: io::Error) {
        self.failure = Some(error);
    }

    fn cut_off(&mut self) -> io::Result<()> {
        Err(wait::refusal().unwrap_or_else(|| Errno::CANCELED.into()))
    }
}
