//! The resources that this process has used until some time.

use std::fs;
use std::io;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

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
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let us = |time: TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
        let involuntary = usage.involuntary_context_switches();
        let switches = usage.voluntary_context_switches() + involuntary;
        Ok(Meter {
            at: Instant::now(),
            usr_us: us(usage.user_time()),
            sys_us: us(usage.system_time()),
            context_switches: switches as f64,
            involuntary_switches: involuntary as f64,
            max_rss_mib: max_rss_mib()?,
        })
    }
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
