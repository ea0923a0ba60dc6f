//! Prints the report as plain text for a terminal of 80 columns.

use std::io::{self, Write};

use super::remedy::Remedy;
use super::report::{Chosen, Finding, Findings, IoUring, Report};
use super::self_test::{Test, Verdict};
use super::system::{Seccomp, System};
use super::text::{bytes, number, wrap};

const WIDTH: usize = 80;
/// Column of the values: two blanks and the name come before.
const VALUE_COLUMN: usize = 22;
/// Columns of the text after a feature and its answer, a limit and its value, or a driver.
const FEATURE_COLUMN: usize = FEATURE_NAME + 8;
/// Width of the longest name of a feature.
const FEATURE_NAME: usize = 40;
const LIMIT_COLUMN: usize = 31;
const TEST_COLUMN: usize = 12;

pub(crate) fn write_findings(out: &mut Vec<u8>, findings: &Findings) -> io::Result<()> {
    writeln!(out, "uthread doctor, version {}", findings.version)?;
    write_system(out, &findings.system)?;

    section(out, "Driver")?;
    let driver = &findings.driver;
    let io_uring = &findings.io_uring;
    row(out, "default", &driver_text(driver))?;
    match &io_uring.cause {
        _ if io_uring.available => row(out, "io_uring", "available")?,
        None => row(out, "io_uring", "not available")?,
        Some(cause) => row(out, "io_uring", &format!("not available: {cause}"))?,
    }

    section(out, "Features of io_uring")?;
    write_features(out, &io_uring.features)?;
    section(out, "Operations of io_uring")?;
    write_groups(out, &io_uring.operations)?;
    section(out, "Features of the system")?;
    write_features(out, &findings.system_features)?;

    section(out, "Limits")?;
    for limit in &findings.limits {
        let name = format!("{:<14}{:>12}", limit.name, limit.text);
        columns(out, &name, LIMIT_COLUMN, &limit.allows)?;
    }
    section(out, "Self-test")
}

/// Writes the part below [`write_findings`].
pub(crate) fn write_outcome(out: &mut Vec<u8>, report: &Report) -> io::Result<()> {
    for test in &report.self_test {
        write_test(out, test, &report.findings.io_uring)?;
    }
    write_advice(out)?;
    section(out, "Remedies")?;
    let remedies = &report.findings.remedies;
    if remedies.is_empty() {
        writeln!(out, "  None needed.")?;
    }
    for (index, remedy) in remedies.iter().enumerate() {
        write_remedy(out, index + 1, remedy)?;
    }
    Ok(())
}

fn write_system(out: &mut Vec<u8>, system: &System) -> io::Result<()> {
    let unknown = || "unknown".to_owned();
    section(out, "System")?;
    let kernel = system.kernel.clone().unwrap_or_else(unknown);
    row(out, "kernel", &format!("{kernel}, {}", system.architecture))?;
    row(out, "processors", &number(system.processors as u64))?;
    let memory = system.memory_bytes.map_or_else(unknown, bytes);
    let available = system.memory_available_bytes.map_or_else(unknown, bytes);
    row(out, "memory", &format!("{memory}, {available} available"))?;
    let administrator = if system.is_administrator {
        ", with CAP_SYS_ADMIN"
    } else {
        ""
    };
    row(
        out,
        "user id",
        &format!("{}{administrator}", system.user_id),
    )?;
    let disabled = match (system.io_uring_disabled, system.io_uring_group) {
        (None, _) => "not present".to_owned(),
        (Some(0), _) => "0: allowed for all users".to_owned(),
        (Some(1), Some(group)) if group >= 0 => {
            format!("1: allowed for administrators and group {group}")
        }
        (Some(1), _) => "1: allowed for administrators only".to_owned(),
        (Some(other), _) => format!("{other}: disabled"),
    };
    row(out, "io_uring_disabled", &disabled)?;
    let seccomp = match system.seccomp {
        Some(Seccomp::None) => "no filter",
        Some(Seccomp::Strict) => "strict mode",
        Some(Seccomp::Filter) => "filtered, as in a container",
        None => "unknown",
    };
    row(out, "seccomp", seccomp)
}

fn driver_text(driver: &Chosen) -> String {
    match driver {
        Chosen {
            name: Some(name),
            details: Some(details),
            stands_in: true,
            ..
        } => format!("{name} ({details}), because io_uring is not available"),
        Chosen {
            description: Some(description),
            ..
        } => description.clone(),
        Chosen { error, .. } => format!("none: {}", error.as_deref().unwrap_or_default()),
    }
}

fn write_features(out: &mut Vec<u8>, features: &[Finding]) -> io::Result<()> {
    if features.iter().all(|feature| feature.available.is_none()) {
        return writeln!(out, "  not tested: io_uring is not available");
    }
    for feature in features {
        let (answer, text) = answer(feature);
        let name = format!("{:<width$} {answer:<3}", feature.name, width = FEATURE_NAME);
        columns(out, &name, FEATURE_COLUMN, &text)?;
    }
    Ok(())
}

/// Writes features with the same answer together: there are many, and they differ little.
fn write_groups(out: &mut Vec<u8>, features: &[Finding]) -> io::Result<()> {
    if features.iter().all(|feature| feature.available.is_none()) {
        return writeln!(out, "  not reported by the kernel");
    }
    let mut groups: Vec<(String, Vec<&str>)> = Vec::new();
    for feature in features {
        let (answer, text) = answer(feature);
        let title = format!("{answer:<5}{text}");
        match groups.iter_mut().find(|(other, _)| *other == title) {
            Some((_, names)) => names.push(feature.name),
            None => groups.push((title, vec![feature.name])),
        }
    }
    for (title, names) in groups {
        let column = (title.len() + 4).max(VALUE_COLUMN);
        columns(out, &title, column, &names.join(", "))?;
    }
    Ok(())
}

fn answer(feature: &Finding) -> (&'static str, String) {
    match feature.available {
        Some(true) => ("yes", feature.usage.to_owned()),
        Some(false) => ("no", format!("instead: {}", feature.instead)),
        None => ("-", "not tested".to_owned()),
    }
}

fn write_test(out: &mut Vec<u8>, test: &Test, io_uring: &IoUring) -> io::Result<()> {
    let text = match &test.verdict {
        Verdict::Passed(rates) => format!(
            "ok: {} echoes/s, {} cached reads/s, timers {} us late",
            number(rates.echoes_per_second),
            number(rates.file_reads_per_second),
            number(rates.timer_lateness_us),
        ),
        // The page shows this error already.
        Verdict::Unavailable { error } if Some(error) == io_uring.error.as_ref() => {
            "not available".to_owned()
        }
        Verdict::Unavailable { error } => format!("not available: {error}"),
        Verdict::Failed { error, .. } => format!("FAILED: {error}"),
    };
    columns(out, &test.driver, TEST_COLUMN, &text)
}

/// Says what each driver is for: the self-test shows that it works, and its rates are not those of
/// a server.
fn write_advice(out: &mut Vec<u8>) -> io::Result<()> {
    let test = "16 connections with both ends in this process, reads of 4 KiB from the page cache one after the other: that a \
                driver works, and not how fast a server is.";
    writeln!(out)?;
    let advice = [
        ("tested", test),
        (
            "uring",
            "for servers with many connections, for files on a disk, and for many requests at a time: one system call takes a batch",
        ),
        (
            "epoll",
            "where io_uring is forbidden: within 15 % of it in a server, and faster for single reads from the page cache",
        ),
        (
            "threads",
            "for one or a few connections, and to debug: calls are the ordinary ones",
        ),
    ];
    for (name, text) in advice {
        columns(out, name, TEST_COLUMN, text)?;
    }
    Ok(())
}

fn write_remedy(out: &mut Vec<u8>, number: usize, remedy: &Remedy) -> io::Result<()> {
    columns(out, &format!("{number}."), 5, &remedy.problem)?;
    for command in &remedy.commands {
        // On one line, so that it can be copied.
        writeln!(out, "       {command}")?;
    }
    Ok(())
}

fn section(out: &mut Vec<u8>, title: &str) -> io::Result<()> {
    writeln!(out, "\n{title}")
}

fn row(out: &mut Vec<u8>, name: &str, value: &str) -> io::Result<()> {
    columns(out, name, VALUE_COLUMN, value)
}

/// Writes a name, and a text that starts at `column` and wraps.
fn columns(out: &mut Vec<u8>, name: &str, column: usize, text: &str) -> io::Result<()> {
    for (index, line) in wrap(text, WIDTH - column).iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        writeln!(out, "  {name:<width$}{line}", width = column - 2)?;
    }
    Ok(())
}
