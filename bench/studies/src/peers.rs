//! The programs that ours is set beside: those of `bench/peers`, a server from the registry, and what Debian has. What cannot be
//! had here is data as well, so that a page can show who is missing and how to have it.

mod version;

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::results::Subject;
use crate::say::{say, tell};
use crate::study::Measuring;

/// The repository this program was built from.
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Of what a failed build said: one line of a page.
const REASON_CHARACTERS_MAX: usize = 200;

/// Besides `PATH`: Debian keeps nginx where only root looks.
const SYSTEM_PROGRAMS: &str = "/usr/sbin";

/// The folders of `bench/peers`.
const BUILT: [&str; 9] = [
    "floor", "threads", "go", "tokio", "monoio", "compio", "may", "rayon", "requests",
];

const STATIC_WEB_SERVER: &str = "static-web-server";

/// What is installed, by its name, its package and how to ask for its version.
const INSTALLED: [(&str, &str, &str); 3] = [
    ("nginx", "nginx-light", "-v"),
    ("wrk", "wrk", "-v"),
    ("fio", "fio", "--version"),
];

/// A program that can be run; of those of ours and of `bench/peers`, with the commands of `bench/peers/README.md`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    /// What goes before a command.
    pub(crate) prefix: &'static [&'static str],
    /// That of the runtime it stands for.
    pub(crate) version: Option<String>,
}

/// Why a program cannot be had here, and what to do to have it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Missing {
    pub(crate) name: &'static str,
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

impl Missing {
    /// What goes after its name.
    fn why(&self) -> String {
        format!("{}; to have it: {}", self.reason, self.remedy)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is missing: {}", self.name, self.why())
    }
}

/// Whether a program can be had here.
pub(crate) enum Availability {
    Here(Program),
    Missing(Missing),
}

impl Availability {
    /// What a page shows of it, and the program if there is one.
    pub(crate) fn into_parts(self) -> (Subject, Option<Program>) {
        match self {
            Availability::Here(program) => {
                let subject = Subject::peer(program.name, program.version.clone(), None);
                (subject, Some(program))
            }
            Availability::Missing(missing) => {
                let subject = Subject::peer(missing.name, None, Some(missing.why()));
                (subject, None)
            }
        }
    }

    /// Tells who is missing, and goes on without it.
    pub(crate) fn or_tell(self) -> Option<Program> {
        match self {
            Availability::Here(program) => Some(program),
            Availability::Missing(missing) => {
                tell!("{missing}");
                None
            }
        }
    }
}

/// Prints what there is to be set beside ours, after having built what can be.
pub(crate) fn run() {
    let installed = INSTALLED.map(|(name, ..)| name);
    let names = BUILT
        .into_iter()
        .chain([STATIC_WEB_SERVER])
        .chain(installed);
    for (subject, program) in names.map(|name| find(name).into_parts()) {
        let version = subject.version.unwrap_or_default();
        let path = program.map(|program| program.path.display().to_string());
        let missing = subject.missing.map(|why| format!("missing: {why}"));
        let found = path.or(missing).unwrap_or_default();
        say!("{:18} {version:11} {found}", subject.name);
    }
}

/// This program itself: `prefix` leads to our side.
pub(crate) fn own(name: &'static str, prefix: &'static [&'static str]) -> Result<Program> {
    let path = env::current_exe().context("find this program's own path")?;
    let version = Some(env!("CARGO_PKG_VERSION").to_owned());
    Ok(Program {
        name,
        path,
        prefix,
        version,
    })
}

/// Those of the names that are to be measured: what a page shows of each, and the program if there is one.
pub(crate) fn asked(
    names: &[&'static str],
    measuring: &Measuring,
) -> impl Iterator<Item = (Subject, Option<Program>)> {
    let asked = names.iter().filter(|name| measuring.includes(name));
    asked.map(|name| find(name).into_parts())
}

/// A folder of `bench/peers`, which is built if it has changed; static-web-server; or what is installed by this name.
pub(crate) fn find(name: &'static str) -> Availability {
    let found = match name {
        STATIC_WEB_SERVER => static_web_server(),
        _ if BUILT.contains(&name) => build(name),
        _ => installed(name),
    };
    match found {
        Ok(program) => Availability::Here(program),
        Err(missing) => Availability::Missing(missing),
    }
}

fn build(name: &'static str) -> Result<Program, Missing> {
    let source = Path::new(REPOSITORY).join("bench/peers").join(name);
    let target = target();
    let (command, path, version) = match name {
        "go" => {
            let path = target.join("peer-go");
            (
                go(&source, &path),
                path,
                version::of_program("go", "version"),
            )
        }
        _ => {
            let path = target.join(format!("release/peer-{name}"));
            let version = version::in_lock_file(&source.join("Cargo.lock"), name);
            (cargo_build(&source, &target), path, version)
        }
    };
    tell!("building the peer {name}");
    run_build(name, command)?;
    Ok(Program {
        name,
        path,
        prefix: &[],
        version,
    })
}

/// Installs it from the registry, with its default features, unless that has been done.
fn static_web_server() -> Result<Program, Missing> {
    let name = STATIC_WEB_SERVER;
    let tools = target().join("tools");
    let path = tools.join("bin").join(name);
    if !path.is_file() {
        tell!("installing {name}");
        run_build(name, cargo_install(name, &tools))?;
    }
    let version = version::of_program(&path, "--version");
    Ok(Program {
        name,
        path,
        prefix: &[],
        version,
    })
}

fn installed(name: &'static str) -> Result<Program, Missing> {
    let path = path_of(name)?;
    let known = INSTALLED.into_iter().find(|&(known, ..)| known == name);
    let version = known.and_then(|(.., argument)| version::of_program(&path, argument));
    Ok(Program {
        name,
        path,
        prefix: &[],
        version,
    })
}

/// Where a program is that Debian's packages bring.
pub(crate) fn path_of(name: &'static str) -> Result<PathBuf, Missing> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain([PathBuf::from(SYSTEM_PROGRAMS)]);
    let found =
        folders.find_map(|folder| Some(folder.join(name)).filter(|program| program.is_file()));
    found.ok_or_else(|| {
        let known = INSTALLED.into_iter().find(|&(known, ..)| known == name);
        Missing {
            name,
            reason: "it is not in PATH".to_owned(),
            remedy: format!(
                "apt-get install {}",
                known.map_or(name, |(_, package, _)| package)
            ),
        }
    })
}

fn target() -> PathBuf {
    Path::new(REPOSITORY).join("target/peers")
}

fn cargo_build(source: &Path, target: &Path) -> Command {
    let mut command = Command::new("cargo");
    command
        .args([
            "build",
            "--quiet",
            "--locked",
            "--release",
            "--manifest-path",
        ])
        .arg(source.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target);
    command
}

fn cargo_install(name: &str, root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command
        .args(["install", "--quiet", "--locked", name, "--root"])
        .arg(root)
        .arg("--target-dir")
        .arg(root.join("build"));
    command
}

fn go(source: &Path, path: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .args(["build", "-o"])
        .arg(path)
        .arg(".")
        .current_dir(source);
    command
}

/// Runs it without a word, unless it fails.
fn run_build(name: &'static str, mut command: Command) -> Result<(), Missing> {
    let missing = |reason, remedy| {
        Err(Missing {
            name,
            reason,
            remedy,
        })
    };
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = gist(&String::from_utf8_lossy(&output.stderr));
            let reason = format!("its build ended with {}: {said}", output.status);
            missing(reason, format!("remedy what {command:?} says"))
        }
        Err(error) => {
            let tool = command.get_program().to_string_lossy();
            let remedy = match &*tool {
                "go" => "apt-get install golang",
                _ => "install Rust, as https://rustup.rs tells",
            };
            missing(format!("{tool}: {error}"), remedy.to_owned())
        }
    }
}

/// The first line that names an error, else the last.
fn gist(said: &str) -> String {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines.clone().find(|line| line.starts_with("error"));
    let line = error
        .or_else(|| lines.next_back())
        .unwrap_or("it said nothing");
    line.chars().take(REASON_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_installed_names_the_package() {
        let missing = path_of("no-such-program").unwrap_err();
        let expected = "no-such-program is missing: it is not in PATH; to have it: apt-get install no-such-program";
        assert_eq!(missing.to_string(), expected);
    }

    #[test]
    fn who_is_missing_is_shown_with_the_remedy() {
        let (subject, program) = find("no-such-program").into_parts();
        assert_eq!((subject.name.as_str(), program), ("no-such-program", None));
        let missing = subject.missing.unwrap();
        assert!(
            missing.ends_with("apt-get install no-such-program"),
            "{missing}"
        );
    }

    #[test]
    fn a_build_that_fails_tells_its_error_in_short() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo warning: x >&2; echo error: no such crate >&2; echo more >&2; exit 3",
        ]);
        let missing = run_build("x", command).unwrap_err();
        let expected = "its build ended with exit status: 3: error: no such crate";
        assert_eq!(missing.reason, expected);
        assert!(missing.remedy.contains("exit 3"), "{missing}");
        assert_eq!(gist("one\n\n two \n\n"), "two");
        assert_eq!(gist(&"x".repeat(1000)).len(), REASON_CHARACTERS_MAX);
        assert_eq!(gist("\n"), "it said nothing");
    }

    #[test]
    fn a_tool_that_is_not_there_names_the_remedy() {
        let missing = run_build("x", Command::new("no-such-tool")).unwrap_err();
        assert!(missing.reason.starts_with("no-such-tool: "), "{missing}");
        assert!(missing.remedy.contains("rustup"), "{missing}");
        run_build("x", Command::new("true")).unwrap();
    }

    #[test]
    fn each_program_has_its_folder() {
        for name in BUILT {
            let folder = Path::new(REPOSITORY).join("bench/peers").join(name);
            assert!(folder.is_dir(), "{name}");
        }
    }
}
