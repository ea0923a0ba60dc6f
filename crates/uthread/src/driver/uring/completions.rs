//! Handing out the completions of a ring.

use std::time::Instant;

use io_uring::cqueue;

use super::user_data::{Target, UserData};
use super::{InFlight, Uring};
use crate::driver::{Completion, Token};

impl Uring {
    /// Hands out at most `max` completions. Returns `true` if a wake-up was among them.
    pub(super) fn hand_out_completions(
        &mut self,
        mut max: usize,
        complete: &mut dyn FnMut(Token, Completion),
    ) -> bool {
        let in_flight = &mut self.in_flight;
        let mut hand_out = |token, result| {
            in_flight.hand_out(token, Completion::last(result), complete);
        };
        if let Some(devices) = &mut self.devices {
            max -= devices.hand_out(max, &mut hand_out);
        }
        if let Some(connections) = &mut self.connections {
            max -= connections.hand_out(max, &mut hand_out);
        }
        let mut woken = false;
        for entry in self.submissions.ring.completion().take(max) {
            match UserData::decode(entry.user_data()) {
                UserData::Entry(target) => in_flight.complete(target, &entry, complete),
                UserData::Cancel(target) => in_flight.answer_cancel(target, entry.result()),
                UserData::Wake => woken = true,
                #[cfg(uthread_urgent)]
                UserData::UrgentTest => {
                    if let Some(urgent) = &mut in_flight.urgent {
                        urgent.on_test(entry.result());
                    }
                }
            }
        }
        self.woken |= woken;
        woken
    }

    /// Returns `true` if there is something to hand out.
    #[cfg(test)]
    pub(super) fn has_results(&mut self) -> bool {
        let devices = self.devices.as_mut();
        devices.is_some_and(super::Devices::has_results)
            || self.ask(|connections| connections.has_results())
            || self.has_completions()
    }
}

impl InFlight {
    /// Hands out the completion of an entry, if an operation waits for it.
    fn complete(
        &mut self,
        target: Target,
        entry: &cqueue::Entry,
        complete: &mut dyn FnMut(Token, Completion),
    ) {
        let (result, flags) = (entry.result(), entry.flags());
        match target {
            Target::Operation(token) => {
                let completion = Completion {
                    result,
                    more: cqueue::more(flags),
                    buffer: cqueue::buffer_select(flags),
                };
                #[cfg(uthread_urgent)]
                let Some(completion) = self.unless_refused(token, completion) else {
                    return;
                };
                self.hand_out(token, completion, complete);
            }
            Target::Raw {
                operation,
                entry: index,
            } => {
                let cancellations = &mut self.cancellations;
                let completed =
                    (self.raws).on_completion(operation, index, result, flags, cancellations);
                if let Some((token, result)) = completed {
                    self.hand_out(token, Completion::last(result), complete);
                }
            }
        }
    }

    /// Handles the completion of a request to cancel an entry. The entry's own end is a separate
    /// completion.
    fn answer_cancel(&mut self, target: Target, result: i32) {
        let cancellations = &mut self.cancellations;
        match target {
            Target::Operation(token) => cancellations.on_answer(token, result, Instant::now()),
            Target::Raw { operation, entry } => {
                (self.raws).on_cancel_answer(operation, entry, result, cancellations);
            }
        }
    }

    /// Hands out a completion, whatever its source. This is the only place to do so, as requests to
    /// cancel an operation are repeated until its last completion has passed here.
    fn hand_out(
        &mut self,
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
