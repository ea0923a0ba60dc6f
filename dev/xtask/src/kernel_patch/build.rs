//! Configures and compiles a kernel.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// The compressed kernel, below the folder of the build.
const IMAGE: &str = "arch/x86/boot/bzImage";

/// Configures a kernel without anything but what `config` names and what that needs.
///
/// # Errors
///
/// `Other` if the kernel has no option of that name, or if it depends on one that is not set.
pub(super) fn configure(tree: &Path, build: &Path, config: &Path) -> io::Result<()> {
    fs::create_dir_all(build)?;
    let all = format!("KCONFIG_ALLCONFIG={}", config.canonicalize()?.display());
    make(tree, build, &["allnoconfig", &all])?;
    let (wanted, found) = (fs::read_to_string(config)?, build.join(".config"));
    let found = fs::read_to_string(found)?;
    match missing(&wanted, &found)[..] {
        [] => Ok(()),
        ref missing => {
            let text = format!("the kernel cannot have {}", missing.join(", "));
            Err(io::Error::other(text))
        }
    }
}

/// Compiles a kernel whose release ends with `name`, and returns its image.
pub(super) fn image(tree: &Path, build: &Path, name: &str) -> io::Result<PathBuf> {
    let jobs = format!("-j{}", thread::available_parallelism()?);
    let name = format!("LOCALVERSION={name}");
    make(tree, build, &[&jobs, &name, "bzImage"])?;
    Ok(build.join(IMAGE))
}

fn make(tree: &Path, build: &Path, arguments: &[&str]) -> io::Result<()> {
    let log = build.with_extension("log");
    let output = File::create(&log)?;
    let mut command = Command::new("make");
    command.arg("-C").arg(tree).args(arguments);
    command.arg(format!("O={}", build.display()));
    command.stdin(Stdio::null()).stderr(output.try_clone()?);
    let status = command.stdout(output).status()?;
    if status.success() {
        Ok(())
    } else {
        let text = format!("make failed: {status}: see {}", log.display());
        Err(io::Error::other(text))
    }
}

/// Returns the options that a configuration lacks.
fn missing<'a>(wanted: &'a str, found: &str) -> Vec<&'a str> {
    let options = wanted.lines().filter(|line| line.starts_with("CONFIG_"));
    let is_missing = |option: &&str| !found.lines().any(|line| line == *option);
    options.filter(is_missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_option_is_found() {
        let wanted = "# Why.\nCONFIG_A=y\nCONFIG_B=y\n";
        let found = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_BB=y\n";
        assert_eq!(missing(wanted, found), ["CONFIG_B=y"]);
        assert_eq!(missing(wanted, wanted), [""; 0]);
    }
}
