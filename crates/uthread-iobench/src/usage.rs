//! The resources that this process, and those that it has started, have used until some time.

use std::fs;
use std::io;
use std::mem;
use std::time::{Duration, Instant};

/// Time, and the resources of this process, with the kernel's threads that work for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meter {
    pub(crate) at: Instant,
    pub(crate) usr_us: f64,
    pub(crate) sys_us: f64,
    pub(crate) context_switches: f64,
    /// Number of them in which the kernel took the CPU away.
    pub(crate) involuntary_switches: f64,
    pub(crate) max_rss_mib: f64,
}

impl Meter {
    pub(crate) fn now() -> io::Result<Meter> {
        let usage = usage_of(libc::RUSAGE_SELF)?;
        let us = |time| duration(time).as_secs_f64() * 1e6;
        let involuntary = usage.ru_nivcsw;
        let switches = usage.ru_nvcsw + involuntary;
        Ok(Meter {
            at: Instant::now(),
            usr_us: us(usage.ru_utime),
            sys_us: us(usage.ru_stime),
            context_switches: switches as f64,
            involuntary_switches: involuntary as f64,
            max_rss_mib: max_rss_mib()?,
        })
    }
}

/// Returns the CPU time of the processes that this one has started, and whose end it has seen.
///
/// ```
/// assert!(std::process::Command::new("true").status().unwrap().success());
/// assert!(!uthread_iobench::cpu_of_children().unwrap().is_zero());
/// ```
///
/// # Errors
///
/// The errors of `getrusage(2)`.
pub fn cpu_of_children() -> io::Result<Duration> {
    let usage = usage_of(libc::RUSAGE_CHILDREN)?;
    Ok(duration(usage.ru_utime) + duration(usage.ru_stime))
}

#[allow(unsafe_code, reason = "getrusage, which `rustix` does not offer")]
fn usage_of(whom: libc::c_int) -> io::Result<libc::rusage> {
    // SAFETY: all fields are numbers, for which zero is valid.
    let mut usage = unsafe { mem::zeroed() };
    // SAFETY: the call writes the usage.
    match unsafe { libc::getrusage(whom, &raw mut usage) } {
        0 => Ok(usage),
        _ => Err(io::Error::last_os_error()),
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Returns the peak of resident memory. That of `getrusage` would include the parent's: it survives
/// `execve`.
fn max_rss_mib() -> io::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib = status.lines().find_map(|line| {
        let kib = line.strip_prefix("VmHWM:")?.strip_suffix("kB")?;
        kib.trim().parse::<f64>().ok()
    });
    kib.map(|kib| kib / 1024.0)
        .ok_or_else(|| io::Error::other("/proc/self/status has no VmHWM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_counts_what_was_used() {
        let before = Meter::now().unwrap();
        let touched = vec![1_u8; 32 * 1024 * 1024];
        let mut after = before;
        while after.usr_us + after.sys_us < before.usr_us + before.sys_us + 5e3 {
            after = Meter::now().unwrap();
        }
        assert!(touched.iter().all(|&byte| byte == 1));
        assert!(
            after.at > before.at && after.max_rss_mib >= 32.0,
            "{after:?}"
        );
    }
}
