//! Handing out the completions of a ring.

use std::sync::atomic::Ordering;
use std::time::Instant;

use io_uring::{CompletionQueue, cqueue};

use super::devices::Devices;
use super::user_data::{Target, UserData};
use super::{Ring, Uring};
use crate::driver::{Completion, Token};

impl Uring {
    #[allow(unsafe_code, reason = "one of two queues that share their ring")]
    pub(super) fn queue(&mut self) -> (CompletionQueue<'_>, &Ring) {
        // SAFETY: there is one `Uring` per ring, borrowed mutably here, and nothing else takes
        // completions.
        let queue = unsafe { self.ring.io.completion_shared() };
        (queue, &self.ring)
    }

    #[allow(unsafe_code, reason = "one of two queues that share their ring")]
    fn queue_of_devices(&mut self) -> Option<(CompletionQueue<'_>, &Devices, &Ring)> {
        let devices = self.ring.devices.as_ref()?;
        // SAFETY: as for `queue`: nothing else takes completions of the ring for devices.
        let queue = unsafe { devices.completions() };
        Some((queue, devices, &self.ring))
    }

    /// Hands out the completions of devices, and returns their number.
    fn reap_devices(&mut self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> usize {
        let Some((queue, devices, ring)) = self.queue_of_devices() else {
            return 0;
        };
        let mut count = 0;
        for entry in queue.take(max) {
            count += 1;
            // The ring of devices has nothing but operations.
            let token = Token(entry.user_data());
            if devices.complete(token, entry.result()) {
                ring.hand_out(token, Completion::last(entry.result()), complete);
            }
        }
        count
    }
}

#[cfg(test)]
impl Uring {
    /// Returns `true` if there is something to hand out.
    pub(super) fn has_results(&mut self) -> bool {
        let devices_have_some = self
            .queue_of_devices()
            .is_some_and(|(queue, ..)| !queue.is_empty());
        devices_have_some
            || self.ask(super::connections::Connections::has_results)
            || self.has_completions()
    }
}

impl Uring {
    /// Hands out at most `max` completions. Returns `true` if a wake-up was among them.
    pub(super) fn hand_out_completions(
        &mut self,
        max: usize,
        complete: &mut dyn FnMut(Token, Completion),
    ) -> bool {
        let mut max = max - self.reap_devices(max, complete);
        max -= self.ring.reap_connections(max, complete);
        let mut woken = false;
        let (queue, ring) = self.queue();
        for entry in queue.take(max) {
            match UserData::decode(entry.user_data()) {
                UserData::Entry(target) => ring.complete(target, &entry, complete),
                UserData::Cancel(target) => ring.answer_cancel(target, entry.result()),
                UserData::Wake => woken = true,
                #[cfg(uthread_urgent)]
                UserData::UrgentTest => {
                    if let Some(urgent) = &ring.urgent {
                        urgent.on_test(entry.result());
                    }
                }
            }
        }
        if woken {
            self.ring.woken.store(true, Ordering::Relaxed);
        }
        woken
    }
}

impl Ring {
    /// Hands out at most `max` results of receives from long-lived connections, and returns their
    /// number.
    fn reap_connections(&self, max: usize, complete: &mut dyn FnMut(Token, Completion)) -> usize {
        self.connections.as_ref().map_or(0, |connections| {
            connections.hand_out(max, |token, result| {
                self.hand_out(token, Completion::last(result), complete);
            })
        })
    }

    /// Hands out the completion of an entry, if an operation waits for it.
    fn complete(
        &self,
        target: Target,
        entry: &cqueue::Entry,
        complete: &mut dyn FnMut(Token, Completion),
    ) {
        let (result, flags) = (entry.result(), entry.flags());
        let completed = match target {
            Target::Operation(token) => {
                let completion = Completion {
                    result,
                    more: cqueue::more(flags),
                    buffer: cqueue::buffer_select(flags),
                };
                #[cfg(uthread_urgent)]
                if let Some(urgent) = &self.urgent {
                    return self.hand_out_unless_refused(urgent, token, completion, complete);
                }
                return self.hand_out(token, completion, complete);
            }
            Target::Raw {
                operation,
                entry: index,
            } => (self.raws).on_completion(operation, index, result, flags, &self.cancellations),
        };
        if let Some((token, result)) = completed {
            self.hand_out(token, Completion::last(result), complete);
        }
    }

    /// Handles the completion of a request to cancel an entry. The entry's own end is a separate
    /// completion.
    fn answer_cancel(&self, target: Target, result: i32) {
        let cancellations = &self.cancellations;
        match target {
            Target::Operation(token) => cancellations.on_answer(token, result, Instant::now()),
            Target::Raw { operation, entry } => {
                (self.raws).on_cancel_answer(operation, entry, result, cancellations);
            }
        }
    }

    /// Hands out a completion, whatever its source. This is the only place to do so, as requests to
    /// cancel an operation are repeated until its last completion has passed here.
    pub(super) fn hand_out(
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
