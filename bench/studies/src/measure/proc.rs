//! CPU time and memory of a process and all its descendants, read from `/proc`.
//!
//! The total comes from the scheduler's nanoseconds (`schedstat`); `stat` only splits it into user and system, because
//! it counts in ticks of 10 ms. The parsers take text, so that tests need no process.

use std::fs;
use std::io;
use std::ops::Sub;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// A server here has a handful of processes; more than this is a runaway tree, not something to measure.
const TREE_PROCESSES_MAX: usize = 4096;

/// Ticks round each process down by up to one 10 ms tick in user and one in system time; below this gap the
/// nanoseconds of the living threads are the better figure, above it a thread has ended and taken its share along.
const TICK_SLACK_NS: u64 = 60_000_000;

/// How the kernel names its threads in our processes: those that do what would block, and those that poll a ring.
const HELPERS: [&str; 2] = ["iou-wrk-", "iou-sqp-"];

/// CPU time a process tree has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cpu {
    pub(crate) threads_ns: u64,
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    /// Of `threads_ns` that of the kernel's own threads, which do for the process what its rings ask for.
    pub(crate) helpers_ns: u64,
}

impl Cpu {
    /// The best figure for the whole: see [`TICK_SLACK_NS`].
    pub(crate) fn total_ns(&self) -> u64 {
        let ticks_ns = self.user_ns + self.system_ns;
        if ticks_ns > self.threads_ns + TICK_SLACK_NS {
            ticks_ns
        } else {
            self.threads_ns
        }
    }

    /// Adds the time of a thread of this name.
    fn add_thread(&mut self, name: &str, schedstat: &str) -> Result<()> {
        let on_cpu_ns = parse_schedstat(schedstat)?;
        self.threads_ns += on_cpu_ns;
        if HELPERS.iter().any(|helper| name.starts_with(helper)) {
            self.helpers_ns += on_cpu_ns;
        }
        Ok(())
    }

    /// The total divided as user and system time were counted.
    pub(crate) fn split_ns(&self) -> (f64, f64) {
        let ticks_ns = self.user_ns + self.system_ns;
        if ticks_ns == 0 {
            return (0.0, 0.0);
        }
        let total_ns = self.total_ns() as f64;
        let user_ns = total_ns * self.user_ns as f64 / ticks_ns as f64;
        (user_ns, total_ns - user_ns)
    }
}

impl Sub for Cpu {
    type Output = Cpu;

    fn sub(self, earlier: Cpu) -> Cpu {
        Cpu {
            threads_ns: self.threads_ns.saturating_sub(earlier.threads_ns),
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            helpers_ns: self.helpers_ns.saturating_sub(earlier.helpers_ns),
        }
    }
}

/// Memory of a process tree. Kernel memory (sockets, page tables) is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    pub(crate) rss_bytes: u64,
    pub(crate) pss_bytes: u64,
    pub(crate) anonymous_bytes: u64,
}

impl Memory {
    pub(crate) fn to_json(self) -> Value {
        json!({ "rss_bytes": self.rss_bytes, "pss_bytes": self.pss_bytes, "anonymous_bytes": self.anonymous_bytes })
    }
}

/// CPU time of the whole machine, in nanoseconds since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Machine {
    pub(crate) busy_ns: u64,
    pub(crate) steal_ns: u64,
}

pub(crate) fn tree_cpu(root: u32) -> Result<Cpu> {
    let mut sum = Cpu::default();
    for pid in tree(root)? {
        let Some(stat) = read_if_alive(&format!("/proc/{pid}/stat"))? else {
            continue;
        };
        let times = parse_stat(&stat)?;
        sum.user_ns += times.user_ticks * tick_ns();
        sum.system_ns += times.system_ticks * tick_ns();
        for thread in threads(pid)? {
            let file = |name| read_if_alive(&format!("/proc/{pid}/task/{thread}/{name}"));
            if let (Some(schedstat), Some(name)) = (file("schedstat")?, file("comm")?) {
                sum.add_thread(&name, &schedstat)?;
            }
        }
    }
    Ok(sum)
}

pub(crate) fn tree_memory(root: u32) -> Result<Memory> {
    let mut sum = Memory::default();
    for pid in tree(root)? {
        let Some(text) = read_if_alive(&format!("/proc/{pid}/smaps_rollup"))? else {
            continue;
        };
        let memory = parse_smaps_rollup(&text)?;
        sum.rss_bytes += memory.rss_bytes;
        sum.pss_bytes += memory.pss_bytes;
        sum.anonymous_bytes += memory.anonymous_bytes;
    }
    Ok(sum)
}

/// CPU time of this process, of its descendants but for the server's, and of those they have waited for: all that a load
/// uses.
pub(crate) fn own_cpu_ns(server_pid: Option<u32>) -> Result<u64> {
    let server = server_pid.map_or_else(|| Ok(Vec::new()), tree)?;
    let mut ticks = 0;
    for pid in tree(std::process::id())? {
        let stat = match server.contains(&pid) {
            true => None,
            false => read_if_alive(&format!("/proc/{pid}/stat"))?,
        };
        if let Some(stat) = stat {
            let times = parse_stat(&stat)?;
            ticks += times.user_ticks + times.system_ticks + times.waited_for_ticks;
        }
    }
    Ok(ticks * tick_ns())
}

pub(crate) fn machine() -> Result<Machine> {
    parse_machine(&fs::read_to_string("/proc/stat")?)
}

/// `root` and its descendants.
pub(crate) fn tree(root: u32) -> Result<Vec<u32>> {
    ensure!(
        fs::exists(format!("/proc/{root}/stat"))?,
        "process {root} has ended while it was being measured"
    );
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        for thread in threads(pid)? {
            let Some(text) = read_if_alive(&format!("/proc/{pid}/task/{thread}/children"))? else {
                continue;
            };
            found.extend(
                text.split_ascii_whitespace()
                    .filter_map(|word| word.parse::<u32>().ok()),
            );
        }
        ensure!(
            found.len() <= TREE_PROCESSES_MAX,
            "process {root} has more than {TREE_PROCESSES_MAX} descendants"
        );
    }
    Ok(found)
}

pub(super) fn threads(pid: u32) -> Result<Vec<u32>> {
    let entries = match fs::read_dir(format!("/proc/{pid}/task")) {
        Err(error) if has_ended(&error) => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(names.collect())
}

/// A process or thread may end between being listed and being read: that is `None`, not an error.
pub(super) fn read_if_alive(path: &str) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if has_ended(&error) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("read {path}")),
    }
}

pub(super) fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

#[derive(Debug, PartialEq)]
struct Times {
    user_ticks: u64,
    system_ticks: u64,
    waited_for_ticks: u64,
}

/// `/proc/PID/stat`. The name in brackets may itself hold spaces and brackets, so fields count from the last `)`.
fn parse_stat(text: &str) -> Result<Times> {
    let (_, after_name) = text
        .rsplit_once(')')
        .context("/proc/PID/stat: no process name")?;
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let ticks = |index: usize| -> Result<u64> {
        let field = fields
            .get(index)
            .context("/proc/PID/stat: too few fields")?;
        field
            .parse()
            .with_context(|| format!("/proc/PID/stat: {field:?} is not a number of ticks"))
    };
    Ok(Times {
        user_ticks: ticks(11)?,
        system_ticks: ticks(12)?,
        waited_for_ticks: ticks(13)? + ticks(14)?,
    })
}

fn parse_schedstat(text: &str) -> Result<u64> {
    let on_cpu_ns = text
        .split_ascii_whitespace()
        .next()
        .context("schedstat: empty")?;
    on_cpu_ns
        .parse()
        .with_context(|| format!("schedstat: {on_cpu_ns:?} is not a time"))
}

fn parse_smaps_rollup(text: &str) -> Result<Memory> {
    // A kernel thread, or a process that is just ending, has an empty file: it holds no memory.
    if text.is_empty() {
        return Ok(Memory::default());
    }
    let bytes = |name| bytes_of(text, name).context("smaps_rollup");
    Ok(Memory {
        rss_bytes: bytes("Rss")?,
        pss_bytes: bytes("Pss")?,
        anonymous_bytes: bytes("Anonymous")?,
    })
}

/// The value of the line of this name, which is in KiB, in bytes.
pub(super) fn bytes_of(text: &str, name: &str) -> Result<u64> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kib.with_context(|| format!("no {name}"))? * 1024)
}

/// The first line of `/proc/stat`: user nice system idle iowait irq softirq steal.
fn parse_machine(text: &str) -> Result<Machine> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .context("/proc/stat: no cpu line")?;
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    ensure!(
        ticks.len() >= 8,
        "/proc/stat: the cpu line has {} fields, expected at least 8",
        ticks.len()
    );
    let busy_ticks: u64 = [0, 1, 2, 5, 6].iter().map(|&index| ticks[index]).sum();
    Ok(Machine {
        busy_ns: busy_ticks * tick_ns(),
        steal_ns: ticks[7] * tick_ns(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn stat_is_read_behind_any_process_name() {
        let fields = "S 1 2 3 0 -1 4194624 548 0 0 0 30 173 7 8 20 0 1 0 99527";
        for name in ["nginx", "a b", "x) S 9 (y", ""] {
            let times = parse_stat(&format!("4009 ({name}) {fields}\n")).unwrap();
            assert_eq!(
                times,
                Times {
                    user_ticks: 30,
                    system_ticks: 173,
                    waited_for_ticks: 15
                },
                "name {name:?}"
            );
        }
        for broken in [
            "",
            "4009 nginx S 1",
            "1 (x) S 1 2",
            "1 (x) S 1 2 3 0 -1 4 5 0 0 0 thirty 1 1 1",
        ] {
            assert!(parse_stat(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn schedstat_is_its_first_number() {
        assert_eq!(
            parse_schedstat("2044445896 20369498 2404\n").unwrap(),
            2_044_445_896
        );
        assert!(parse_schedstat("").is_err());
        assert!(parse_schedstat("x 1 2").is_err());
    }

    #[test]
    fn the_threads_of_the_kernel_are_told_from_those_of_the_program() {
        let mut cpu = Cpu::default();
        for (name, ns) in [
            ("uthread-0\n", 1),
            ("iou-wrk-4711\n", 20),
            ("iou-sqp-4711\n", 300),
            ("not-iou-wrk-1\n", 4000),
        ] {
            cpu.add_thread(name, &format!("{ns} 5 6\n")).unwrap();
        }
        assert_eq!((cpu.threads_ns, cpu.helpers_ns), (4321, 320));
        assert_eq!((cpu - cpu).helpers_ns, 0);
        assert!(cpu.add_thread("x\n", "").is_err());
    }

    #[test]
    fn memory_is_found_by_name() {
        let text = "5634-7fff ---p 00000000 00:00 0 [rollup]\nRss:       5644 kB\nPss:    3505 kB\nPss_Anon: 1 kB\n\
                    Anonymous:   2688 kB\nAnonHugePages: 9 kB\n";
        let memory = parse_smaps_rollup(text).unwrap();
        let kib = 1024;
        let expected = Memory {
            rss_bytes: 5644 * kib,
            pss_bytes: 3505 * kib,
            anonymous_bytes: 2688 * kib,
        };
        assert_eq!(memory, expected);
        assert_eq!(parse_smaps_rollup("").unwrap(), Memory::default());
        assert!(parse_smaps_rollup("Rss: 1 kB\n").is_err());
    }

    #[test]
    fn the_machine_is_busy_except_when_idle_waiting_or_stolen_from() {
        let machine =
            parse_machine("cpu  1 2 4 1000 1000 8 16 5 3 0\ncpu0 9 9 9 9 9 9 9 9\n").unwrap();
        assert_eq!(
            machine,
            Machine {
                busy_ns: 31 * tick_ns(),
                steal_ns: 5 * tick_ns()
            }
        );
        assert!(parse_machine("cpu0 1 2 3 4 5 6 7 8\n").is_err());
        assert!(parse_machine("cpu  1 2 3\n").is_err());
    }

    #[test]
    fn ticks_replace_nanoseconds_only_when_a_thread_has_ended() {
        let check = |threads_ns, user_ns, system_ns, expected| {
            let cpu = Cpu {
                threads_ns,
                user_ns,
                system_ns,
                helpers_ns: 0,
            };
            assert_eq!(cpu.total_ns(), expected, "{cpu:?}");
        };
        check(1_003_000_000, 300_000_000, 700_000_000, 1_003_000_000);
        check(990_000_000, 300_000_000, 700_000_000, 990_000_000);
        check(500_000_000, 300_000_000, 700_000_000, 1_000_000_000);
    }

    #[test]
    fn a_load_is_ours_while_it_runs_and_a_server_is_not() {
        let mut child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let pid = child.id();
        let used_ns = || tree_cpu(pid).unwrap().threads_ns;
        while used_ns() < 100_000_000 {}
        let with = own_cpu_ns(None).unwrap();
        let without = own_cpu_ns(Some(pid)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // It counts in ticks.
        assert!(with >= without + 50_000_000, "{with} and {without}");
    }

    #[test]
    fn this_process_can_be_read() {
        let pid = std::process::id();
        assert!(tree(pid).unwrap().contains(&pid));
        assert!(tree_cpu(pid).unwrap().threads_ns > 0);
        assert!(tree_memory(pid).unwrap().rss_bytes > 0);
        assert!(machine().unwrap().busy_ns > 0);
        assert!(tree(u32::MAX).is_err());
    }
}
