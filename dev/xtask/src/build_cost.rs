//! `cargo xtask build-cost`: builds an echo server on uthread and one on Tokio, each in a package
//! of its own as a user would, and prints what that costs: CPU time, wall time, packages, and the
//! size of the program.

use std::env;
use std::fs;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Builds of each server, in turn, so that other load on the machine slows down all alike.
const ROUNDS: usize = 3;

/// Clock ticks per second in `/proc`, the same on every Linux.
const TICKS_PER_SECOND: u64 = 100;

/// A server to build.
struct Server {
    name: &'static str,
    /// The dependency as in a manifest, with `{root}` for the repository.
    dependency: &'static str,
    main: &'static str,
    /// The lock file that fixes the versions.
    lock: &'static str,
}

const SERVERS: [Server; 2] = [
    Server {
        name: "uthread",
        dependency: "uthread = { path = \"{root}/crates/uthread\" }",
        main: "\
use std::io::{self, Read, Write};
use uthread::net::TcpListener;

#[uthread::main]
fn main() -> io::Result<()> {
    let listener = TcpListener::bind(\"127.0.0.1:7\")?;
    loop {
        let (mut stream, _) = listener.accept()?;
        uthread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
        });
    }
}
",
        lock: "Cargo.lock",
    },
    Server {
        name: "tokio",
        dependency: "tokio = { version = \"1\", features = [\"full\"] }",
        main: "\
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> io::Result<()> {
    let listener = TcpListener::bind(\"127.0.0.1:7\").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..length]).await.is_err() {
                    break;
                }
            }
        });
    }
}
",
        lock: "dev/bench/peers/tokio/Cargo.lock",
    },
];

/// The cost of one build.
#[derive(Clone, Copy)]
struct Build {
    cpu: Duration,
    wall: Duration,
}

/// Measures the builds and prints a table.
pub(crate) fn run(root: &Path) -> io::Result<()> {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root.join(target).join("build-cost");
    let packages: io::Result<Vec<PathBuf>> = SERVERS
        .iter()
        .map(|server| server.prepare(root, &folder))
        .collect();
    let packages = packages?;
    let mut builds = SERVERS.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (package, builds) in packages.iter().zip(&mut builds) {
            builds.push(build(package)?);
        }
    }
    println!(
        "| echo server on | packages | CPU time of the build, s | wall time, s | stripped, KB |"
    );
    println!("| --- | ---: | ---: | ---: | ---: |");
    for ((server, package), builds) in SERVERS.iter().zip(&packages).zip(&builds) {
        let program = package.join("target/release/echo");
        println!(
            "| {} | {} | {:.1} | {:.1} | {} |",
            server.name,
            dependencies(package)?,
            median(builds.iter().map(|build| build.cpu)).as_secs_f64(),
            median(builds.iter().map(|build| build.wall)).as_secs_f64(),
            fs::metadata(program)?.len() / 1000,
        );
    }
    println!(
        "\nMedians of {ROUNDS} builds from clean with the default profile `release` and `strip = true`."
    );
    Ok(())
}

impl Server {
    /// Writes the package, and downloads its dependencies.
    fn prepare(&self, root: &Path, folder: &Path) -> io::Result<PathBuf> {
        let package = folder.join(self.name);
        fs::create_dir_all(package.join("src"))?;
        let dependency = self.dependency.replace("{root}", &root.to_string_lossy());
        let manifest = format!(
            "[package]\nname = \"echo\"\nedition = \"2024\"\n\n[dependencies]\n{dependency}\n\n\
             [profile.release]\nstrip = true\n\n[workspace]\n"
        );
        fs::write(package.join("Cargo.toml"), manifest)?;
        fs::write(package.join("src/main.rs"), self.main)?;
        fs::copy(root.join(self.lock), package.join("Cargo.lock"))?;
        output(cargo(&package).arg("fetch"))?;
        Ok(package)
    }
}

fn build(package: &Path) -> io::Result<Build> {
    output(cargo(package).arg("clean"))?;
    let (cpu, begin) = (children_cpu()?, Instant::now());
    output(cargo(package).args(["build", "--release", "--offline"]))?;
    Ok(Build {
        cpu: children_cpu()? - cpu,
        wall: begin.elapsed(),
    })
}

/// Returns the number of packages that are built beside the server itself.
fn dependencies(package: &Path) -> io::Result<usize> {
    let arguments = ["tree", "--prefix", "none", "--edges", "normal,build"];
    let tree = output(cargo(package).args(arguments))?;
    let named = |line: &str| line.trim_end_matches(" (*)").to_owned();
    let packages: std::collections::BTreeSet<_> = tree.lines().map(named).collect();
    Ok(packages.len().saturating_sub(1))
}

/// Returns cargo in this folder, with its own target directory.
fn cargo(package: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(package).arg("--quiet");
    cargo.env("CARGO_TARGET_DIR", package.join("target"));
    cargo
}

/// Runs a command, and returns its output.
fn output(command: &mut Command) -> io::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(Error::other(format!(
            "{command:?} failed: {}",
            output.status
        )))
    }
}

/// Returns the CPU time of all child processes that have ended.
fn children_cpu() -> io::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let ticks = children_ticks(&stat).ok_or_else(|| Error::other("no times in /proc/self/stat"))?;
    Ok(Duration::from_secs(ticks) / TICKS_PER_SECOND as u32)
}

/// Finds `cutime` and `cstime`, the 16th and 17th field. The second is the name of the program,
/// which may contain anything.
fn children_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_children_are_found() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 10 20 0 0 3 4 50 60 20 0 1 0 99 0 0";
        assert_eq!(children_ticks(stat), Some(110));
        assert_eq!(children_ticks("7 (a) S 1"), None);
    }
}
