//! Which CPUs a server gets, and which its load.

use std::fs;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

use crate::setup::Unavailable;

#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) server_cpus: Vec<usize>,
    pub(crate) load_cpus: Vec<usize>,
}

impl Place {
    /// One CPU per worker, the rest for the load: sharing one would measure the scheduler.
    pub(crate) fn apart(workers: usize) -> Result<Place> {
        let allowed = allowed_cpus()?;
        divide(&allowed, workers).ok_or_else(|| too_few(workers + 1, allowed.len()))
    }

    /// All CPUs for both: a server that is to use them all has to share them with its load.
    pub(crate) fn shared(workers: usize) -> Result<Place> {
        let allowed = allowed_cpus()?;
        if workers > allowed.len() {
            return Err(too_few(workers, allowed.len()));
        }
        Ok(Place {
            server_cpus: allowed.clone(),
            load_cpus: allowed,
        })
    }

    /// Apart where there are CPUs enough, else shared.
    pub(crate) fn apart_or_shared(workers: usize) -> Result<Place> {
        Place::apart(workers).or_else(|_| Place::shared(workers))
    }

    /// Whether the load has CPUs of its own.
    pub(crate) fn is_apart(&self) -> bool {
        let mut load_cpus = self.load_cpus.iter();
        !load_cpus.any(|cpu| self.server_cpus.contains(cpu))
    }

    /// Pins this process, and so the load it generates or starts.
    pub(crate) fn pin_load(&self) -> Result<()> {
        let mut load = CpuSet::new();
        self.load_cpus.iter().for_each(|&cpu| load.set(cpu));
        sched_setaffinity(None, &load).context("pin the load to its CPUs")
    }

    /// Who runs where, in a sentence.
    pub(crate) fn describe(&self, workers: usize) -> String {
        let on = |cpus: &[usize]| match cpus {
            [cpu] => format!("CPU {cpu}"),
            _ => format!(
                "CPUs {}",
                cpus.iter()
                    .map(usize::to_string)
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        };
        let plural = if workers == 1 { "" } else { "s" };
        match self.is_apart() {
            true => format!(
                "{workers} worker{plural} on {}, the load on {}.",
                on(&self.server_cpus),
                on(&self.load_cpus)
            ),
            false => format!(
                "{workers} worker{plural} on {}, which the load shares.",
                on(&self.server_cpus)
            ),
        }
    }

    /// Where a table's figures were taken.
    pub(crate) fn to_json(&self, workers: usize) -> Value {
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        json!({
            "kernel": kernel.trim(),
            "cpu_model": processor(),
            "workers": workers,
            "server_cpus": self.server_cpus,
            "load_cpus": self.load_cpus,
        })
    }
}

/// What the CPUs are called.
pub(crate) fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut lines = text.lines();
    let name = lines.find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map(|(_, name)| name.to_owned())
}

pub(crate) fn allowed_cpus() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("read the CPUs of this process")?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .collect())
}

fn divide(allowed: &[usize], workers: usize) -> Option<Place> {
    let (server, load) = allowed.split_at_checked(workers)?;
    (!load.is_empty()).then(|| Place {
        server_cpus: server.to_vec(),
        load_cpus: load.to_vec(),
    })
}

fn too_few(needed: usize, have: usize) -> anyhow::Error {
    Unavailable(format!(
        "the workers and their load need {needed} CPUs, this process has {have}"
    ))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_gets_the_cpus_that_the_servers_leave() {
        let check = |allowed: &[usize], workers, expected: Option<(&[usize], &[usize])>| {
            let expected = expected.map(|(server, load)| Place {
                server_cpus: server.to_vec(),
                load_cpus: load.to_vec(),
            });
            assert_eq!(
                divide(allowed, workers),
                expected,
                "{workers} of {allowed:?}"
            );
            assert!(expected.is_none_or(|place| place.is_apart()));
        };
        check(&[0, 1], 1, Some((&[0], &[1])));
        check(&[2, 5, 7], 1, Some((&[2], &[5, 7])));
        check(&[0, 1, 2, 3], 2, Some((&[0, 1], &[2, 3])));
        check(&[0], 1, None);
        check(&[0, 1], 2, None);
        check(&[0, 1], 3, None);
    }

    #[test]
    fn more_workers_than_cpus_is_unavailable() {
        let have = allowed_cpus().unwrap().len();
        let place = Place::shared(have).unwrap();
        assert_eq!(place.server_cpus, place.load_cpus);
        assert_eq!(Place::apart_or_shared(have).unwrap(), place);
        assert!(!place.is_apart());
        assert!(Place::shared(have + 1).unwrap_err().is::<Unavailable>());
        assert!(Place::apart(have).unwrap_err().is::<Unavailable>());
    }
}
