//! Chooses how many disk operations gather before they are submitted.
//!
//! If operations waited for the end of a round, the disk would be idle while fibers run, and then
//! the fibers would wait for the disk, as all their reads would start and end together. So direct
//! I/O is submitted in batches in the middle of a round: the first operation alone, then twice as
//! many each time, as the disk is busy by then.

/// Maximum size of a batch. At this size, a submission costs each operation little, and a disk
/// rarely finishes half of them before the next batch.
const BATCH_SIZE_MAX: u32 = 16;

/// Sizes the batches of one ring.
#[derive(Debug)]
pub(super) struct BatchSizer {
    gathered: u32,
    batch_size: u32,
}

impl BatchSizer {
    pub(super) fn new() -> BatchSizer {
        BatchSizer {
            gathered: 0,
            batch_size: 1,
        }
    }

    /// Counts an operation for a disk.
    pub(super) fn count(&mut self) {
        self.gathered += 1;
    }

    /// Returns `true` if the batch is full, so that a flush is due.
    pub(super) fn is_full(&self) -> bool {
        self.gathered >= self.batch_size
    }

    /// Starts the next batch after a flush, of twice the size if the last one was full.
    pub(super) fn begin_next(&mut self) {
        if self.is_full() {
            self.batch_size = (2 * self.batch_size).min(BATCH_SIZE_MAX);
        }
        self.gathered = 0;
    }

    /// Starts with a batch of one again, before a sleep in which the disk may become idle.
    pub(super) fn reset(&mut self) {
        *self = BatchSizer::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills and flushes `count` batches, and returns their sizes.
    fn sizes(sizer: &mut BatchSizer, count: usize) -> Vec<u32> {
        let size = |_| {
            let mut size = 0;
            while !sizer.is_full() {
                sizer.count();
                size += 1;
            }
            sizer.begin_next();
            size
        };
        (0..count).map(size).collect()
    }

    #[test]
    fn batches_grow_up_to_a_bound_and_restart_at_one_after_a_sleep() {
        let mut sizer = BatchSizer::new();
        assert!(!sizer.is_full(), "nothing has gathered");
        assert_eq!(sizes(&mut sizer, 6), [1, 2, 4, 8, 16, 16]);
        sizer.reset();
        assert_eq!(sizes(&mut sizer, 2), [1, 2]);
    }

    #[test]
    fn a_flush_before_the_batch_is_full_does_not_grow_the_next() {
        let mut sizer = BatchSizer::new();
        assert_eq!(sizes(&mut sizer, 2), [1, 2]);
        sizer.count();
        sizer.begin_next();
        assert_eq!(sizes(&mut sizer, 1), [4]);
    }
}
