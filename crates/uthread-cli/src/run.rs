//! `uthread run`: a program for pthreads on fibers, as it is.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use anyhow::{Context as _, Result, bail, ensure};
use object::Endianness;
use object::elf::{EM_X86_64, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use uthread::root::SECTION;

use crate::args::RunArgs;
use crate::exit::Exit;
use crate::output::tell;

const LIBRARY: &str = "libuthread_preload.so";
const PRELOAD: &str = "LD_PRELOAD";

/// The bits of a file that give a program the rights of its owner or group.
const SET_ID: u32 = 0o6000;

/// The attribute of a file that gives a program rights of the system administrator.
const CAPABILITIES: &str = "security.capability";

/// How the name of the loader of glibc begins.
const LOADER_OF_GLIBC: &[u8] = b"ld-linux";

/// Number of files that are looked at: the kernel runs no longer chains of scripts.
const INTERPRETERS_MAX: usize = 6;

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
    if args.stats {
        // The program takes the place of this process.
        command.env("UTHREAD_STATS", process::id().to_string());
    }
    if args.verbose {
        command.env("UTHREAD_VERBOSE", "1");
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

/// Refuses what the loader would run without the library: the program, or the interpreter of a script.
fn check(program: &Path) -> Result<()> {
    let mut program = program.to_owned();
    for _ in 0..INTERPRETERS_MAX {
        check_rights(&program)?;
        let contents = fs::read(&program)?;
        let Some(line) = contents.strip_prefix(b"#!") else {
            return check_file(&contents);
        };
        // It is run with the same environment.
        program = interpreter(line).context("it is a script that names no interpreter")?;
        ensure!(
            program.exists(),
            "its interpreter {} does not exist",
            program.display()
        );
    }
    bail!("its interpreter is a script, too, and so on")
}

/// Returns the interpreter that the first line of a script names.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    (!name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(name)))
}

fn check_rights(program: &Path) -> Result<()> {
    let mode = fs::metadata(program)?.permissions().mode();
    ensure!(
        mode & SET_ID == 0,
        "it runs with the rights of its owner or group, for which nothing is preloaded"
    );
    let has_capabilities = rustix::fs::getxattr(program, CAPABILITIES, &mut [0; 64][..]).is_ok();
    ensure!(
        !has_capabilities,
        "it runs with capabilities of its own, for which nothing is preloaded"
    );
    Ok(())
}

/// Refuses what is no program for x86-64 that the loader of glibc loads.
fn check_file(contents: &[u8]) -> Result<()> {
    let Ok(header) = FileHeader64::<Endianness>::parse(contents) else {
        ensure!(
            FileHeader32::<Endianness>::parse(contents).is_err(),
            "it is for a 32-bit CPU, and the library is for x86-64"
        );
        bail!("it is neither a program for 64-bit Linux nor a script");
    };
    let endian = header.endian()?;
    ensure!(
        header.e_machine(endian) == EM_X86_64,
        "it is for another CPU, and the library is for x86-64"
    );
    let headers = header.program_headers(endian, contents)?;
    let mut loaders = headers.iter().filter_map(|header| {
        let name = header.interpreter(endian, contents);
        name.ok().flatten()
    });
    let loader = loaders
        .next()
        .context("it is linked statically, so that no library can be preloaded")?;
    let loader = Path::new(OsStr::from_bytes(loader));
    let name = loader.file_name().unwrap_or_default();
    ensure!(
        name.as_encoded_bytes().starts_with(LOADER_OF_GLIBC),
        "its loader is {}, and not that of glibc",
        loader.display()
    );
    let sections = header.sections(endian, contents)?;
    ensure!(
        sections
            .section_by_name(endian, SECTION.as_bytes())
            .is_none(),
        "it uses uthread itself, and has its own fibers"
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
