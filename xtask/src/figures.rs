//! `cargo xtask figures`: checks that the README has the figures of the report, or writes them
//! there.

use std::fs;
use std::io;
use std::path::Path;

use crate::tidy::Finding;
use crate::tidy::figures::{README, REPORT, compare, replaced};

/// Returns the result in words, or a finding.
pub(crate) fn check(root: &Path) -> io::Result<Result<String, Finding>> {
    let found = compare(
        &fs::read_to_string(root.join(README))?,
        report(root)?.as_deref(),
    );
    Ok(found.map(|lines| match lines {
        Some(lines) => format!("figures: {lines} lines of {README} equal those of {REPORT}"),
        None => format!(
            "figures: nothing to compare: no {REPORT}, and no marks for its figures in {README}"
        ),
    }))
}

pub(crate) fn write(root: &Path) -> io::Result<Result<String, Finding>> {
    let Some(report) = report(root)? else {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{REPORT} does not exist"),
        ));
    };
    let before = fs::read_to_string(root.join(README))?;
    let after = match replaced(&before, &report) {
        Ok(after) => after,
        Err(finding) => return Ok(Err(finding)),
    };
    if after == before {
        return Ok(Ok(format!("figures: {README} is up to date")));
    }
    fs::write(root.join(README), after)?;
    Ok(Ok(format!("figures: written into {README}")))
}

fn report(root: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(root.join(REPORT)) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
