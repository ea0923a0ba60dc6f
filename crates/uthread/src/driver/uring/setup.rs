//! Making a ring: the best set-up the kernel takes, found by trying, best first.

use std::time::Duration;
use std::{fmt, io, thread};

use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;

use super::Options;

/// Submission entries: one scheduler round submits at most about that many; a full queue only
/// costs an early flush.
const SUBMISSIONS: u32 = 256;

/// Completion entries: room for a burst from thousands of operations in flight before the kernel
/// falls back to its slow overflow list.
const COMPLETIONS: u32 = 4096;

/// The sizes of the last resort where locked memory is short.
const SUBMISSIONS_MIN: u32 = 32;
const COMPLETIONS_MIN: u32 = 128;

/// First choice and last: 84 KiB and 8 KiB of locked memory.
const SIZES: [(u32, u32); 2] = [
    (SUBMISSIONS, COMPLETIONS),
    (SUBMISSIONS_MIN, COMPLETIONS_MIN),
];

/// The kernel's `struct io_rings`, which lies before the completions.
const HEADER_BYTES: usize = 320;

/// How submissions reach the kernel and completions the worker: what is asked for, then what is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A thread of the kernel takes submissions, and finishes requests, on its own; it sleeps when it has had nothing to
    /// do for so long. It is the ring's own: one that several share takes eight entries of each in turn, and tears chains.
    Polled { idle_ms: u32 },
    /// The kernel finishes requests only when the worker asks: no interruption, full batches.
    Deferred,
    /// The kernel finishes requests at the worker's next entry for whatever reason.
    Cooperative,
    /// The kernel interrupts the worker for each.
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

/// The modes of a ring whose completions only the worker takes.
pub(super) const OWN: &[Mode] = &[Mode::Deferred, Mode::Cooperative, Mode::Interrupting];
/// The modes of one whose completions others take while the worker computes: it has to be interrupted.
pub(super) const SHARED: &[Mode] = &[Mode::Interrupting];

/// Locked memory comes back a little after the ring that had it was closed: how often, and after what
/// pauses, a ring is tried again for which there is none.
const MEMORY_TRIES: u32 = 10;
const MEMORY_PAUSE: Duration = Duration::from_millis(10);

impl Mode {
    pub(super) fn polled(idle: Duration) -> Mode {
        // None would be the kernel's own choice, which is a second.
        let idle_ms = u32::try_from(idle.as_millis()).unwrap_or(u32::MAX).max(1);
        Mode::Polled { idle_ms }
    }
}

/// Makes a ring as it is asked for. Also why the kernel does not poll, where it was to: then it is one without that.
///
/// # Errors
///
/// As [`ring`].
pub(super) fn ring_for(options: Options) -> io::Result<(IoUring, Mode, Option<io::Error>)> {
    let mut refusal = None;
    if let Some(idle) = options.kernel_polling {
        match ring_when_there_is_memory(&[Mode::polled(idle)]) {
            Ok((ring, mode)) => return Ok((ring, mode, None)),
            Err(errno) => refusal = Some(errno.into()),
        }
    }
    let (ring, mode) = ring(if options.shared { SHARED } else { OWN })?;
    Ok((ring, mode, refusal))
}

/// Makes a ring in the first of the modes that the kernel takes, and tries it out.
///
/// # Errors
///
/// The kernel's, with the remedy in the message.
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

/// Sees a request through: that a ring can be made does not say that it may be used.
fn try_out(mut ring: IoUring) -> io::Result<IoUring> {
    if !ring.params().is_feature_ext_arg() {
        return Err(Errno::NOSYS.into());
    }
    let request = opcode::Nop::new().build();
    #[allow(unsafe_code, reason = "entries are pushed through an unsafe call")]
    // SAFETY: a request that does nothing points to no memory.
    let pushed = unsafe { ring.submission().push(&request) };
    assert!(pushed.is_ok(), "a new ring has room");
    ring.submit_and_wait(1)?;
    ring.completion().next();
    Ok(ring)
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
    builder.build(submissions)
}

/// Whether an error says that there can be no ring here, rather than that something else is short which
/// every driver needs.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    let refused = error.get_ref().and_then(|inner| inner.downcast_ref());
    refused.is_some_and(|Refused { error, .. }| {
        !matches!(
            Errno::from_io_error(error),
            Some(Errno::MFILE | Errno::NFILE)
        )
    })
}

/// Whether there was enough memory for the first choice.
pub(super) fn is_full_size(ring: &IoUring) -> bool {
    ring.params().cq_entries() == COMPLETIONS
}

/// The locked memory of a ring, first choice and last, where the kernel counts it.
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

/// Adds what to do to the kernel's refusal.
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

/// The kernel's error, kept as the source, with the remedy.
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

    /// The kernels that do not know a mode have to say so in the way by which the next one is tried.
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
    fn a_refusal_says_what_to_do_and_keeps_the_errno() {
        let error = explain(Errno::PERM.into());
        assert!(error.to_string().contains("io_uring_disabled=0"), "{error}");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let source = error.get_ref().unwrap().source().unwrap();
        let errno = source.downcast_ref::<io::Error>().unwrap().raw_os_error();
        assert_eq!(errno, Some(Errno::PERM.raw_os_error()));
    }
}
