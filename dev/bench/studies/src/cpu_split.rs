//! The CPUs of a server and those of its load.

use anyhow::Result;
use uthread_report::Unavailable;
use uthread_report::machine::allowed_cpus;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CpuSplit {
    pub(crate) server_cpus: Vec<usize>,
    pub(crate) load_cpus: Vec<usize>,
}

impl CpuSplit {
    /// Gives each worker a CPU and the load the rest, or all CPUs to both where there are too few.
    pub(crate) fn apart_or_shared(workers: usize) -> Result<CpuSplit> {
        divide(&allowed_cpus()?, workers)
    }

    /// Returns whether the load has CPUs of its own.
    pub(crate) fn is_apart(&self) -> bool {
        let mut load_cpus = self.load_cpus.iter();
        !load_cpus.any(|cpu| self.server_cpus.contains(cpu))
    }

    /// Describes the distribution of the CPUs in a sentence.
    pub(crate) fn describe(&self, workers: usize) -> String {
        let on = |cpus: &[usize]| {
            let numbers: Vec<String> = cpus.iter().map(usize::to_string).collect();
            let plural = if cpus.len() == 1 { "" } else { "s" };
            format!("CPU{plural} {}", numbers.join(", "))
        };
        let plural = if workers == 1 { "" } else { "s" };
        let server = format!("{workers} worker{plural} on {}", on(&self.server_cpus));
        if self.is_apart() {
            format!("{server}, the load on {}.", on(&self.load_cpus))
        } else {
            format!("{server}, which the load shares.")
        }
    }
}

fn divide(allowed: &[usize], workers: usize) -> Result<CpuSplit> {
    let (server, load) = match allowed.split_at_checked(workers) {
        Some((server, load)) if !load.is_empty() => (server, load),
        Some(_) => (allowed, allowed),
        None => {
            let have = allowed.len();
            let reason = format!("{workers} workers need as many CPUs, this process has {have}");
            return Err(Unavailable(reason).into());
        }
    };
    Ok(CpuSplit {
        server_cpus: server.to_vec(),
        load_cpus: load.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_gets_the_cpus_that_the_server_leaves_or_shares_all() {
        let check = |allowed: &[usize], workers, server: &[usize], load: &[usize], words: &str| {
            let split = divide(allowed, workers).unwrap();
            assert_eq!(
                (&split.server_cpus[..], &split.load_cpus[..]),
                (server, load)
            );
            assert_eq!(split.describe(workers), words);
        };
        check(
            &[0, 1],
            1,
            &[0],
            &[1],
            "1 worker on CPU 0, the load on CPU 1.",
        );
        let apart = "1 worker on CPU 2, the load on CPUs 5, 7.";
        check(&[2, 5, 7], 1, &[2], &[5, 7], apart);
        let shared = "2 workers on CPUs 0, 1, which the load shares.";
        check(&[0, 1], 2, &[0, 1], &[0, 1], shared);
        assert!(divide(&[0, 1], 3).unwrap_err().is::<Unavailable>());
        assert!(!allowed_cpus().unwrap().is_empty());
    }
}
