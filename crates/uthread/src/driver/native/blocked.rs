//! Detects whether a thread of this process is blocked in the kernel, and in what, by reading
//! `/proc`: the thread itself has no costs.

use std::fs;
use std::time::Duration;

use rustix::process::Pid;

/// A thread, identified by the kernel's number, which may be reused after its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Task(Pid);

/// The kind of call in which a thread is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// A futex, by which locks and channels wait.
    Futex,
    /// Any other call, with its name if the kernel reveals it.
    Other(Option<&'static str>),
}

/// The place at which a blocked thread continues.
#[cfg(feature = "backtrace")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) stack_pointer: usize,
    pub(super) program_counter: usize,
}

impl Task {
    /// Returns the calling thread.
    #[allow(unsafe_code, reason = "a number of the kernel")]
    pub(crate) fn current() -> Task {
        // SAFETY: the call has no arguments. Older C libraries have no function for it.
        let number = unsafe { libc::syscall(libc::SYS_gettid) };
        Task::of(number as i32).expect("numbers of threads are positive")
    }

    /// Returns the thread with a number of the kernel.
    pub(super) fn of(number: i32) -> Option<Task> {
        Pid::from_raw(number).map(Task)
    }

    pub(crate) fn number(self) -> i32 {
        self.0.as_raw_nonzero().get()
    }

    /// Returns the kind of call in which the thread is blocked, or `None` if it runs or the kernel
    /// does not reveal it.
    pub(crate) fn blocked(self) -> Option<Blocked> {
        // The number of the system call is exact, but some kernels do not reveal it.
        self.read("syscall")
            .and_then(|text| by_system_call(&text))
            .unwrap_or_else(|| self.read("stat").and_then(|text| by_state(&text)))
    }

    /// Returns the place at which the thread continues. Returns `None` if it is not blocked in this
    /// kind of call, or if the kernel does not reveal the place.
    #[cfg(feature = "backtrace")]
    pub(super) fn position(self, blocked: Blocked) -> Option<Position> {
        let text = self.read("syscall")?;
        (by_system_call(&text) == Some(Some(blocked))).then_some(())?;
        position(&text)
    }

    /// Returns the time for which the thread has used a CPU, or `None` if it has ended.
    pub(crate) fn cpu_time(self) -> Option<Duration> {
        /// `CPUCLOCK_SCHED` of a thread, in the kernel's `linux/posix-timers.h`.
        const CLOCK_OF_THREAD: libc::clockid_t = 6;
        let clock = (!self.0.as_raw_nonzero().get() << 3) | CLOCK_OF_THREAD;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        #[allow(unsafe_code, reason = "a clock whose number no crate makes")]
        // SAFETY: the call writes the time.
        let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
        (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    pub(super) fn read(self, file: &str) -> Option<String> {
        let thread = self.0.as_raw_nonzero();
        fs::read_to_string(format!("/proc/self/task/{thread}/{file}")).ok()
    }
}

/// Parses a text such as `202 0x7f0a 0x80 ..` or `running`. Returns `None` if it is neither.
fn by_system_call(text: &str) -> Option<Option<Blocked>> {
    let call = text.split_whitespace().next()?;
    if call == "running" {
        return Some(None);
    }
    match call.parse::<libc::c_long>().ok()? {
        libc::SYS_futex => Some(Some(Blocked::Futex)),
        number => Some(Some(Blocked::Other(name(number)))),
    }
}

/// Parses the last fields of such a text: the stack pointer and the program counter.
#[cfg(feature = "backtrace")]
fn position(text: &str) -> Option<Position> {
    let mut fields = text.split_whitespace().rev().map(|field| {
        let digits = field.strip_prefix("0x")?;
        usize::from_str_radix(digits, 16).ok()
    });
    let program_counter = fields.next()??;
    Some(Position {
        stack_pointer: fields.next()??,
        program_counter,
    })
}

/// Returns the name of a system call that may block for long.
fn name(number: libc::c_long) -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let of_architecture = [
        (libc::SYS_epoll_wait, "epoll_wait"),
        (libc::SYS_open, "open"),
        (libc::SYS_poll, "poll"),
        (libc::SYS_select, "select"),
        (libc::SYS_stat, "stat"),
        (libc::SYS_unlink, "unlink"),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let of_architecture = [];
    let names = [
        (-1, "a page fault"),
        (libc::SYS_accept, "accept"),
        (libc::SYS_accept4, "accept4"),
        (libc::SYS_clock_nanosleep, "clock_nanosleep"),
        (libc::SYS_close, "close"),
        (libc::SYS_connect, "connect"),
        (libc::SYS_copy_file_range, "copy_file_range"),
        (libc::SYS_epoll_pwait, "epoll_pwait"),
        (libc::SYS_fcntl, "fcntl"),
        (libc::SYS_fdatasync, "fdatasync"),
        (libc::SYS_flock, "flock"),
        (libc::SYS_fsync, "fsync"),
        (libc::SYS_fstat, "fstat"),
        (libc::SYS_getdents64, "getdents64"),
        (libc::SYS_io_getevents, "io_getevents"),
        (libc::SYS_io_uring_enter, "io_uring_enter"),
        (libc::SYS_ioctl, "ioctl"),
        (libc::SYS_msync, "msync"),
        (libc::SYS_nanosleep, "nanosleep"),
        (libc::SYS_newfstatat, "newfstatat"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_pipe2, "pipe2"),
        (libc::SYS_ppoll, "ppoll"),
        (libc::SYS_pread64, "pread64"),
        (libc::SYS_preadv, "preadv"),
        (libc::SYS_pselect6, "pselect6"),
        (libc::SYS_pwrite64, "pwrite64"),
        (libc::SYS_pwritev, "pwritev"),
        (libc::SYS_read, "read"),
        (libc::SYS_readahead, "readahead"),
        (libc::SYS_readv, "readv"),
        (libc::SYS_recvfrom, "recvfrom"),
        (libc::SYS_recvmmsg, "recvmmsg"),
        (libc::SYS_recvmsg, "recvmsg"),
        (libc::SYS_renameat2, "renameat2"),
        (libc::SYS_sendfile, "sendfile"),
        (libc::SYS_sendmmsg, "sendmmsg"),
        (libc::SYS_sendmsg, "sendmsg"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_splice, "splice"),
        (libc::SYS_statx, "statx"),
        (libc::SYS_sync, "sync"),
        (libc::SYS_sync_file_range, "sync_file_range"),
        (libc::SYS_syncfs, "syncfs"),
        (libc::SYS_tee, "tee"),
        (libc::SYS_unlinkat, "unlinkat"),
        (libc::SYS_wait4, "wait4"),
        (libc::SYS_waitid, "waitid"),
        (libc::SYS_write, "write"),
        (libc::SYS_writev, "writev"),
    ];
    let mut names = names.iter().chain(&of_architecture);
    names
        .find(|(call, _)| *call == number)
        .map(|(_, name)| *name)
}

/// Parses a text such as `1234 (a name) S ..`: the state follows the name, which may contain any
/// characters.
fn by_state(text: &str) -> Option<Blocked> {
    let (_, rest) = text.rsplit_once(") ")?;
    rest.starts_with(['S', 'D']).then_some(Blocked::Other(None))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex, mpsc};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{Blocked, Task, by_state, by_system_call};

    #[test]
    fn texts_of_the_kernel_are_understood() {
        let futex = format!("{} 0x7f 0x80 0x2", libc::SYS_futex);
        assert_eq!(by_system_call(&futex), Some(Some(Blocked::Futex)));
        let read = format!("{} 0x3 0x7f", libc::SYS_read);
        assert_eq!(
            by_system_call(&read),
            Some(Some(Blocked::Other(Some("read"))))
        );
        let fault = Blocked::Other(Some("a page fault"));
        assert_eq!(by_system_call("-1 0x7f 0x7f"), Some(Some(fault)));
        assert_eq!(by_system_call("running"), Some(None));
        assert_eq!(by_system_call(""), None);
        assert_eq!(by_system_call("what"), None);
        assert_eq!(by_state("7 (a) S) R 1 2"), None);
        assert_eq!(by_state("7 (a name) S 1 2"), Some(Blocked::Other(None)));
        assert_eq!(by_state("7 (a name) D 1 2"), Some(Blocked::Other(None)));
        assert_eq!(by_state(""), None);
    }

    /// Waits until the kernel reports this state of the thread, and turns a hang into a failure.
    fn await_blocked(task: Task, blocked: Option<Blocked>) {
        let begin = Instant::now();
        while task.blocked() != blocked {
            assert!(begin.elapsed() < Duration::from_secs(30), "never");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_thread_that_waits_for_a_lock_is_distinguished() {
        let mutex = Arc::new(Mutex::new(()));
        let guard = mutex.lock().unwrap();
        let (sender, task) = mpsc::channel();
        let (theirs, stop) = (Arc::clone(&mutex), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            sender.send(Task::current()).unwrap();
            drop(theirs.lock().unwrap());
            while !stopped.load(Ordering::Relaxed) {}
        });
        let task = task.recv().unwrap();
        await_blocked(task, Some(Blocked::Futex));
        drop(guard);
        await_blocked(task, None);
        let before = task.cpu_time().expect("the thread lives");
        let used = |time: Duration| task.cpu_time().is_some_and(|now| now > before + time);
        let begin = Instant::now();
        while !used(Duration::from_millis(5)) {
            assert!(begin.elapsed() < Duration::from_secs(30), "never");
        }
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        // The kernel has the task for some time after the end of the thread.
        await_blocked(task, None);
    }
}
