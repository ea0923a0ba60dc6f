//! The programs that ours is compared with: those of `dev/bench/peers`, crates of the registry, and
//! packages of Debian. A missing program is data as well, so that a page can show it with the
//! command that installs it.

#[path = "../../peers/page.rs"]
pub(crate) mod page;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;
use uthread_report::results::Subject;
use uthread_report::{say, tell};

use crate::alone::Measuring;
use crate::setup::{built, peer_path};

/// The repository this program was built from.
pub(crate) const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// Length of the message of a failed build: one line of a page.
const REASON_CHARACTERS_MAX: usize = 200;

/// Besides `PATH`: Debian keeps servers where only root looks, and PostgreSQL in a folder for each
/// version.
const SYSTEM_PROGRAMS: &str = "/usr/sbin";
const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// The folders of `dev/bench/peers`.
const BUILT: [&str; 9] = [
    "floor", "threads", "go", "tokio", "monoio", "compio", "may", "rayon", "actix",
];

/// Crates of the registry and their programs, which are installed with their default features.
const FROM_REGISTRY: [(&str, &str); 2] = [
    ("static-web-server", "static-web-server"),
    ("ripgrep", "rg"),
];

/// Packages of Debian: the program, its package, and the option that prints its version.
const INSTALLED: [(&str, &str, &str); 7] = [
    ("nginx", "nginx-light", "-v"),
    ("apache2", "apache2-bin", "-v"),
    ("node", "nodejs", "--version"),
    ("haproxy", "haproxy", "-v"),
    ("fio", "fio", "--version"),
    ("h2load", "nghttp2-client", "--version"),
    ("postgres", "postgresql", "--version"),
];

/// A program that can be run. Ours and those of `dev/bench/peers` have the commands of
/// `dev/bench/peers/README.md`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Arguments before a command.
    pub(crate) prefix: &'static [&'static str],
    /// Version of its runtime.
    pub(crate) version: Option<String>,
}

impl Program {
    fn new(name: &str, path: PathBuf, version: Option<String>) -> Program {
        Program {
            name: name.to_owned(),
            path,
            prefix: &[],
            version,
        }
    }
}

/// Why a program is missing, and what to do about it.
type Missing = String;

/// Builds the peers and prints which programs are there and which are missing.
pub(crate) fn run() {
    let installed = INSTALLED.map(|(name, ..)| name);
    let names = BUILT
        .into_iter()
        .chain(FROM_REGISTRY.map(|(name, _)| name))
        .chain(installed);
    for (subject, program) in names.map(find) {
        let version = subject.version.unwrap_or_default();
        let missing = format!("missing: {}", subject.missing.unwrap_or_default());
        let found = program.map_or(missing, |program| program.path.display().to_string());
        say!("{:18} {version:11} {found}", subject.name);
    }
}

/// Returns the peer on uthread; `prefix` chooses driver and mode.
pub(crate) fn own(name: &str, prefix: &'static [&'static str]) -> Result<Program> {
    Ok(Program {
        name: name.to_owned(),
        path: peer_path()?,
        prefix,
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
    })
}

/// Returns the peer on uthread that serves the rows of a database.
pub(crate) fn own_with_database() -> Result<Program> {
    Ok(Program::new(
        "uthread",
        built("uthread-peer-database")?,
        None,
    ))
}

/// Returns the subjects of a study with their programs, `None` for missing ones: ours, then those
/// of `peers` that are measured.
pub(crate) fn compared(
    ours: Vec<Program>,
    peers: &[impl AsRef<str>],
    measuring: &Measuring,
) -> (Vec<Subject>, Vec<Option<Program>>) {
    let ours = ours.into_iter().map(|program| {
        let subject = Subject::ours(&program.name);
        if program.path.is_file() {
            return (subject, Some(program));
        }
        let missing = Some("it is not built; to build it: cargo build --release".to_owned());
        (Subject { missing, ..subject }, None)
    });
    let measured = peers.iter().map(AsRef::as_ref);
    let measured = measured.filter(|name| measuring.includes(name));
    ours.chain(measured.map(find)).unzip()
}

/// Finds a program: a folder of `dev/bench/peers`, which is built if it has changed, a crate of the
/// registry, or an installed one.
pub(crate) fn find(name: &str) -> (Subject, Option<Program>) {
    let crates = FROM_REGISTRY;
    let found = match crates.into_iter().find(|(of_crate, _)| *of_crate == name) {
        Some((name, program)) => from_registry(name, program),
        None if BUILT.contains(&name) => build(name),
        None => installed(name),
    };
    match found {
        Ok(program) => {
            let version = program.version.clone();
            (Subject::peer(name, version, None), Some(program))
        }
        Err(missing) => (Subject::peer(name, None, Some(missing)), None),
    }
}

fn build(name: &str) -> Result<Program, Missing> {
    let source = Path::new(REPOSITORY).join("dev/bench/peers").join(name);
    let target = target();
    let (build, path, version) = match name {
        "go" => {
            let path = target.join("peer-go");
            let mut build = Command::new("go");
            build
                .args(["build", "-o"])
                .arg(&path)
                .arg(".")
                .current_dir(&source);
            (build, path, version_of("go", "version"))
        }
        _ => {
            let path = target.join(format!("release/peer-{name}"));
            let lock = fs::read_to_string(source.join("Cargo.lock")).unwrap_or_default();
            let arguments = [
                "build",
                "--quiet",
                "--locked",
                "--release",
                "--manifest-path",
            ];
            let build = command("cargo", &arguments, [&source.join("Cargo.toml"), &target]);
            (build, path, version_in_lock(&lock, name))
        }
    };
    tell!("building the peer {name}");
    run_build(build)?;
    Ok(Program::new(name, path, version))
}

/// Installs a crate, unless it is installed.
fn from_registry(name: &str, program: &str) -> Result<Program, Missing> {
    let tools = target().join("tools");
    let path = tools.join("bin").join(program);
    if !path.is_file() {
        tell!("installing {name}");
        let arguments = ["install", "--quiet", "--locked", name, "--root"];
        run_build(command("cargo", &arguments, [&tools, &tools.join("build")]))?;
    }
    let version = version_of(&path, "--version");
    Ok(Program::new(name, path, version))
}

fn installed(name: &str) -> Result<Program, Missing> {
    let path = path_of(name)?;
    let known = INSTALLED.into_iter().find(|&(known, ..)| known == name);
    let version = known.and_then(|(.., argument)| version_of(&path, argument));
    Ok(Program::new(name, path, version))
}

/// Finds an installed program.
fn path_of(name: &str) -> Result<PathBuf, Missing> {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir(POSTGRES_VERSIONS).into_iter().flatten();
    let versions = versions.flatten().map(|version| version.path().join("bin"));
    let system = [PathBuf::from(SYSTEM_PROGRAMS)];
    let mut folders = env::split_paths(&path).chain(system).chain(versions.max());
    let found =
        folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()));
    found.ok_or_else(|| {
        let known = INSTALLED.into_iter().find(|&(known, ..)| known == name);
        let package = known.map_or(name, |(_, package, _)| package);
        format!("it is not in PATH; to install it: apt-get install {package}")
    })
}

/// Runs a program for its version, whatever its exit code is then.
fn version_of(program: impl AsRef<OsStr>, argument: &str) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.arg(argument).stdin(Stdio::null()).output().ok()?;
    version_in(&String::from_utf8_lossy(
        &[output.stdout, output.stderr].concat(),
    ))
}

/// Finds the first number with a point in it, with what follows: `nginx version: nginx/1.22.1`.
fn version_in(text: &str) -> Option<String> {
    let mut words = text.split(|c: char| c.is_whitespace() || c == '/');
    words.find_map(|word| {
        let version = &word[word.find(|c: char| c.is_ascii_digit())?..];
        version.contains('.').then(|| version.to_owned())
    })
}

/// Finds the version of a package in a `Cargo.lock`.
fn version_in_lock(lock: &str, name: &str) -> Option<String> {
    let name = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    let version = lines.nth(1)?.strip_prefix("version = \"")?;
    Some(version.strip_suffix('"')?.to_owned())
}

pub(crate) fn target() -> PathBuf {
    Path::new(REPOSITORY).join("target/peers")
}

fn command(program: &str, arguments: &[&str], paths: [&Path; 2]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(paths[0])
        .arg("--target-dir")
        .arg(paths[1]);
    command
}

/// Runs a build silently, unless it fails.
///
/// # Errors
///
/// The gist of what the build has said, or what to install.
pub(crate) fn run_build(mut command: Command) -> Result<(), Missing> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let message = gist(&String::from_utf8_lossy(&output.stderr));
            let status = output.status;
            Err(format!(
                "its build ended with {status}: {message}; to see more: {command:?}"
            ))
        }
        Err(error) => {
            let tool = command.get_program().to_string_lossy();
            let remedy = match &*tool {
                "go" => "apt-get install golang",
                "ghc" => "apt-get install ghc libghc-network-dev libghc-warp-dev",
                _ => "install Rust, see https://rustup.rs",
            };
            Err(format!("{tool}: {error}; to build it: {remedy}"))
        }
    }
}

/// Returns the first line that names an error, else the last.
fn gist(said: &str) -> String {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines.clone().find(|line| line.starts_with("error"));
    let line = error.or_else(|| lines.next_back()).unwrap_or("no message");
    line.chars().take(REASON_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_shown_with_the_remedy() {
        let (subject, program) = find("no-such-program");
        assert_eq!((subject.name.as_str(), program), ("no-such-program", None));
        let missing = "it is not in PATH; to install it: apt-get install no-such-program";
        assert_eq!(subject.missing.unwrap(), missing);
    }

    #[test]
    fn a_failed_build_is_explained_in_one_line() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo warning: x >&2; echo error: none >&2; echo more >&2; exit 3",
        ]);
        let missing = run_build(command).unwrap_err();
        let expected = "its build ended with exit status: 3: error: none; to see more: ";
        assert!(missing.starts_with(expected), "{missing}");
        assert_eq!(gist("one\n\n two \n\n"), "two");
        assert_eq!(gist(&"x".repeat(1000)).len(), REASON_CHARACTERS_MAX);
        assert_eq!(gist("\n"), "no message");
        let missing = run_build(Command::new("no-such-tool")).unwrap_err();
        assert!(missing.contains("rustup"), "{missing}");
        run_build(Command::new("true")).unwrap();
    }

    #[test]
    fn versions_are_found() {
        let check = |text, expected| assert_eq!(version_in(text).as_deref(), expected, "{text:?}");
        check("nginx version: nginx/1.22.1\n", Some("1.22.1"));
        check("fio-3.33\n", Some("3.33"));
        check("go version go1.26.8 linux/amd64\n", Some("1.26.8"));
        check("no version, not even of 2012", None);
        let lock = "[[package]]\nname = \"may_queue\"\nversion = \"0.1.24\"\n\n\
                    [[package]]\nname = \"may\"\nversion = \"0.3.51\"\nsource = \"registry\"\n";
        assert_eq!(version_in_lock(lock, "may").as_deref(), Some("0.3.51"));
        assert_eq!(version_in_lock(lock, "go"), None);
        assert_eq!(version_of("no-such-program", "--version"), None);
    }

    #[test]
    fn each_program_has_its_folder() {
        for name in BUILT {
            let folder = Path::new(REPOSITORY).join("dev/bench/peers").join(name);
            assert!(folder.is_dir(), "{name}");
        }
    }
}
