//! `uthread port`: ports a program from `std` to fibers by replacing paths.
//!
//! [`uthread_port`] ports a text; this reads and writes the files.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use uthread_port::{Note, Options};

use crate::args::PortArgs;
use crate::exit::Exit;
use crate::output::tell;

pub(crate) fn run(args: &PortArgs) -> Exit {
    let files = match files(&args.paths) {
        Ok(files) => files,
        Err(error) => {
            tell(format_args!("{error:#}"));
            return Exit::CouldNotStart;
        }
    };
    let options = Options {
        locals: args.locals,
        main: args.main,
        tests: args.tests,
    };
    match port(&files, options, args.check) {
        Ok(changes) if args.check && changes > 0 => Exit::FailedRunning,
        Ok(_) => Exit::Done,
        Err(error) => {
            tell(format_args!("{error:#}"));
            Exit::FailedRunning
        }
    }
}

/// Ports these files, or only prints the changes; returns the number of changes.
fn port(files: &[PathBuf], options: Options, check: bool) -> anyhow::Result<usize> {
    let (mut changes, mut changed_files, mut notes) = (0, 0, 0);
    let mut out = io::stdout().lock();
    for path in files {
        let name = path.display();
        let source = fs::read(path).with_context(|| format!("cannot read {name}"))?;
        let Ok(source) = String::from_utf8(source) else {
            writeln!(out, "{name}:1: kept the file: it is not UTF-8")?;
            continue;
        };
        let ported = uthread_port::port(&source, options);
        for note in &ported.notes {
            let Note { line, what, remedy } = note;
            writeln!(out, "{name}:{line}: kept {what}: {remedy}")?;
        }
        notes += ported.notes.len();
        if ported.changes == 0 {
            continue;
        }
        changes += ported.changes;
        changed_files += 1;
        match check {
            true => writeln!(out, "{name}: changes to make: {}", ported.changes)?,
            false => {
                fs::write(path, ported.text).with_context(|| format!("cannot write {name}"))?;
            }
        }
    }
    let title = if check { "to make" } else { "made" };
    writeln!(
        out,
        "changes {title}: {changes} in {changed_files} of {} files; lines that need attention: {notes}",
        files.len()
    )?;
    Ok(changes)
}

/// Returns the Rust files of these paths in order. In directories, skips hidden files and those of cargo.
fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        let context = || format!("cannot read {}", path.display());
        match fs::metadata(path).with_context(context)?.is_dir() {
            true => walk(path, &mut found).with_context(context)?,
            false => found.push(path.clone()),
        }
    }
    Ok(found)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = fs::read_dir(folder)?;
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        let kind = entry.file_type()?;
        let is_left_out = name == "target" || name.as_encoded_bytes().starts_with(b".");
        if kind.is_dir() && !is_left_out {
            walk(&path, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
    Ok(())
}
