//! The report: all that the doctor has found, as it is written to JSON. Its keys stay as they are.

use std::io;

use rustix::io::Errno;
use serde::Serialize;
use uthread::{Diagnosis, Feature, Runtime, Usage};

use super::refusal;
use super::self_test::{Test, Verdict};
use super::system::System;

/// What is known before the drivers are tried out.
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
    /// Whether a program would run.
    pub(crate) healthy: bool,
}

/// The driver that a program gets which asks for none, or why it gets none.
#[derive(Debug, Serialize)]
pub(crate) struct Chosen {
    pub(crate) name: Option<String>,
    pub(crate) details: Option<String>,
    /// The two, and why it was chosen.
    pub(crate) description: Option<String>,
    /// Whether it stands in for io_uring, which is refused.
    pub(crate) stands_in: bool,
    pub(crate) error: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct IoUring {
    pub(crate) available: bool,
    pub(crate) setup: Option<String>,
    pub(crate) error: Option<String>,
    /// The kernel's own number and words, of which the error was made.
    pub(crate) errno: Option<i32>,
    pub(crate) cause: Option<String>,
    pub(crate) features: Vec<Finding>,
    pub(crate) operations: Vec<Finding>,
}

/// A feature of the kernel.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    /// `None` where it could not be tried.
    pub(crate) available: Option<bool>,
    pub(crate) usage: &'static str,
    pub(crate) instead: &'static str,
}

/// A limit, and what it allows.
#[derive(Debug, Serialize)]
pub(crate) struct Limit {
    pub(crate) name: &'static str,
    /// `None` is unlimited or unknown.
    pub(crate) value: Option<u64>,
    /// The value in words.
    pub(crate) text: String,
    pub(crate) allows: String,
}

/// Something that needs attention, and what to do about it.
#[derive(Debug, Serialize)]
pub(crate) struct Remedy {
    pub(crate) problem: String,
    pub(crate) commands: Vec<String>,
}

impl Remedy {
    pub(crate) fn new<'a>(
        problem: impl Into<String>,
        commands: impl IntoIterator<Item = &'a str>,
    ) -> Remedy {
        Remedy {
            problem: problem.into(),
            commands: commands.into_iter().map(str::to_owned).collect(),
        }
    }
}

impl Report {
    pub(crate) fn new(mut findings: Findings, self_test: Vec<Test>) -> Report {
        let healthy = findings.driver.error.is_none();
        // Drivers of one fault together: it may be nobody's own.
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
            let problem = format!("The self-test of {} fails: {error}.", drivers.join(", "));
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
            Usage::Reserve => "in reserve",
            Usage::OnRequest => "used where asked for",
            _ => "not used yet",
        },
        instead: feature.instead,
    };
    features.iter().map(finding).collect()
}
