//! `uthread-bench page`: draws a page again from the JSON of a report, for instance by a newer version of the drawing.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::results::Results;
use crate::say::say;
use crate::targets;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What a report has written
    #[arg(value_name = "REPORT.json")]
    report: PathBuf,
    /// Where the page goes [default: beside the report, as .html]
    #[arg(long, value_name = "FILE.html")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let text = fs::read_to_string(&args.report)
        .with_context(|| format!("read {}", args.report.display()))?;
    let results: Results = serde_json::from_str(&text)
        .with_context(|| format!("{} is no report", args.report.display()))?;
    let output = args
        .output
        .clone()
        .unwrap_or_else(|| args.report.with_extension("html"));
    write(&results, &output)?;
    say!("{}", output.display());
    Ok(())
}

/// The page in one piece: who reads the file meanwhile finds the old one or the new one.
pub(crate) fn write(results: &Results, output: &Path) -> Result<()> {
    let page = super::draw(results, &targets::judge(results));
    write_whole(output, page.as_bytes()).with_context(|| format!("write {}", output.display()))
}

/// As [`write()`] does it.
pub(crate) fn write_whole(output: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = match output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Others may read the page, as they may read any file that is written here.
    let mut file = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(output)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_drawn_from_json_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("report.json");
        let args = |output| Args {
            report: report.clone(),
            output,
        };
        assert!(run(&args(None)).is_err());
        fs::write(&report, "{").unwrap();
        let error = format!("{:#}", run(&args(None)).unwrap_err());
        assert!(error.contains("report.json is no report: EOF"), "{error}");

        fs::write(&report, serde_json::to_string(&Results::default()).unwrap()).unwrap();
        let other = folder.path().join("page.html");
        fs::write(&other, "what was there before").unwrap();
        run(&args(None)).unwrap();
        run(&args(Some(other.clone()))).unwrap();
        let page = fs::read_to_string(report.with_extension("html")).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert_eq!(fs::read_to_string(&other).unwrap(), page);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);

        let nowhere = folder.path().join("no/page.html");
        let error = format!("{:#}", run(&args(Some(nowhere))).unwrap_err());
        assert!(error.contains("no/page.html: No such file"), "{error}");
    }
}
