//! Programs that measure by themselves: run to their end, for what they print.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs a command to its end without a standard input, and returns its output.
///
/// # Errors
///
/// The last line on its standard error, without the name of the program, if it has failed; its exit
/// status if there is none, or if a signal has killed it. Any other error if the command cannot be
/// run.
pub fn output(command: &mut Command) -> Result<String> {
    let path = Path::new(command.get_program()).to_owned();
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .with_context(|| format!("run {}", path.display()))?;
    let status = output.status;
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rfind(|line| !line.trim().is_empty());
    let name = path.file_name().unwrap_or_default().display();
    let reason = match last {
        Some(line) if status.code().is_some() => {
            line.trim_start_matches(&format!("{name}: ")).to_owned()
        }
        _ => status.to_string(),
    };
    ensure!(status.success(), "{reason}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_prints_its_output_or_says_why_not() {
        let run = |script: &str| {
            let found = output(Command::new("/bin/sh").args(["-c", script]));
            found.map_err(|error| error.to_string())
        };
        let fails = |reason: &str| Err(reason.to_owned());
        assert_eq!(run("echo 1.5 20; echo x >&2"), Ok("1.5 20\n".to_owned()));
        assert_eq!(run("cat"), Ok(String::new()), "the program has input");
        let script = "echo 1; echo 'sh: none left' >&2; echo >&2; exit 3";
        assert_eq!(run(script), fails("none left"));
        assert_eq!(run("exit 3"), fails("exit status: 3"));
        let killed = "echo ready >&2; kill -KILL $$";
        assert_eq!(run(killed), fails("signal: 9 (SIGKILL)"));
        let missing = output(&mut Command::new("no-such-program")).unwrap_err();
        assert_eq!(missing.to_string(), "run no-such-program");
    }
}
