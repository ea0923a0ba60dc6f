//! `uthread search`: finds text in files with the crate `uthread-search`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use uthread_search::{Options, Outcome};

use crate::exit::Exit;
use crate::output::tell;

pub(crate) fn run(options: &Options) -> Exit {
    match uthread_search::run(options) {
        Ok(Outcome::Found) => Exit::Done,
        // The codes of grep and ripgrep.
        Ok(Outcome::NothingFound) => Exit::FailedRunning,
        Ok(Outcome::Failed) => Exit::CouldNotStart,
        Err(error) => {
            tell(format_args!("{error:#}"));
            Exit::CouldNotStart
        }
    }
}

/// Environment variable with the path of a file of options, as in ripgrep.
const CONFIGURATION: &str = "RIPGREP_CONFIG_PATH";

/// Returns the options in the user's file, unless the user wants it not to be read. If it cannot be
/// read, the search goes on without.
pub(crate) fn configured(options: &Options) -> Vec<OsString> {
    let path = env::var_os(CONFIGURATION).filter(|path| !path.is_empty());
    match path.map(PathBuf::from) {
        Some(path) if options.reads_configuration() => read(&path),
        _ => Vec::new(),
    }
}

/// Reads a file with an argument a line, apart from empty lines and comments.
fn read(path: &Path) -> Vec<OsString> {
    let text = fs::read(path).unwrap_or_else(|error| {
        tell(format_args!(
            "cannot read {}, which {CONFIGURATION} names: {error}",
            path.display()
        ));
        Vec::new()
    });
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let arguments = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    let argument = |line: &[u8]| OsString::from_vec(line.to_vec());
    arguments.map(argument).collect()
}
