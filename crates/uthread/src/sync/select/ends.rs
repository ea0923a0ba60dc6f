//! Ends of fibers, of processes and of the caller's wait, as arms of a selection.

use std::io::{self, ErrorKind};

use super::readiness::{self, Readiness};
use crate::sched::caller::cancellation;
use crate::sched::features::readiness::PollOperation;
use crate::sync::change::Change;
use crate::sync::selection::{Arm, ArmHandle, Event, Exits, Joins, JoinsNext};

/// Creates an arm that is ready when a fiber has ended, so that a join does not wait.
///
/// `handle` is that of a fiber, also of one in a scope.
///
/// ```
/// use std::time::Duration;
///
/// let mut fiber = uthread::spawn(|| 6 * 7);
/// uthread::select! {
///     ended(&mut fiber) => assert_eq!(fiber.join().unwrap(), 42),
///     after(Duration::from_secs(60)) => panic!("the fiber takes too long"),
/// }
/// ```
///
/// While a selection waits, nobody else joins the fiber:
///
/// ```compile_fail,E0505
/// let mut fiber = uthread::spawn(|| ());
/// let mut arm = uthread::sync::select::ended(&mut fiber);
/// fiber.join();
/// uthread::sync::select::try_select(&mut [&mut arm]);
/// ```
pub fn ended<H: Joins>(handle: &mut H) -> Arm<Ended<'_, H>> {
    Arm::new(Ended(handle))
}

/// Creates an arm that is ready when a fiber of a [`JoinSet`](crate::thread::JoinSet) has ended. If
/// the arm is selected, the fiber is removed from the set, and the result is that of its `join`. If
/// the set is empty, the arm is never selected.
///
/// ```
/// use std::time::Duration;
/// use uthread::thread::JoinSet;
///
/// let mut workers = JoinSet::new();
/// workers.spawn(|| 6 * 7);
/// uthread::select! {
///     join_next(&mut workers) -> answer => assert_eq!(answer.unwrap(), 42),
///     after(Duration::from_secs(60)) => panic!("the fiber takes too long"),
/// }
/// ```
pub fn join_next<S: JoinsNext>(set: S) -> Arm<Change<S>>
where
    Change<S>: Event,
{
    if set.has_members() {
        Arm::new(Change::new(set))
    } else {
        Arm::disabled()
    }
}

/// The event of [`ended`].
pub struct Ended<'a, H>(&'a mut H);

impl<H: Joins> Event for Ended<'_, H> {
    type Output = ();

    fn try_complete(&mut self) -> Option<()> {
        self.0.has_ended().then_some(())
    }

    fn enlist(&mut self, handle: ArmHandle) -> bool {
        self.0.await_end(handle)
    }

    fn withdraw(&mut self) {
        self.0.withdraw();
    }

    fn cut_off(&mut self) {}
}

/// Creates an arm that is ready when a child process has terminated, so that
/// [`Child::wait`](crate::process::Child::wait) does not wait.
///
/// # Errors
///
/// The arm completes with `Unsupported` if the kernel has no descriptors for processes (before
/// Linux 5.4), or if there was no free descriptor when the child was started. Otherwise its errors
/// are those of [`readable`](super::readable).
///
/// ```
/// use std::time::Duration;
/// use uthread::process::Command;
///
/// let mut child = Command::new("true").spawn()?;
/// uthread::select! {
///     exited(&child) -> exited => {
///         exited?;
///         assert!(child.wait()?.success());
///     }
///     after(Duration::from_secs(60)) => child.kill()?,
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// `child` is a [`Child`](crate::process::Child).
pub fn exited<P: Exits>(child: &P) -> Arm<Exited<'_>> {
    Arm::new(Exited(child.pidfd().map(Readiness::of_input)))
}

/// The event of [`exited`].
pub struct Exited<'a>(Option<Readiness<'a>>);

impl Event for Exited<'_> {
    type Output = io::Result<()>;

    fn try_complete(&mut self) -> Option<io::Result<()>> {
        match &mut self.0 {
            Some(readiness) => readiness.try_complete(),
            None => Some(Err(io::Error::new(
                ErrorKind::Unsupported,
                "there is no descriptor for the child",
            ))),
        }
    }

    fn enlist(&mut self, handle: ArmHandle) -> bool {
        self.0
            .as_mut()
            .is_some_and(|readiness| readiness.enlist(handle))
    }

    fn withdraw(&mut self) {}

    fn poll(&self) -> Option<PollOperation<'_>> {
        self.0.as_ref()?.poll()
    }

    fn fail(&mut self, error: io::Error) {
        if let Some(readiness) = &mut self.0 {
            readiness.fail(error);
        }
    }

    fn cut_off(&mut self) -> io::Result<()> {
        Err(readiness::refusal())
    }
}

/// Creates an arm that is ready when the caller is [cancelled](crate::JoinHandle::cancel), or when
/// its deadline has passed.
///
/// With this arm the selection does not unwind the caller. Later calls that wait still fail, unless
/// they are in a [`shield`](crate::shield). Never ready on a plain thread.
///
/// ```
/// use uthread::sync::mpsc;
///
/// let (sender, requests) = mpsc::channel::<u32>();
/// let (begun, begin) = mpsc::channel();
/// let server = uthread::spawn(move || {
///     begun.send(()).unwrap();
///     let mut served = 0;
///     loop {
///         uthread::select! {
///             recv(&requests) -> _request => served += 1,
///             cancelled() => return served,
///         }
///     }
/// });
/// begin.recv().unwrap();
/// server.cancel();
/// assert_eq!(server.join().unwrap(), 0);
/// # drop(sender);
/// ```
pub fn cancelled() -> Arm<Cancellation> {
    Arm::new(Cancellation(()))
}

/// The event of [`cancelled`].
pub struct Cancellation(());

impl Event for Cancellation {
    type Output = ();

    fn try_complete(&mut self) -> Option<()> {
        cancellation::is_cancelled().then_some(())
    }

    /// Returns `true`: the end of the wait wakes the caller, whatever its arms.
    fn enlist(&mut self, _: ArmHandle) -> bool {
        true
    }

    fn withdraw(&mut self) {}

    fn cut_off(&mut self) {}
}
