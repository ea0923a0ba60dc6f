//! What a program prints that measures by itself; where it fails, what it said last.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs it to its end, without a standard input.
pub(super) fn printed(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("run {}", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    let (status, last) = (output.status, last.unwrap_or_default());
    ensure!(status.success(), "{status}: {last}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed_by(script: &str) -> Result<String> {
        printed(Command::new("sh").args(["-c", script]))
    }

    #[test]
    fn a_program_prints_or_says_why_not() {
        assert_eq!(printed_by("echo 1.5 20; echo x >&2").unwrap(), "1.5 20\n");
        let error = printed_by("echo 1; echo none left >&2; echo >&2; exit 3").unwrap_err();
        assert_eq!(error.to_string(), "exit status: 3: none left");
        assert_eq!(printed_by("cat").unwrap(), "", "it has no input");
        let missing = printed(&mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(missing.to_string(), "run no-such-program");
    }
}
