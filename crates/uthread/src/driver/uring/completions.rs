//! The end of a ring at which completions come out.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use io_uring::{CompletionQueue, cqueue};

use super::cancellations;
use super::devices::Devices;
use super::{Ring, TOKEN_WAKE, polls, raw};
use crate::driver::{Completion, Completions, Token};

/// Of one ring. Where completions are shared, whoever has the reactor's lock uses it.
pub(crate) struct UringCompletions {
    pub(super) ring: Arc<Ring>,
}

impl UringCompletions {
    #[allow(unsafe_code, reason = "one of two queues that share their ring")]
    fn queue(&mut self) -> (CompletionQueue<'_>, &Ring) {
        // SAFETY: there is one `UringCompletions` to a ring, borrowed mutably here, and nobody else
        // takes completions.
        let queue = unsafe { self.ring.io.completion_shared() };
        (queue, &self.ring)
    }

    #[allow(unsafe_code, reason = "one of two queues that share their ring")]
    fn queue_of_devices(&mut self) -> Option<(CompletionQueue<'_>, &Devices, &Ring)> {
        let devices = self.ring.devices.as_ref()?;
        // SAFETY: as above.
        let queue = unsafe { devices.completions() };
        Some((queue, devices, &self.ring))
    }

    /// Hands out those of devices; how many there were.
    fn reap_devices(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> usize {
        let Some((queue, devices, ring)) = self.queue_of_devices() else {
            return 0;
        };
        let mut count = 0;
        for entry in queue.take(max) {
            count += 1;
            let token = Token(entry.user_data());
            if devices.complete(token, entry.result()) {
                ring.hand_out(token, Completion::last(entry.result()), complete);
            }
        }
        count
    }
}

impl Completions for UringCompletions {
    fn is_empty(&mut self) -> bool {
        let devices_have_none = self
            .queue_of_devices()
            .is_none_or(|(queue, ..)| queue.is_empty());
        devices_have_none && !self.ring.polls.are_done() && self.queue().0.is_empty()
    }

    fn reap(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> bool {
        let mut max = max - self.reap_devices(max, complete);
        for (token, result) in self.ring.polls.take_done(max) {
            self.ring
                .hand_out(token, Completion::last(result), complete);
            max -= 1;
        }
        let mut woken = false;
        let (queue, ring) = self.queue();
        for entry in queue.take(max) {
            match entry.user_data() {
                TOKEN_WAKE => woken = true,
                name => ring.complete(name, &entry, complete),
            }
        }
        if woken {
            self.ring.woken.store(true, Ordering::Relaxed);
        }
        woken
    }
}

impl Ring {
    /// Hands the completion of an entry out, if it is the one for which an operation waits.
    fn complete(
        &self,
        name: u64,
        entry: &cqueue::Entry,
        complete: &mut dyn FnMut(Token, Completion),
    ) {
        let Ring {
            raws,
            polls,
            cancellations,
            ..
        } = self;
        if polls::is_name(name) {
            if let Some((token, result)) = polls.on_completion(name, entry, cancellations) {
                self.hand_out(token, Completion::last(result), complete);
            }
        } else if raw::is_name(name) {
            let completed = raws.on_completion(name, entry.result(), entry.flags(), cancellations);
            if let Some((token, result)) = completed {
                self.hand_out(token, Completion::last(result), complete);
            }
        } else if cancellations::is_cancellation(name) {
            // The end of the operation is its own completion, whatever became of this.
            let target = Token(cancellations::target_of(name));
            cancellations.on_answer(target, entry.result(), Instant::now());
        } else {
            let completion = Completion {
                result: entry.result(),
                more: cqueue::more(entry.flags()),
                buffer: cqueue::buffer_select(entry.flags()),
            };
            self.hand_out(Token(name), completion, complete);
        }
    }

    /// Hands out a completion, whatever brought it: the only way, as requests to cancel an operation are repeated until
    /// its last one has gone through here.
    fn hand_out(
        &self,
        token: Token,
        completion: Completion,
        complete: &mut dyn FnMut(Token, Completion),
    ) {
        if !completion.more {
            self.cancellations.on_end(token);
        }
        complete(token, completion);
    }
}
