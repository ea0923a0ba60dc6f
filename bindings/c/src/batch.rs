//! Requests that are submitted together: chains of linked ones, which run concurrently.
//!
//! On a ring, one fiber starts all chains, in their order. Without one, each chain is a fiber that
//! performs its requests one after another, and cancels the rest where the kernel would. Either
//! way, the completions of a chain do not wait for another chain.

use std::{iter, mem};

use uthread::ring::io_uring::opcode;
use uthread::ring::io_uring::squeue::{Entry, Flags};
use uthread::ring::{self, Requests};
use uthread::thread::is_cancelled;

use crate::completion::{Completion, errno};
use crate::entry::io_uring_sqe;
use crate::fallback;

/// Maximum number of requests: what the library submits together at most, as one chain.
const REQUESTS_MAX: usize = 32;

/// Requests that are submitted together, with their completions.
pub(crate) struct Batch(Vec<Part>);

struct Part {
    entry: io_uring_sqe,
    completion: Completion,
}

impl Batch {
    /// Takes requests over.
    ///
    /// # Safety
    ///
    /// The contract of [`ring::submit_all`], for each entry until its completion is called.
    #[allow(unsafe_code, reason = "a contract that the compiler cannot check")]
    pub(crate) unsafe fn new(requests: impl Iterator<Item = (io_uring_sqe, Completion)>) -> Batch {
        let part = |(entry, completion)| Part { entry, completion };
        Batch(requests.map(part).collect())
    }

    /// Performs the requests, until the end of all.
    pub(crate) fn perform(self) {
        if !self.is_permitted() {
            for part in self.0 {
                part.completion.end(-libc::EINVAL, 0);
            }
        } else if ring::supported(opcode::Nop::CODE) {
            let chains = self.chains();
            ring::requests(|requests| chains.into_iter().for_each(|chain| start(requests, chain)));
        } else {
            let chains = self.chains();
            uthread::scope(|scope| {
                for chain in chains {
                    scope.spawn(|| perform_in_turn(chain));
                }
            });
        }
    }

    fn is_permitted(&self) -> bool {
        let ends = self.0.last().is_none_or(|part| !part.is_linked());
        ends && self.0.len() <= REQUESTS_MAX
    }

    /// Splits the requests after each that has no link to the next one.
    fn chains(self) -> Vec<Vec<Part>> {
        let (mut chains, mut chain) = (Vec::new(), Vec::new());
        for part in self.0 {
            let is_linked = part.is_linked();
            chain.push(part);
            if !is_linked {
                chains.push(mem::take(&mut chain));
            }
        }
        chains
    }
}

impl Part {
    fn is_linked(&self) -> bool {
        self.entry.flags & (Flags::IO_LINK | Flags::IO_HARDLINK).bits() != 0
    }
}

/// Starts a chain on the ring. Its completions are called in their order when it has ended.
#[allow(unsafe_code, reason = "the kernel gets pointers")]
fn start<'scope>(requests: &'scope Requests<'scope, '_>, chain: Vec<Part>) {
    let encoded = chain.iter().map(|part| {
        // SAFETY: both are the kernel's `struct io_uring_sqe`, of which each bit pattern is valid.
        unsafe { mem::transmute::<io_uring_sqe, Entry>(part.entry) }
    });
    // SAFETY: the contract of `Batch::new`.
    match unsafe { requests.submit_all(encoded) } {
        Ok(started) => started.then(|results| {
            for (part, result) in iter::zip(chain, results) {
                match result {
                    Ok(end) => part.completion.end(end.result.cast_signed(), end.flags),
                    Err(error) => part.completion.end(errno(&error), 0),
                }
            }
        }),
        Err(error) => {
            for part in chain {
                part.completion.end(errno(&error), 0);
            }
        }
    }
}

/// Performs a chain by system calls in the calling fiber, and calls each completion at the end.
#[allow(unsafe_code, reason = "system calls with the pointers of the requests")]
fn perform_in_turn(chain: Vec<Part>) {
    // Without its limit, the request before it might never end.
    let is_limited = (chain.iter()).any(|part| part.entry.opcode == opcode::LinkTimeout::CODE);
    let mut broken = is_limited.then_some(-libc::EOPNOTSUPP);
    let outcome = |part: &Part| {
        if is_cancelled() {
            broken.get_or_insert(-libc::ECANCELED);
        }
        if let Some(result) = broken {
            return result;
        }
        // SAFETY: the contract of `Batch::new`.
        let result = unsafe { fallback::perform(&part.entry) };
        let is_hard = part.entry.flags & Flags::IO_HARDLINK.bits() != 0;
        if !is_hard && result < least_result(&part.entry) {
            broken = Some(-libc::ECANCELED);
        }
        result
    };
    let results = Vec::from_iter(chain.iter().map(outcome));
    for (part, result) in iter::zip(chain, results) {
        part.completion.end(result, 0);
    }
}

/// Returns the result below which a request has failed for those that are linked to it.
fn least_result(entry: &io_uring_sqe) -> i32 {
    let all = match entry.opcode {
        opcode::Read::CODE | opcode::Write::CODE => true,
        opcode::Recv::CODE | opcode::Send::CODE => entry.op_flags & libc::MSG_WAITALL as u32 != 0,
        _ => false,
    };
    if all { entry.len as i32 } else { 0 }
}
