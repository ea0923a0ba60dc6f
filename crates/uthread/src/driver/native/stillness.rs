//! Detects that no thread of this process can go on by itself, by reading `/proc`.
//!
//! A thread waits for another one of the process if it is in a futex that is private to the process
//! and without a timeout. Threads are read one after the other, and may run in between. So a record
//! includes how often each has blocked: if two records are equal, no thread has run between them,
//! and all were blocked at once.

use std::fs;
use std::sync::Mutex;

use super::blocked::Task;
use crate::atomic::lock;
use crate::forked::PerProcess;

/// The signals that a thread sends to itself by an error, `SIGURG`, by which this crate interrupts
/// a call, and the two of glibc. A handler for any other may wake a thread.
const HARMLESS_SIGNALS: [libc::c_int; 10] = [
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGURG,
    libc::SIGSYS,
    32,
    33,
];

/// The thread that waits for a signal of this crate, and the signal: neither wakes a fiber.
static EXPECTED: PerProcess<Expected> = PerProcess::new(Mutex::new(None), Mutex::default);

type Expected = Mutex<Option<(Task, libc::c_int)>>;

fn expected() -> Option<(Task, libc::c_int)> {
    *lock(EXPECTED.get())
}

/// Records that the calling thread waits for this signal, and wakes no fiber.
pub(crate) fn expect(signal: libc::c_int) {
    let thread = Some((Task::current(), signal));
    *lock(EXPECTED.get()) = thread;
}

/// The threads of the process but the one that has made the record, each with its number of
/// switches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stillness(Vec<(i32, Switches)>);

/// How often a thread has left its CPU.
#[derive(Debug, PartialEq, Eq)]
struct Switches {
    voluntary: u64,
    involuntary: u64,
}

impl Stillness {
    /// Records all threads but the caller. Returns `None` if one is not blocked, or may be woken by
    /// anything else than a thread of the process; or if the kernel does not reveal it. One of
    /// `waiting` may be blocked in any call.
    pub(crate) fn observe(waiting: &[Task]) -> Option<Stillness> {
        let (idle, signal) = expected().unzip();
        let status = fs::read_to_string("/proc/self/status").ok()?;
        if handles_signals(&status, signal) != Some(false) {
            return None;
        }
        let waiting: Vec<_> = waiting.iter().copied().chain(idle).collect();
        let own = Task::current().number();
        let mut threads = Vec::new();
        for entry in fs::read_dir("/proc/self/task").ok()? {
            let number = entry.ok()?.file_name().to_str()?.parse().ok()?;
            if number != own {
                let task = Task::of(number)?;
                let is_waiting = waiting.iter().any(|waiting| waiting.number() == number);
                threads.push((number, observe(task, is_waiting)?));
            }
        }
        Some(Stillness(threads))
    }
}

fn observe(task: Task, is_waiting: bool) -> Option<Switches> {
    let call = task.read("syscall")?;
    let is_still = call != "running\n" && (is_waiting || waits_for_threads(&call));
    is_still.then_some(())?;
    switches(&task.read("status")?)
}

/// Returns `true` for a text such as `202 0x7f0a 0x189 0x0 0x0 ..`: a call, and its arguments.
fn waits_for_threads(call: &str) -> bool {
    let mut fields = call.split_ascii_whitespace();
    let number = fields.next().and_then(|number| number.parse().ok());
    if number != Some(libc::SYS_futex) {
        return false;
    }
    let arguments = fields.map(|field| u64::from_str_radix(field.trim_start_matches("0x"), 16));
    let arguments: Vec<_> = arguments.map_while(Result::ok).collect();
    let &[_, operation, _, timeout, ..] = &*arguments else {
        return false;
    };
    let command = operation as libc::c_int & libc::FUTEX_CMD_MASK;
    let waits = command == libc::FUTEX_WAIT || command == libc::FUTEX_WAIT_BITSET;
    waits && operation as libc::c_int & libc::FUTEX_PRIVATE_FLAG != 0 && timeout == 0
}

/// Returns `true` if the process handles a signal that may wake a thread, by its status. That is not
/// the `expected` one.
fn handles_signals(status: &str, expected: Option<libc::c_int>) -> Option<bool> {
    let caught = field(status, "SigCgt:")?;
    let caught = u64::from_str_radix(caught, 16).ok()?;
    let harmless = HARMLESS_SIGNALS.iter().chain(&expected);
    let harmless = harmless.map(|signal| 1 << (signal - 1));
    Some(caught & !harmless.fold(0, |all, one: u64| all | one) != 0)
}

fn switches(status: &str) -> Option<Switches> {
    Some(Switches {
        voluntary: field(status, "voluntary_ctxt_switches:")?.parse().ok()?,
        involuntary: field(status, "nonvoluntary_ctxt_switches:")?.parse().ok()?,
    })
}

/// Returns the value of a line such as `SigCgt:\t0000000000000440`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_futex_of_the_process_waits_for_threads() {
        let call = |arguments: &str| format!("{} {arguments} 0x7ffd 0x7f0a\n", libc::SYS_futex);
        assert!(waits_for_threads(&call(
            "0x7f 0x189 0x0 0x0 0x0 0xffffffff"
        )));
        assert!(waits_for_threads(&call("0x7f 0x80 0x2 0x0 0x0 0x0")));
        // Shared with other processes, with a timeout, a wake-up, and what is no futex.
        assert!(!waits_for_threads(&call(
            "0x7f 0x109 0x0 0x0 0x0 0xffffffff"
        )));
        assert!(!waits_for_threads(&call("0x7f 0x189 0x0 0x7ffd 0x0 0x0")));
        assert!(!waits_for_threads(&call("0x7f 0x81 0x1 0x0 0x0 0x0")));
        assert!(!waits_for_threads(
            "0 0x3 0x7f 0x80 0x0 0x0 0x0 0x7ffd 0x7f0a\n"
        ));
        assert!(!waits_for_threads("running\n"));
        assert!(!waits_for_threads(""));
    }

    #[test]
    fn a_status_of_the_kernel_is_understood() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(switches(&status).is_some(), "{status}");
        assert!(handles_signals(&status, None).is_some(), "{status}");
        let harmless = "SigIgn:\t0000000000001000\nSigCgt:\t0000000180400440\n";
        assert_eq!(handles_signals(harmless, None), Some(false));
        let terminates = "SigCgt:\t0000000000004000\n";
        assert_eq!(handles_signals(terminates, None), Some(true));
        assert_eq!(handles_signals(terminates, Some(libc::SIGQUIT)), Some(true));
        assert_eq!(
            handles_signals(terminates, Some(libc::SIGTERM)),
            Some(false)
        );
        assert_eq!(handles_signals("", None), None);
    }
}
