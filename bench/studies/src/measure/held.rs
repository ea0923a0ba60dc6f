//! What the connections of a server hold of memory, its own and the kernel's.

use anyhow::Result;

use super::kernel::KernelMemory;
use super::proc;

/// With fewer connections, what a server grows by is its own warming up.
const CONNECTIONS_TO_SHARE_RSS: u32 = 100;
/// The same of the kernel, which also keeps what the server before has left.
const CONNECTIONS_TO_SHARE_KERNEL: u32 = 1000;

/// The memory that a server holds, and the kernel for it.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    rss_bytes: u64,
    kernel: KernelMemory,
}

impl Held {
    pub(crate) fn read(pid: u32) -> Result<Held> {
        Ok(Held {
            rss_bytes: proc::tree_memory(pid)?.rss_bytes,
            kernel: KernelMemory::read()?,
        })
    }

    /// By how many bytes for each connection it has grown: resident; of the kernel in all, in stacks, in page tables, in
    /// slab; no longer available. `NAN` where there are too few connections to tell.
    pub(crate) fn since(&self, before: &Held, connections: u32) -> [f64; 6] {
        let (now, then) = (&self.kernel, &before.kernel);
        let share = |now: u64, then: u64, connections_min: u32| match connections {
            few if few < connections_min => f64::NAN,
            enough => (now as f64 - then as f64) / f64::from(enough),
        };
        let kernel = |now, then| share(now, then, CONNECTIONS_TO_SHARE_KERNEL);
        [
            share(self.rss_bytes, before.rss_bytes, CONNECTIONS_TO_SHARE_RSS),
            kernel(now.held(), then.held()),
            kernel(now.stacks, then.stacks),
            kernel(now.page_tables, then.page_tables),
            kernel(now.slab, then.slab),
            kernel(then.available, now.available),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_out_over_many_connections() {
        let held = |bytes| Held {
            rss_bytes: bytes,
            kernel: KernelMemory {
                stacks: 2 * bytes,
                page_tables: 3 * bytes,
                slab: 4 * bytes,
                available: 1_000_000 - 5 * bytes,
            },
        };
        let grown = held(2000).since(&held(1000), 1000);
        assert_eq!(grown, [1.0, 9.0, 2.0, 3.0, 4.0, 5.0]);
        let fewer = held(2000).since(&held(1000), 500);
        assert_eq!(fewer[0], 2.0);
        assert!(fewer[1..].iter().all(|bytes| bytes.is_nan()));
        assert!(held(2000).since(&held(1000), 1)[0].is_nan());
    }
}
