//! A worker beyond the number of active ones. It takes no fibers, gives away those that it has, and
//! sleeps until it is active again, or until an operation or a timer ends that was started here.
//!
//! ```text
//!   new fibers       -> injector
//!   started fibers   -> the active workers in turn, as they become ready
//!                       some stay, and run here: lean ones, those that panic, and those without
//!                       memory for thread-local storage of their own
//! ```
//!
//! What a fiber has left at its former worker is described in the README of `sched`.

use std::ops::ControlFlow;

use super::alerts::Alerts;
use super::{Tick, Worker};
use crate::sched::shared::SharePolicy;

impl Worker {
    /// Runs one iteration of the loop of an inactive worker, but for the fibers that have to run
    /// here. Returns the outcome if there are none.
    pub(super) fn tick_inactive(&self) -> ControlFlow<Tick> {
        // One that was woken for the work of others leaves it to them.
        self.sleep.end_search(&self.queues);
        self.poll_sources();
        self.pass_new_on();
        self.pass_started_on();
        if self.queues.has_work() {
            self.io.flush(&self.queues);
            return ControlFlow::Continue(());
        }
        if self.queues.shared.stacks.release_some() {
            return ControlFlow::Break(Tick::Again);
        }
        let timeout = self
            .sleep
            .announce_rest(&self.queues, &self.io, &self.ending);
        ControlFlow::Break(Tick::Sleep(timeout))
    }

    /// Leaves the new fibers of this worker to the active ones.
    fn pass_new_on(&self) {
        let queues = &self.queues;
        if queues.new.is_empty() {
            return;
        }
        while let Some(fiber) = queues.new.pop_oldest() {
            queues.shared.push_arrival(fiber);
        }
        queues.wake_one();
    }

    /// Gives the ready fibers that may move to the active workers in turn.
    fn pass_started_on(&self) {
        let queues = &self.queues;
        let never = queues.shared.sharing == SharePolicy::Never;
        if never || queues.ready.is_empty() || queues.alerts.has(Alerts::PANICS) {
            return;
        }
        self.begin_giving();
        let mut staying = Vec::new();
        while let Some(fiber) = queues.ready.pop_any() {
            if !self.is_movable(fiber) {
                staying.push(fiber);
            } else if !self.send(fiber, queues.shared.next_in_turn()) {
                // The runtime ends, and with it the time of inactive workers.
                break;
            }
        }
        for fiber in staying {
            queues.make_ready(fiber);
        }
    }
}
