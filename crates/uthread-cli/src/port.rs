//! `uthread port`: ports a program from `std` to fibers by replacing paths.
//!
//! [`uthread_port`] ports a text; this reads and writes the files.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use uthread_port::{Note, Options};
use uthread_report::file::write_whole;

use crate::args::PortArgs;
use crate::audit;
use crate::exit::Exit;
use crate::output::tell;
use crate::rust_files;

pub(crate) fn run(args: &PortArgs) -> Exit {
    let files = match rust_files::of(&args.paths) {
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
        if check {
            writeln!(out, "{name}: changes to make: {}", ported.changes)?;
        } else {
            write_whole(path, ported.text.as_bytes())
                .with_context(|| format!("cannot write {name}"))?;
        }
    }
    let title = if check { "to make" } else { "made" };
    writeln!(
        out,
        "changes {title}: {changes} in {changed_files} of {} files; lines that need attention: {notes}",
        files.len()
    )?;
    // A program whose dependencies block its workers is not ported by its imports.
    if let Some(package) = files.first().and_then(|file| package_of(file)) {
        audit::warn(&package, &mut out)?;
    }
    Ok(changes)
}

/// Returns the folder of the package that a file belongs to, if there is one.
fn package_of(file: &Path) -> Option<PathBuf> {
    let file = fs::canonicalize(file).ok()?;
    let is_package = |folder: &&Path| folder.join("Cargo.toml").exists();
    file.ancestors().find(is_package).map(Path::to_owned)
}
