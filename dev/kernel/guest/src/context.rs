//! State of the tests of the order: the trace, numbers for the batches, and the settings of the
//! kernel.

use std::fs;
use std::io;
use std::path::Path;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::batch;
use crate::order::Item;
use crate::ring::{Kind, Ring};
use crate::trace::Trace;

const SETTINGS: &str = "/proc/sys/kernel";

/// Setting of who may use the flag.
pub(crate) const PERMISSION: &str = "io_uring_urgent";

/// Setting of how many urgent entries overtake a normal one.
pub(crate) const BURST: &str = "io_uring_urgent_burst";

/// User data of the first entry of a batch is a multiple of this.
const BATCH_STRIDE: u64 = 1 << 16;

pub(crate) struct Context {
    pub(crate) has_flag: bool,
    trace: Trace,
    batches: u64,
}

impl Context {
    pub(crate) fn new(has_flag: bool) -> io::Result<Context> {
        Ok(Context {
            has_flag,
            trace: Trace::new()?,
            batches: 0,
        })
    }

    /// Returns a ring that orders its batches, if the kernel can.
    pub(crate) fn ring(&self, kind: Kind) -> io::Result<Ring> {
        if self.has_flag {
            Ring::with_flag(kind)
        } else {
            Ring::new(kind)
        }
    }

    /// Sets one of the settings, if the kernel has it.
    pub(crate) fn set(&self, setting: &str, value: usize) -> io::Result<()> {
        Context::set_if(self.has_flag, setting, value)
    }

    /// Sets one of the settings, which kernels with the flag have.
    pub(crate) fn set_if(has_flag: bool, setting: &str, value: usize) -> io::Result<()> {
        if has_flag {
            fs::write(Path::new(SETTINGS).join(setting), value.to_string())
        } else {
            Ok(())
        }
    }

    /// Returns the user data of the first entry of the next batch.
    pub(crate) fn next_batch(&mut self) -> u64 {
        self.batches += 1;
        self.batches * BATCH_STRIDE
    }

    /// Submits a batch on a ring without requests in flight, and returns its entries by their
    /// indices, first in the order of submission and then in that of completion.
    pub(crate) fn run(
        &mut self,
        ring: &mut Ring,
        items: &[Item],
    ) -> io::Result<(Vec<usize>, Vec<usize>)> {
        let first = self.next_batch();
        let completions = ring.run(&batch::entries(items, first, self.has_flag))?;
        let failed = completions.iter().find(|(_, result)| *result != 0);
        if let Some((user_data, result)) = failed {
            let text = format!("entry {} completed with {result}", user_data - first);
            return Err(io::Error::other(text));
        }
        if items.iter().any(|item| item.drain) {
            self.settle(ring)?;
        }
        let completed = completions.iter().map(|(user_data, _)| *user_data);
        let completed = completed.map(|user_data| (user_data - first) as usize);
        Ok((self.submitted(first)?, completed.collect()))
    }

    /// Returns the entries of the batch by their indices, in the order of submission.
    pub(crate) fn submitted(&mut self, first: u64) -> io::Result<Vec<usize>> {
        let submitted = self.trace.submitted()?.into_iter();
        let of_batch =
            submitted.filter(|user_data| (first..first + BATCH_STRIDE).contains(user_data));
        Ok(of_batch
            .map(|user_data| (user_data - first) as usize)
            .collect())
    }

    /// Returns the names of the operations since the last call, in the order of submission.
    pub(crate) fn operations(&mut self) -> io::Result<Vec<String>> {
        self.trace.operations()
    }

    /// Ends the effect of a drain on later batches: two requests, as a drain in a chain affects the
    /// one behind it too.
    fn settle(&mut self, ring: &mut Ring) -> io::Result<()> {
        for _ in 0..2 {
            let first = self.next_batch();
            ring.run(&[batch::nop(first)])?;
        }
        Ok(())
    }
}

/// Runs a function without the capability that permits the flag.
pub(crate) fn without_capability<T>(run: impl FnOnce() -> T) -> io::Result<T> {
    let all = capabilities(None)?;
    let mut fewer = all;
    fewer.effective.remove(CapabilitySet::SYS_NICE);
    set_capabilities(None, fewer)?;
    let result = run();
    set_capabilities(None, all)?;
    Ok(result)
}
