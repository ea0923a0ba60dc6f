//! Items that gather until all of them are taken together, in the order of their priorities.

use super::Priority;

/// Queues of items by priority; within one, items keep their order.
pub(crate) struct ByPriority<T> {
    /// In the order of [`Priority::ALL`].
    queues: [Vec<T>; 3],
    /// Number of items.
    count: usize,
}

impl<T> Default for ByPriority<T> {
    fn default() -> ByPriority<T> {
        ByPriority {
            queues: Default::default(),
            count: 0,
        }
    }
}

impl<T> ByPriority<T> {
    #[inline]
    pub(crate) fn push(&mut self, priority: Priority, item: T) {
        self.queues[priority as usize].push(item);
        self.count += 1;
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Removes the first item that is chosen.
    pub(crate) fn remove(&mut self, chosen: impl Fn(&T) -> bool) -> Option<T> {
        let removed = self.queues.iter_mut().find_map(|items| {
            let index = items.iter().position(&chosen)?;
            Some(items.remove(index))
        });
        self.count -= usize::from(removed.is_some());
        removed
    }

    /// Takes all items in their order, each with its priority.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (Priority, T)> {
        self.count = 0;
        let queues = Priority::ALL.into_iter().zip(&mut self.queues);
        queues.flat_map(|(priority, items)| items.drain(..).map(move |item| (priority, item)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_taken_by_priority_and_then_in_their_order() {
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut gathered = ByPriority::default();
            let mut expected = Vec::new();
            for item in 0..random.u32(..40) {
                let priority = Priority::ALL[random.usize(..3)];
                gathered.push(priority, item);
                expected.push((priority, item));
                if random.u32(..8) == 0 {
                    let (_, removed) = expected.remove(random.usize(..expected.len()));
                    assert_eq!(gathered.remove(|item| *item == removed), Some(removed));
                    assert_eq!(gathered.remove(|item| *item == removed), None);
                }
            }
            // A stable sort is the oracle.
            expected.sort_by_key(|(priority, _)| *priority as usize);
            assert_eq!(gathered.len(), expected.len());
            assert!(gathered.drain().eq(expected));
            assert!(gathered.is_empty() && gathered.drain().next().is_none());
        }
    }
}
