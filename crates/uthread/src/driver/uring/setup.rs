//! Creating a ring with the best setup that the kernel accepts, found by trying.

use std::time::Duration;
use std::{fmt, io, thread};

use io_uring::{Builder, IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;

use crate::resource::standard;

/// Size of the submission queue: about as many entries as a scheduler round submits. A full queue
/// only causes an early flush.
const SUBMISSIONS: u32 = 256;

/// Size of the completion queue: enough for a burst from thousands of operations before the kernel
/// uses its slow overflow list.
const COMPLETIONS: u32 = 4096;

/// The sizes used as a last resort if locked memory is short.
const SUBMISSIONS_MIN: u32 = 32;
const COMPLETIONS_MIN: u32 = 128;

/// The first and the last choice: 84 KiB and 8 KiB of locked memory.
const SIZES: [(u32, u32); 2] = [
    (SUBMISSIONS, COMPLETIONS),
    (SUBMISSIONS_MIN, COMPLETIONS_MIN),
];

/// Size of the kernel's `struct io_rings`, which precedes the completions.
const HEADER_BYTES: usize = 320;

/// How submissions reach the kernel and completions the worker. The requested mode comes first,
/// then the others from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A kernel thread fetches submissions and completes requests on its own. It sleeps after it
    /// has been idle for this time. Rings do not share the thread: it would take eight entries of
    /// each ring in turn, which splits chains.
    Polled { idle_ms: u32 },
    /// The kernel completes requests only when the worker asks: no interruptions, full batches.
    Deferred,
    /// The kernel completes requests when the worker next enters it for any reason.
    Cooperative,
    /// The kernel interrupts the worker for each completion.
    Interrupting,
}

impl fmt::Display for Mode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Mode::Polled { idle_ms } => {
                return write!(formatter, "kernel polling for {idle_ms} ms");
            }
            Mode::Deferred => "single issuer, deferred task work",
            Mode::Cooperative => "cooperative task work",
            Mode::Interrupting => "no task-work flags",
        })
    }
}

/// The modes of a ring that one thread uses.
pub(super) const OWN: &[Mode] = &[Mode::Deferred, Mode::Cooperative, Mode::Interrupting];
/// The modes of a ring that several threads use, one after another.
pub(super) const ANY: &[Mode] = &[Mode::Cooperative, Mode::Interrupting];

/// Locked memory is released slightly after its ring was closed: the number of attempts to create a
/// ring for which there is no memory, and the pause between them.
const MEMORY_TRIES: u32 = 10;
const MEMORY_PAUSE: Duration = Duration::from_millis(10);

impl Mode {
    pub(super) fn polled(idle: Duration) -> Mode {
        // Zero would select the kernel's default, which is a second.
        let idle_ms = u32::try_from(idle.as_millis()).unwrap_or(u32::MAX).max(1);
        Mode::Polled { idle_ms }
    }
}

/// The options of a runtime for its rings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// `true` if the ring may be used by one thread after another.
    pub(crate) moves: bool,
    /// `true` if the runtime has no other ring.
    pub(crate) is_only: bool,
    /// How long a kernel thread polls for submissions before it sleeps, if there is to be one.
    pub(crate) kernel_polling: Option<Duration>,
    /// `true` if devices are polled for completions.
    pub(crate) io_polling: bool,
    /// Maximum number of threads of the kernel for operations on files, and for others.
    pub(crate) kernel_workers: Option<u32>,
}

/// A ring, its mode, and the error with which the kernel has refused to poll for submissions.
pub(super) type Made = (IoUring, Mode, Option<io::Error>);

/// Creates a ring with the given options. Also returns the kernel's error if it refuses to poll for
/// submissions; the ring does not poll then.
///
/// # Errors
///
/// The errors of [`ring`].
pub(super) fn ring_for(options: Options) -> io::Result<Made> {
    let mut refusal = None;
    if let Some(idle) = options.kernel_polling {
        match ring_when_there_is_memory(&[Mode::polled(idle)]) {
            Ok((ring, mode)) => return Ok((ring, mode, None)),
            Err(errno) => refusal = Some(errno.into()),
        }
    }
    let (ring, mode) = ring(if options.moves { ANY } else { OWN })?;
    Ok((ring, mode, refusal))
}

/// Creates a ring in the first mode that the kernel accepts, and tests it.
///
/// # Errors
///
/// `PermissionDenied`, `ENOSYS`, `ENOMEM` or any other error with which the kernel refuses the last
/// mode tried, with a remedy in the message.
pub(super) fn ring(modes: &[Mode]) -> io::Result<(IoUring, Mode)> {
    ring_when_there_is_memory(modes).map_err(|errno| explain(errno.into()))
}

fn ring_when_there_is_memory(modes: &[Mode]) -> Result<(IoUring, Mode), Errno> {
    let mut tries = 1;
    loop {
        match any_ring(modes) {
            Err(Errno::NOMEM) if tries < MEMORY_TRIES => {
                tries += 1;
                thread::sleep(MEMORY_PAUSE);
            }
            made => return made,
        }
    }
}

fn any_ring(modes: &[Mode]) -> Result<(IoUring, Mode), Errno> {
    let mut refused = Errno::NOSYS;
    for (submissions, completions) in SIZES {
        for &mode in modes {
            let ring = build(mode, submissions, completions).and_then(try_out);
            match ring.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOSYS)) {
                Ok(ring) => return Ok((ring, mode)),
                Err(errno) => refused = errno,
            }
            match refused {
                Errno::INVAL => {}
                // Locked memory is short: only a smaller ring can help.
                Errno::NOMEM => break,
                _ => return Err(refused),
            }
        }
    }
    Err(refused)
}

/// Completes a request as a test: a ring that was created may still be forbidden to use.
fn try_out(mut ring: IoUring) -> io::Result<IoUring> {
    if !ring.params().is_feature_ext_arg() {
        return Err(Errno::NOSYS.into());
    }
    complete(&mut ring, &opcode::Nop::new().build())?;
    Ok(ring)
}

/// Completes a request that does nothing, on a ring that has no other, and returns its result.
///
/// # Errors
///
/// Any error that `io_uring_enter(2)` reports.
pub(super) fn complete(ring: &mut IoUring, request: &squeue::Entry) -> io::Result<i32> {
    assert_eq!(request.get_opcode(), u32::from(opcode::Nop::CODE));
    #[allow(unsafe_code, reason = "entries are pushed through an unsafe call")]
    // SAFETY: a request that does nothing points to no memory.
    let pushed = unsafe { ring.submission().push(request) };
    assert!(pushed.is_ok(), "a new ring has room");
    loop {
        match ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            submitted => drop(submitted?),
        }
        if let Some(completion) = ring.completion().next() {
            return Ok(completion.result());
        }
    }
}

fn build(mode: Mode, submissions: u32, completions: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork().setup_cqsize(completions);
    match mode {
        Mode::Polled { idle_ms } => builder.setup_sqpoll(idle_ms),
        Mode::Deferred => builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all(),
        Mode::Cooperative => builder
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all(),
        Mode::Interrupting => &mut builder,
    };
    build_with(&builder, submissions)
}

/// Builds a ring that does not have the number of a standard stream. A duplicate could not take its
/// place, as the crate owns the descriptor: another ring is built while the first keeps the number.
pub(super) fn build_with(builder: &Builder, submissions: u32) -> io::Result<IoUring> {
    let ring = builder.build(submissions)?;
    if standard::has_standard_number(&ring) {
        return build_with(builder, submissions);
    }
    Ok(ring)
}

/// Returns `true` if an error means that no ring is permitted, and not that a resource is short
/// which every driver needs.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref());
    refused.is_some_and(|Refused { error, .. }| {
        !matches!(
            Errno::from_io_error(error),
            Some(Errno::MFILE | Errno::NFILE)
        )
    })
}

/// Returns `true` if the ring has the sizes of the first choice.
pub(super) fn is_full_size(ring: &IoUring) -> bool {
    ring.params().cq_entries() == COMPLETIONS
}

/// Returns the locked memory of a ring of the first and of the last choice, where the kernel
/// accounts for it.
pub(super) fn locked_bytes() -> [usize; 2] {
    let pages = |bytes: usize| bytes.next_multiple_of(rustix::param::page_size());
    SIZES.map(|(submissions, completions)| {
        let (submissions, completions) = (submissions as usize, completions as usize);
        let completions = completions * size_of::<cqueue::Entry>();
        let indices = submissions * size_of::<u32>();
        pages(HEADER_BYTES + completions + indices)
            + pages(submissions * size_of::<squeue::Entry>())
    })
}

/// Adds a remedy to the kernel's error.
fn explain(error: io::Error) -> io::Error {
    let remedy = match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "io_uring is forbidden here: allow it by `sysctl kernel.io_uring_disabled=0`, or in a \
             container by a seccomp profile that permits io_uring_setup, io_uring_enter and \
             io_uring_register"
        }
        Some(Errno::NOSYS) => {
            "this kernel has no usable io_uring, or a seccomp profile hides it: Linux 5.11 or \
             newer is needed"
        }
        Some(Errno::NOMEM) => {
            "not enough memory may be locked for a ring: raise it by `ulimit -l unlimited`, or run \
             with fewer workers"
        }
        Some(Errno::MFILE | Errno::NFILE) => {
            "too many files are open for another ring: raise the limit by `ulimit -n`"
        }
        _ => "the kernel refused a ring",
    };
    io::Error::new(error.kind(), Refused { error, remedy })
}

/// An error of the kernel, kept as the source, with a remedy.
#[derive(Debug)]
struct Refused {
    error: io::Error,
    remedy: &'static str,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "io_uring_setup: {}: {}", self.error, self.remedy)
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a kernel that does not support a mode fails in the way that makes the next mode
    /// be tried.
    #[test]
    fn each_mode_can_be_built_or_is_unknown() {
        let modes = [
            Mode::polled(Duration::ZERO),
            Mode::Deferred,
            Mode::Cooperative,
            Mode::Interrupting,
        ];
        let built = modes.map(|mode| build(mode, SUBMISSIONS_MIN, COMPLETIONS_MIN).map(drop));
        let errnos = built.map(|built| built.err().and_then(|error| error.raw_os_error()));
        let (unknown, refused) = (Some(Errno::INVAL.raw_os_error()), errnos[3]);
        let known = |errno: &Option<i32>| *errno == refused || *errno == unknown;
        assert!(errnos.iter().all(known), "{errnos:?}");
        assert_ne!(refused, unknown, "the simplest is known everywhere");
        assert_eq!(refused.is_none(), ring(OWN).is_ok());
    }

    #[test]
    fn a_refusal_has_a_remedy_and_keeps_the_errno() {
        let error = explain(Errno::PERM.into());
        assert!(error.to_string().contains("io_uring_disabled=0"), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let source = error.get_ref().unwrap().source().unwrap();
        let errno = source.downcast_ref::<io::Error>().unwrap().raw_os_error();
        assert_eq!(errno, Some(Errno::PERM.raw_os_error()));
    }
}
