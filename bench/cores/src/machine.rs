//! Cores with a clock each, which make one access after another, in the order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::memory::{Kind, Line, Memory};

/// One thing that a core does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Access(Line, Kind),
    /// Time without an access to a line that others use, in nanoseconds.
    Work(u64),
    /// Ends the sleep of a core, or its next one.
    Wake(usize),
    /// Counts an operation of the workload.
    Done,
    /// Changes what a core has pinned, where the order in time decides.
    Epoch(Epoch),
}

/// A change of the epochs of the cores, or a look at one. The epoch of a core that has pinned none
/// is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Epoch {
    /// Pins the global epoch.
    Pin,
    Unpin,
    /// Skips this number of steps if the core with this index has pinned another epoch.
    Compare(usize, usize),
    /// Makes the successor of the pinned epoch the global one.
    Advance,
}

/// Decision of a core after the steps of its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Asks for another program.
    Go,
    /// Sleeps until it is woken, or until this time.
    Sleep(Option<u64>),
}

/// The programs of the cores.
pub(crate) trait Workload {
    /// Appends what `core` does from `now` on to its program.
    fn next(&mut self, core: usize, now: u64, program: &mut VecDeque<Step>) -> Next;
}

/// Measurements of a run after the first quarter of its time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    /// Operations per second of the whole machine.
    pub(crate) rate: f64,
    /// Share of the awake time of the cores that they wait for lines.
    pub(crate) waiting: f64,
    /// Awake time of all cores per operation, in nanoseconds.
    pub(crate) cost_ns: f64,
    /// The line that has moved for the longest time.
    pub(crate) busiest: &'static str,
    /// Share of the time for which that line has moved.
    pub(crate) busy: f64,
}

#[derive(Default)]
struct Core {
    program: VecDeque<Step>,
    next: Option<Next>,
    is_asleep: bool,
    is_woken: bool,
    epoch: u64,
    /// Number of its entries in the queue before the current one, which are void.
    turn: u64,
}

/// The machine in one run.
pub(crate) struct Machine {
    memory: Memory,
    cores: Vec<Core>,
    /// The next time of each core.
    queue: BinaryHeap<Reverse<(u64, usize, u64)>>,
    epoch: u64,
    begin: u64,
    done: u64,
    awake_ns: u64,
    waited_ns: u64,
}

impl Machine {
    pub(crate) fn new(memory: Memory, cores: usize) -> Machine {
        Machine {
            memory,
            cores: (0..cores).map(|_| Core::default()).collect(),
            queue: (0..cores).map(|core| Reverse((0, core, 0))).collect(),
            epoch: 1,
            begin: 0,
            done: 0,
            awake_ns: 0,
            waited_ns: 0,
        }
    }

    /// Runs the workload until the time `end`, in nanoseconds.
    pub(crate) fn run(mut self, workload: &mut dyn Workload, end: u64) -> Outcome {
        while let Some(Reverse((now, core, turn))) = self.queue.pop() {
            if now >= end {
                break;
            }
            if self.begin == 0 && now >= end / 4 {
                self.begin = now;
                self.done = 0;
                self.awake_ns = 0;
                self.waited_ns = 0;
                self.memory.reset();
            }
            if self.cores[core].turn == turn {
                self.advance(workload, core, now);
            }
        }
        let elapsed = (end - self.begin) as f64;
        let (busiest, moved_ns) = self.memory.busiest();
        Outcome {
            rate: self.done as f64 / elapsed * 1e9,
            waiting: self.waited_ns as f64 / self.awake_ns.max(1) as f64,
            cost_ns: self.awake_ns as f64 / self.done.max(1) as f64,
            busiest,
            busy: moved_ns as f64 / elapsed,
        }
    }

    /// Continues a core until it has made an access that moves a line, has worked, or sleeps.
    fn advance(&mut self, workload: &mut dyn Workload, core: usize, begin: u64) {
        let mut now = begin;
        if self.cores[core].is_asleep {
            self.cores[core].is_asleep = false;
            self.cores[core].next = None;
        }
        loop {
            let Some(step) = self.cores[core].program.pop_front() else {
                match self.cores[core].next.take() {
                    Some(Next::Sleep(until)) => return self.sleep(core, begin, now, until),
                    Some(Next::Go) if now > begin => break,
                    _ => {}
                }
                let state = &mut self.cores[core];
                state.next = Some(workload.next(core, now, &mut state.program));
                continue;
            };
            match step {
                Step::Access(line, kind) => {
                    let hits = self.memory.hits(core, line, kind);
                    if !hits && now > begin {
                        // Others may be earlier.
                        self.cores[core].program.push_front(step);
                        break;
                    }
                    let end = self.memory.access(core, line, kind, now);
                    if !hits {
                        self.waited_ns += end - now - self.memory.hit_ns(kind);
                    }
                    now = end;
                }
                Step::Work(time) => {
                    now += time;
                    break;
                }
                Step::Wake(other) => self.wake(other, now),
                Step::Done => self.done += 1,
                Step::Epoch(change) => self.change_epoch(core, change),
            }
        }
        self.awake_ns += now - begin;
        self.resume_at(core, now);
    }

    fn change_epoch(&mut self, core: usize, change: Epoch) {
        let own = self.cores[core].epoch;
        match change {
            Epoch::Pin => self.cores[core].epoch = self.epoch,
            Epoch::Unpin => self.cores[core].epoch = 0,
            Epoch::Compare(other, count) => {
                let other = self.cores[other].epoch;
                if other != 0 && other != own {
                    self.cores[core].program.drain(..count);
                }
            }
            Epoch::Advance => self.epoch = own + 1,
        }
    }

    fn sleep(&mut self, core: usize, begin: u64, now: u64, until: Option<u64>) {
        self.awake_ns += now - begin;
        self.cores[core].is_asleep = true;
        if std::mem::take(&mut self.cores[core].is_woken) {
            self.resume_at(core, now);
        } else if let Some(until) = until {
            self.resume_at(core, until.max(now));
        }
    }

    fn wake(&mut self, core: usize, now: u64) {
        if self.cores[core].is_asleep {
            self.resume_at(core, now);
        } else {
            self.cores[core].is_woken = true;
        }
    }

    fn resume_at(&mut self, core: usize, time: u64) {
        self.cores[core].turn += 1;
        let turn = self.cores[core].turn;
        self.queue.push(Reverse((time, core, turn)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Costs;

    /// Two cores: the first one pins, and later unpins; the second one pins, compares and works
    /// unless it has to skip that.
    struct Pinning(u64);

    impl Workload for Pinning {
        fn next(&mut self, core: usize, now: u64, program: &mut VecDeque<Step>) -> Next {
            if now > 0 {
                return Next::Sleep(None);
            }
            let pin = Step::Epoch(Epoch::Pin);
            match core {
                0 => program.extend([
                    pin,
                    Step::Work(100),
                    Step::Epoch(Epoch::Unpin),
                    Step::Work(1),
                ]),
                _ => program.extend([
                    Step::Work(10),
                    pin,
                    Step::Epoch(Epoch::Advance),
                    pin,
                    Step::Work(self.0),
                    Step::Epoch(Epoch::Compare(0, 1)),
                    Step::Done,
                    Step::Work(1),
                ]),
            }
            Next::Go
        }
    }

    #[test]
    fn an_older_pin_is_seen_until_it_ends() {
        for (time, expected) in [(50, 0), (150, 1)] {
            let costs = Costs {
                load_ns: 1,
                rmw_ns: 1,
                owned_rmw_ns: 1,
            };
            let machine = Machine::new(Memory::new(costs), 2);
            let outcome = machine.run(&mut Pinning(time), 4 * 200);
            assert_eq!((outcome.rate * 800e-9).round() as u64, expected, "{time}");
        }
    }
}
