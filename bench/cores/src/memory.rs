//! Cache lines, and the time that an access takes by where the line is.
//!
//! A line is owned by one core, shared by some, or in memory. An access by a core that has it costs
//! little. Any other access moves the line, and a line moves once at a time: a load of an owned
//! line and any modification wait until the line is free. Loads of a line that is shared already do
//! not wait for each other.

/// Maximum number of cores: workers, and threads outside of them.
pub(crate) const CORES_MAX: usize = 512;

/// Time of a load or store of a line that the core has, in nanoseconds.
const HIT_NS: u64 = 1;

/// Times of accesses, in nanoseconds, as `uthread-cores lines` measures them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Costs {
    /// A load of a line that another core has written.
    pub(crate) load_ns: u64,
    /// A modification of a line that the core does not own.
    pub(crate) rmw_ns: u64,
    /// A read-modify-write of a line that the core owns.
    pub(crate) owned_rmw_ns: u64,
}

/// Kinds of accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Load,
    Store,
    /// A read-modify-write.
    Modify,
}

/// Identifies a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Line(usize);

/// The cores that have a line.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cores([u64; CORES_MAX / 64]);

impl Cores {
    const NONE: Cores = Cores([0; CORES_MAX / 64]);

    fn only(core: usize) -> Cores {
        let mut cores = Cores::NONE;
        cores.add(core);
        cores
    }

    fn add(&mut self, core: usize) {
        self.0[core / 64] |= 1 << (core % 64);
    }

    fn contains(&self, core: usize) -> bool {
        self.0[core / 64] & (1 << (core % 64)) != 0
    }
}

struct State {
    name: &'static str,
    /// The cores that have the line.
    holders: Cores,
    /// `true` if the only holder may modify it.
    is_owned: bool,
    free_at: u64,
    /// Time for which it has moved.
    moved_ns: u64,
}

/// All lines.
pub(crate) struct Memory {
    costs: Costs,
    lines: Vec<State>,
}

impl Memory {
    pub(crate) fn new(costs: Costs) -> Memory {
        Memory {
            costs,
            lines: Vec::new(),
        }
    }

    /// Adds a line that no core has.
    pub(crate) fn add(&mut self, name: &'static str) -> Line {
        self.lines.push(State {
            name,
            holders: Cores::NONE,
            is_owned: false,
            free_at: 0,
            moved_ns: 0,
        });
        Line(self.lines.len() - 1)
    }

    #[cfg(test)]
    pub(crate) fn name(&self, line: Line) -> &'static str {
        self.lines[line.0].name
    }

    /// Returns `true` if the access moves no line.
    pub(crate) fn hits(&self, core: usize, line: Line, kind: Kind) -> bool {
        let line = &self.lines[line.0];
        line.holders.contains(core) && (kind == Kind::Load || line.is_owned)
    }

    /// Makes an access that begins at `now`. Returns when it ends.
    pub(crate) fn access(&mut self, core: usize, line: Line, kind: Kind, now: u64) -> u64 {
        if self.hits(core, line, kind) {
            return now + self.hit_ns(kind);
        }
        let Costs {
            load_ns, rmw_ns, ..
        } = self.costs;
        let line = &mut self.lines[line.0];
        let begin = now.max(line.free_at);
        if kind == Kind::Load {
            let end = begin + load_ns;
            if line.is_owned {
                line.free_at = end;
                line.moved_ns += load_ns;
            }
            line.is_owned = false;
            line.holders.add(core);
            return end;
        }
        let end = begin + rmw_ns;
        line.free_at = end;
        line.moved_ns += rmw_ns;
        line.is_owned = true;
        line.holders = Cores::only(core);
        end
    }

    /// Returns how long an access to a line takes that the core has.
    pub(crate) fn hit_ns(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Load | Kind::Store => HIT_NS,
            Kind::Modify => self.costs.owned_rmw_ns,
        }
    }

    /// Forgets for how long the lines have moved.
    pub(crate) fn reset(&mut self) {
        for line in &mut self.lines {
            line.moved_ns = 0;
        }
    }

    /// Returns the name of the line that has moved for the longest time, and that time in
    /// nanoseconds.
    pub(crate) fn busiest(&self) -> (&'static str, u64) {
        let lines = self.lines.iter().rev();
        let busiest = lines.max_by_key(|line| line.moved_ns);
        busiest.map_or(("none", 0), |line| (line.name, line.moved_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        load_ns: 100,
        rmw_ns: 130,
        owned_rmw_ns: 5,
    };

    #[test]
    fn a_sequence_of_accesses_takes_the_time_computed_by_hand() {
        let mut memory = Memory::new(COSTS);
        let line = memory.add("line");
        let steps = [
            // From memory, then owned.
            (0, Kind::Modify, 0, 130),
            (0, Kind::Modify, 130, 135),
            (0, Kind::Store, 135, 136),
            (0, Kind::Load, 136, 137),
            // From the owner, which keeps it for loads.
            (1, Kind::Load, 140, 240),
            (0, Kind::Load, 150, 151),
            // A load waits until the line has moved, but not for other loads.
            (2, Kind::Load, 200, 340),
            (3, Kind::Load, 200, 340),
            // The former owner has to get it back, and takes it from all others.
            (0, Kind::Store, 400, 530),
            (1, Kind::Load, 410, 630),
            (2, Kind::Modify, 420, 760),
            (0, Kind::Load, 1000, 1100),
        ];
        for (index, (core, kind, now, end)) in steps.into_iter().enumerate() {
            assert_eq!(memory.access(core, line, kind, now), end, "step {index}");
        }
        // Moved for two loads from an owner, one in the end, and three modifications.
        assert_eq!(memory.busiest(), ("line", 3 * 100 + 3 * 130));
    }
}
