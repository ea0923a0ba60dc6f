//! The scenarios: their names, their questions, and what is varied in each.

use std::fmt;

use clap::ValueEnum;

use crate::load::{Pattern, Rivals};

/// A part of the suite. The names are those of the work that it continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    SyscallOverhead,
    LatIops,
    RandRead,
    #[value(name = "multi-4thr")]
    MultiFourThreads,
    CpuFootprint,
    Mixed,
    Kv,
    UrgentReads,
    UrgentEchoes,
    UrgentTrace,
}

impl Scenario {
    pub(crate) const ALL: [Scenario; 10] = [
        Scenario::SyscallOverhead,
        Scenario::LatIops,
        Scenario::RandRead,
        Scenario::MultiFourThreads,
        Scenario::CpuFootprint,
        Scenario::Mixed,
        Scenario::Kv,
        Scenario::UrgentReads,
        Scenario::UrgentEchoes,
        Scenario::UrgentTrace,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scenario::SyscallOverhead => "syscall-overhead",
            Scenario::LatIops => "lat-iops",
            Scenario::RandRead => "rand-read",
            Scenario::MultiFourThreads => "multi-4thr",
            Scenario::CpuFootprint => "cpu-footprint",
            Scenario::Mixed => "mixed",
            Scenario::Kv => "kv",
            Scenario::UrgentReads => "urgent-reads",
            Scenario::UrgentEchoes => "urgent-echoes",
            Scenario::UrgentTrace => "urgent-trace",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Scenario::SyscallOverhead => "System calls of sequential reads",
            Scenario::LatIops => "Latency and rate of sequential reads",
            Scenario::RandRead => "Latency and rate of random reads",
            Scenario::MultiFourThreads => "Four threads, four files",
            Scenario::CpuFootprint => "CPU time, context switches and memory",
            Scenario::Mixed => "Reads and writes",
            Scenario::Kv => "A key-value store on fibers",
            Scenario::UrgentReads => "Urgent reads beside background writes",
            Scenario::UrgentEchoes => "Urgent echoes beside bulk transfers",
            Scenario::UrgentTrace => "Order of urgent submissions",
        }
    }

    pub(crate) fn question(self) -> &'static str {
        match self {
            Scenario::SyscallOverhead => {
                "What does a request cost if each has a system call of its own, and what in batches?"
            }
            Scenario::LatIops => {
                "How long does a sequential read take, and how many are there in a second?"
            }
            Scenario::RandRead => {
                "How long does a random read take, and how many are there in a second?"
            }
            Scenario::MultiFourThreads => "What changes if four threads read a file each?",
            Scenario::CpuFootprint => "What does a random read cost besides time?",
            Scenario::Mixed => "What do writes with `fsync` do to reads beside them?",
            Scenario::Kv => {
                "How many durable puts and how many gets does a small store on fibers have in a second?"
            }
            Scenario::UrgentReads => {
                "How long does an urgent read take while others write, and what do priorities cost the writes?"
            }
            Scenario::UrgentEchoes => {
                "How long does an urgent message take while others transfer much, and what do priorities cost the transfers?"
            }
            Scenario::UrgentTrace => {
                "Does the kernel get urgent requests of fibers before all others that are submitted with them?"
            }
        }
    }

    /// Remarks on what the figures mean, in the report.
    pub(crate) fn notes(self) -> &'static [&'static str] {
        match self {
            Scenario::SyscallOverhead => &[
                "The ring submits so many requests with one system call and waits for all of them with the same call; \
                 `pread` makes a call for each, whatever the size of a batch. `calls` are counted by the programs.",
                "The time of one request at a time is that of the disk: a ring does not shorten it. What a batch saves is CPU time.",
            ],
            Scenario::LatIops | Scenario::RandRead => &[
                "`pread` reads one block at a time at every point, as the line to compare with. All others keep so many requests in \
                 flight. Whoever compares a ring with many requests in flight to one call at a time measures the disk's parallelism, \
                 and not the ring.",
            ],
            Scenario::MultiFourThreads => &[
                "Each of four threads has a file and so many requests at a time of its own; fibers have four workers.",
            ],
            Scenario::CpuFootprint => &[
                "CPU time and context switches are those of a whole process with the kernel's threads that work for it, `max RSS` is \
                 its peak of resident memory.",
            ],
            Scenario::Mixed => &[
                "70 % of the requests read, the others write, and one `fsync` follows about 32 writes. Its time is beside that of \
                 reads and writes.",
            ],
            Scenario::Kv => &[
                "A log in segments, half of it live records: puts that arrive together become durable together, gets read a block, and \
                 compaction runs beside them. Half of the requests put. After each measurement the store is recovered from its file and \
                 compared.",
            ],
            Scenario::UrgentReads => &[
                "One worker, on which an urgent fiber reads a block at a time, and so many others write blocks of the same file. With \
                 priorities, the writes are background; without, all are normal. `rivals` is what the writes transfer.",
                "Priorities order what waits in the runtime: fibers, requests of a flush, calls for the thread pool. What the device has \
                 already they do not overtake, unless its scheduler, such as bfq or mq-deadline, respects I/O priorities.",
            ],
            Scenario::UrgentEchoes => &[
                "One worker, on which a fiber sends a message of 64 bytes at a time to another, which sends it back. Beside them so many \
                 fibers send chunks of 64 KiB, each to a fiber that reads them. With priorities, both ends of the messages are urgent and \
                 both ends of the transfers background; without, all are normal. `rivals` is what the transfers send.",
            ],
            Scenario::UrgentTrace => &[
                "Each request comes from a fiber that has a priority during this call. A tracefs instance records which of them the worker \
                 submits by one system call, and in which order the kernel takes them. The control makes the same requests without \
                 priorities: a check that passes for it would be worthless.",
            ],
        }
    }

    pub(crate) fn pattern(self) -> Pattern {
        match self {
            Scenario::SyscallOverhead | Scenario::LatIops => Pattern::Sequential,
            Scenario::Mixed => Pattern::Mixed,
            Scenario::Kv => Pattern::KeyValue,
            Scenario::UrgentReads => Pattern::UrgentReads(Rivals::Equal),
            Scenario::UrgentEchoes => Pattern::UrgentEchoes(Rivals::Equal),
            _ => Pattern::Random,
        }
    }

    /// Returns whether the scenario measures urgent requests beside others.
    pub(crate) fn has_rivals(self) -> bool {
        matches!(self, Scenario::UrgentReads | Scenario::UrgentEchoes)
    }

    /// Returns whether the scenario leaves other blocks in its file, which therefore no other
    /// scenario uses.
    pub(crate) fn overwrites(self) -> bool {
        self == Scenario::Kv
    }

    /// Returns whether `fio` writes. Its blocks have no numbers, so it gets a file that no
    /// technique verifies.
    pub(crate) fn fio_writes(self) -> bool {
        self.pattern() == Pattern::Mixed
    }

    /// Returns the number of files that are used at the same time.
    pub(crate) fn files(self) -> usize {
        match self {
            Scenario::UrgentEchoes | Scenario::UrgentTrace => 0,
            Scenario::MultiFourThreads => 4,
            _ => 1,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_the_names_of_the_report() {
        for scenario in Scenario::ALL {
            let value = scenario.to_possible_value().unwrap();
            assert_eq!(value.get_name(), scenario.name());
        }
        assert_eq!(Scenario::value_variants(), Scenario::ALL);
    }
}
