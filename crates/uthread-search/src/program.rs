//! Searching the output of other programs: of decompressors, and of one that the user names for all
//! files.

use std::ffi::OsStr;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use grep_cli::DecompressionMatcher;
use ignore::overrides::{Override, OverrideBuilder};
use uthread::process::{Child, ChildStderr, ChildStdout, Command};
use uthread::thread::JoinHandle;

use crate::descriptors::is_shortage;
use crate::options::InputOptions;

/// Maximum size of the messages of a program that are kept: enough for people, whatever it prints.
const MESSAGES_BYTES_MAX: u64 = 16 * 1024;

/// The programs whose output is searched in place of files.
#[derive(Debug)]
pub(crate) struct Programs {
    /// A program for all files that these globs match.
    pre: Option<(PathBuf, Override)>,
    decompressors: DecompressionMatcher,
}

impl Programs {
    /// Returns the programs that the user wants, if any.
    ///
    /// # Errors
    ///
    /// A glob is invalid.
    pub(crate) fn new(input: &InputOptions, current: &Path) -> anyhow::Result<Option<Programs>> {
        let pre = input.pre.as_ref();
        let pre = pre.filter(|program| !program.as_os_str().is_empty());
        if pre.is_none() && !input.search_zip {
            return Ok(None);
        }
        let mut globs = OverrideBuilder::new(current);
        for glob in &input.pre_globs {
            globs.add(glob).context("--pre-glob")?;
        }
        let globs = globs.build()?;
        Ok(Some(Programs {
            pre: pre.map(|program| (program.clone(), globs)),
            decompressors: DecompressionMatcher::new(),
        }))
    }

    /// Starts the program for this file. Returns `None` if the file itself is to be searched.
    ///
    /// # Errors
    ///
    /// The program cannot be started, or the file cannot be opened for it.
    pub(crate) fn start(&self, path: &Path) -> io::Result<Option<Running>> {
        if let Some((program, globs)) = &self.pre {
            if globs.matched(path, false).is_ignore() {
                return Ok(None);
            }
            let mut command = Command::new(program);
            command.arg(path).stdin(std::fs::File::open(path)?);
            return match Running::start(&mut command, path) {
                // Tried again.
                Err(error) if is_shortage(&error) => Err(error),
                Err(error) => Err(io::Error::new(
                    error.kind(),
                    format!("cannot start {}: {error}", program.display()),
                )),
                running => running.map(Some),
            };
        }
        let Some(known) = self.decompressors.command(path) else {
            return Ok(None);
        };
        let mut command = Command::new(known.get_program());
        command
            .args(known.get_args())
            .arg(path)
            .stdin(Stdio::null());
        match Running::start(&mut command, path) {
            // Without its program, the file is searched as it is.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            running => running.map(Some),
        }
    }
}

/// A program whose output is searched.
pub(crate) struct Running {
    name: String,
    child: Child,
    output: Option<ChildStdout>,
    messages: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    fn start(command: &mut Command, path: &Path) -> io::Result<Running> {
        let program = Path::new(command.get_program());
        let name = program.file_name().unwrap_or(OsStr::new(""));
        let name = format!("{} {}", name.display(), path.display());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let messages = child.stderr.take();
        Ok(Running {
            name,
            output: child.stdout.take(),
            messages: messages.map(|stderr| uthread::spawn(|| collect(stderr))),
            child,
        })
    }

    /// Waits until the program has ended. One that could not write all of its output may fail
    /// without a word.
    ///
    /// # Errors
    ///
    /// The program has failed; the error has its messages.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        let is_cut_off = self.output.take().is_some();
        let Some(messages) = self.messages.take() else {
            return Ok(());
        };
        let status = self.child.wait()?;
        let messages = messages.join().unwrap_or_default();
        let messages = String::from_utf8_lossy(&messages);
        match messages.trim_end() {
            _ if status.success() => Ok(()),
            "" if is_cut_off => Ok(()),
            "" => Err(io::Error::other(format!("{} failed: {status}", self.name))),
            text => Err(io::Error::other(format!("{} failed: {text}", self.name))),
        }
    }
}

impl Read for Running {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(output) = &mut self.output else {
            return Ok(0);
        };
        let count = output.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            // Its end is no longer of interest to the program.
            let output = self.output.take();
            let result = self.end();
            drop(output);
            result?;
        }
        Ok(count)
    }
}

/// Returns the beginning of what a program prints to stderr, once it has printed all.
fn collect(mut stderr: ChildStderr) -> Vec<u8> {
    let mut messages = Vec::new();
    let kept = stderr
        .by_ref()
        .take(MESSAGES_BYTES_MAX)
        .read_to_end(&mut messages);
    let rest = kept.and_then(|_| io::copy(&mut stderr, &mut io::sink()));
    if let Err(error) = rest {
        messages.extend_from_slice(error.to_string().as_bytes());
    }
    messages
}
