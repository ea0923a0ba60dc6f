//! The machine, in words.

use anyhow::{Context, Result};
use procfs::{CpuInfo, Current as _, Meminfo};
use rustix::system::uname;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::results::Facts;

/// Returns processor, CPUs, memory and kernel, as far as they are known.
pub fn facts() -> Facts {
    let memory = Meminfo::current().ok();
    let gib = |memory: Meminfo| memory.mem_total as f64 / (1024.0 * 1024.0 * 1024.0);
    let cpus = allowed_cpus().ok();
    let kernel = uname().release().to_string_lossy().into_owned();
    let facts = [
        ("processor", processor()),
        ("CPUs", cpus.map(|cpus| cpus.len().to_string())),
        (
            "memory",
            memory.map(|memory| format!("{:.1} GiB", gib(memory))),
        ),
        ("kernel", Some(kernel)),
    ];
    let known = facts
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.collect()
}

/// Returns the CPUs that this process may use.
///
/// # Errors
///
/// The errors of `sched_getaffinity(2)`.
pub fn allowed_cpus() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("read the CPUs of this process")?;
    let all = 0..CpuSet::MAX_CPU;
    Ok(all.filter(|&cpu| allowed.is_set(cpu)).collect())
}

/// Returns the model name of the CPUs.
fn processor() -> Option<String> {
    CpuInfo::current().ok()?.model_name(0).map(str::to_owned)
}
