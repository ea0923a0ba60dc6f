//! The report of the doctor, which is also its JSON format. The keys are stable.

use std::io;

use rustix::io::Errno;
use serde::Serialize;
use uthread::runtime::{Diagnosis, Feature, Runtime, Usage};

use super::refusal;
use super::remedy::Remedy;
use super::self_test::{Test, Verdict};
use super::system::System;

/// Findings that need no self-test.
#[derive(Debug, Serialize)]
pub(crate) struct Findings {
    pub(crate) version: &'static str,
    pub(crate) system: System,
    pub(crate) driver: Chosen,
    pub(crate) io_uring: IoUring,
    pub(crate) system_features: Vec<Finding>,
    pub(crate) limits: Vec<Limit>,
    pub(crate) remedies: Vec<Remedy>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    #[serde(flatten)]
    pub(crate) findings: Findings,
    pub(crate) self_test: Vec<Test>,
    /// True if there is a default driver, and no self-test failed.
    pub(crate) healthy: bool,
}

/// The default driver, or the reason why there is none.
#[derive(Debug, Serialize)]
pub(crate) struct Chosen {
    pub(crate) name: Option<String>,
    pub(crate) details: Option<String>,
    /// Name, details, and the reason for the choice.
    pub(crate) description: Option<String>,
    /// True if the driver replaces io_uring, which was refused.
    pub(crate) stands_in: bool,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct IoUring {
    pub(crate) available: bool,
    pub(crate) setup: Option<String>,
    pub(crate) error: Option<String>,
    /// The kernel's error number of `error`, and its message.
    pub(crate) errno: Option<i32>,
    pub(crate) cause: Option<String>,
    pub(crate) features: Vec<Finding>,
    pub(crate) operations: Vec<Finding>,
}

/// A feature of the kernel.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    /// `None` if it could not be tested.
    pub(crate) available: Option<bool>,
    pub(crate) usage: &'static str,
    pub(crate) instead: &'static str,
}

/// A limit, and how much it allows.
#[derive(Debug, Serialize)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    /// `None` if unlimited or unknown.
    pub(crate) value: Option<u64>,
    /// The value as text.
    pub(crate) text: String,
    pub(crate) allows: String,
}

impl Report {
    pub(crate) fn new(mut findings: Findings, self_test: Vec<Test>) -> Report {
        let healthy = findings.driver.error.is_none();
        // Drivers that fail with the same error share a remedy: the cause may not be theirs.
        let mut faults: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        for test in &self_test {
            let Verdict::Failed { error, command } = &test.verdict else {
                continue;
            };
            match faults.iter_mut().find(|(other, ..)| other == error) {
                Some((.., drivers)) => drivers.push(&test.driver),
                None => faults.push((error, command, vec![&test.driver])),
            }
        }
        let healthy = healthy && faults.is_empty();
        for (error, command, drivers) in faults {
            let problem = format!("The self-test fails with {}: {error}.", drivers.join(", "));
            findings.remedies.push(Remedy::new(problem, [command]));
        }
        Report {
            findings,
            self_test,
            healthy,
        }
    }
}

impl Chosen {
    pub(crate) fn new(runtime: io::Result<Runtime>) -> Chosen {
        let (driver, error) = match &runtime {
            Ok(runtime) => (Some(runtime.driver()), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Chosen {
            name: driver.map(|driver| driver.driver().to_string()),
            details: driver.map(|driver| driver.details().to_owned()),
            description: driver.map(ToString::to_string),
            stands_in: driver.is_some_and(|driver| driver.refusal().is_some()),
            error,
        }
    }
}

impl IoUring {
    pub(crate) fn new(diagnosis: &Diagnosis) -> IoUring {
        let error = diagnosis.ring.as_ref().err();
        let errno = error.and_then(refusal::errno);
        IoUring {
            available: error.is_none(),
            setup: diagnosis.ring.as_ref().ok().cloned(),
            error: error.map(ToString::to_string),
            errno: errno.map(Errno::raw_os_error),
            cause: errno.map(|errno| io::Error::from(errno).to_string()),
            features: features(&diagnosis.ring_features),
            operations: features(&diagnosis.ring_operations),
        }
    }
}

pub(crate) fn features(features: &[Feature]) -> Vec<Finding> {
    let finding = |feature: &Feature| Finding {
        name: feature.name,
        available: feature.available,
        usage: match feature.usage {
            Usage::Used => "used",
            Usage::Reserve => "used as a fallback",
            Usage::OnRequest => "used on request",
            _ => "not used yet",
        },
        instead: feature.instead,
    };
    features.iter().map(finding).collect()
}
