//! `uthread run`: a program for pthreads on fibers, as it is.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use crate::args::RunArgs;
use crate::exit::Exit;
use crate::output::tell;

const LIBRARY: &str = "libuthread_preload.so";
const PRELOAD: &str = "LD_PRELOAD";

/// The bits of a file that give a program the rights of its owner or group.
const SET_ID: u32 = 0o6000;

/// Replaces this process by the program. Returns only if that fails.
pub(crate) fn run(args: &RunArgs) -> Exit {
    let Err(error) = replace(args);
    tell(format_args!("{error:#}"));
    Exit::CouldNotStart
}

fn replace(args: &RunArgs) -> Result<std::convert::Infallible> {
    let (name, arguments) = args.program.split_first().context("no program")?;
    let program = find(name)?;
    check(&program).with_context(|| format!("{}", program.display()))?;
    let library = match &args.library {
        Some(library) => library.clone(),
        None => find_library()?,
    };
    let library = fs::canonicalize(&library).with_context(|| format!("{}", library.display()))?;
    let mut command = Command::new(&program);
    command.arg0(name).args(arguments);
    command.env(PRELOAD, before_others(library));
    if let Some(workers) = args.workers {
        command.env("UTHREAD_WORKERS", workers.to_string());
    }
    if let Some(driver) = args.driver {
        command.env("UTHREAD_DRIVER", driver.to_string());
    }
    Err(command.exec()).with_context(|| format!("{}", program.display()))
}

/// Returns the value of the variable that preloads the library before what is preloaded already.
fn before_others(library: PathBuf) -> OsString {
    let mut value = library.into_os_string();
    if let Some(others) = env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
        value.push(":");
        value.push(others);
    }
    value
}

/// Returns the file of a program, which is looked for in `PATH` if its name has no slash.
fn find(name: &OsStr) -> Result<PathBuf> {
    let path = Path::new(name);
    if name.as_encoded_bytes().contains(&b'/') {
        return Ok(path.to_owned());
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file));
    found.with_context(|| format!("{}: not found in PATH", path.display()))
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Refuses what the loader would run without the library.
fn check(program: &Path) -> Result<()> {
    let mode = fs::metadata(program)?.permissions().mode();
    ensure!(
        mode & SET_ID == 0,
        "it runs with the rights of its owner or group, for which nothing is preloaded"
    );
    let contents = fs::read(program)?;
    let contents = &*contents;
    if contents.starts_with(b"#!") {
        // Its interpreter is run, with the same environment.
        return Ok(());
    }
    let Ok(header) = FileHeader64::<Endianness>::parse(contents) else {
        bail!("it is neither a program for 64-bit Linux nor a script");
    };
    let endian = header.endian()?;
    let headers = header.program_headers(endian, contents)?;
    let mut interpreters = headers.iter().filter_map(|header| {
        let name = header.interpreter(endian, contents);
        name.ok().flatten()
    });
    ensure!(
        interpreters.next().is_some(),
        "it is linked statically, so that no library can be preloaded"
    );
    Ok(())
}

/// Returns the library beside this program, or in the folder for libraries beside its folder.
fn find_library() -> Result<PathBuf> {
    let own = env::current_exe()?;
    let folder = own.parent().context("this program has no folder")?;
    let places = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    let found = places.iter().find(|place| place.exists());
    found.cloned().with_context(|| {
        format!(
            "{LIBRARY} is not in {}: build it (cargo build --release -p uthread-preload), or name it by --library",
            folder.display()
        )
    })
}
