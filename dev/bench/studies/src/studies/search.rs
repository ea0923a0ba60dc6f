//! Searching text in files: the tool on each driver and in both modes, beside ripgrep and a program
//! in Go. Beside searches from the disk, `fio` shows how fast the disk is.

use std::collections::BTreeSet;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use uthread_iobench::{cpu_of_children, run_fio};
use uthread_report::Unavailable;
use uthread_report::measure::Taken;
use uthread_report::measure::quiet::Window;
use uthread_report::results::{self, Better, Metric, Panel, Point, Subject};
use uthread_report::study::{Cell, Study};

use crate::alone::{Alone, Measuring};
use crate::measure::calls;
use crate::peers::{self, Program};

/// Our subjects, with the arguments of `uthread-peer`. The others are compared with the first.
const OURS: [(&str, &[&str]); 4] = [
    ("uthread", &["--driver", "uring"]),
    ("uthread lean", &["--driver", "uring", "--lean"]),
    ("uthread epoll", &["--driver", "epoll"]),
    ("uthread threads", &["--driver", "threads"]),
];
const PEERS: [&str; 3] = ["ripgrep", "go", FIO];
const FIO: &str = "fio";
/// Reads of fio at a time: the most files that ours has in flight.
const READS_AT_ONCE: u64 = 128;

/// The text that all search for. A literal that few files have, so that all of them are read to the
/// end.
const PATTERN: &str = "io_uring_register";
/// The workers of ours and the threads of ripgrep.
const WORKERS: &str = "2";
/// Options of ours and of ripgrep: every file, as text, literally.
const EVERYTHING: [&str; 5] = ["-uuu", "-a", "-F", "--color=never", "--no-messages"];

/// Paths of files with the text, and numbers of lines with it.
const MODES: [&str; 2] = ["-l", "-c"];

/// A panel: what is searched, by its place among [`Searched`], from where, and with which options.
struct Kind {
    title: &'static str,
    searched: usize,
    is_from_disk: bool,
    modes: &'static [&'static str],
}

const KINDS: [Kind; 4] = [
    Kind::from_memory("a tree in memory", 0),
    Kind::from_memory("10 files in memory", 1),
    Kind::from_memory("a file of 2 GiB in memory", 2),
    // Only the tree takes long enough to be compared.
    Kind {
        title: "a tree on the disk",
        searched: 0,
        is_from_disk: true,
        modes: &["-l"],
    },
];

impl Kind {
    const fn from_memory(title: &'static str, searched: usize) -> Kind {
        Kind {
            title,
            searched,
            is_from_disk: false,
            modes: &MODES,
        }
    }
}

/// Size of the one large file.
const LARGE_BYTES: u64 = 2 << 30;
/// Number of files in the small tree.
const FEW_FILES: usize = 10;
/// Path of the file that makes Linux drop its page cache.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Mean of a search, with the wait for a quiet machine.
const SECONDS_EACH: f64 = 2.0;

#[derive(clap::Args, Clone, Debug)]
#[group(id = "search_args")]
pub(crate) struct SearchArgs {
    /// Folders that are searched [default: the sources of all crates that cargo has unpacked, and
    /// target/doc]
    #[arg(long, value_name = "DIR", num_args = 1..)]
    tree: Vec<PathBuf>,
    /// Folder of a file of 2 GiB and of a small tree; both are made if they are missing
    #[arg(long, value_name = "DIR", default_value = "target/bench-search")]
    search_folder: PathBuf,
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    #[command(flatten)]
    pub(crate) alone: Alone,
}

/// Paths that are searched together.
struct Searched {
    paths: Vec<PathBuf>,
    files: u64,
    bytes: u64,
}

impl Searched {
    fn new(paths: Vec<PathBuf>, files: &[(PathBuf, u64)]) -> Searched {
        Searched {
            paths,
            files: files.len() as u64,
            bytes: files.iter().map(|(_, bytes)| bytes).sum(),
        }
    }
}

/// Makes the files and finds the peers. All subjects find the same.
///
/// # Errors
///
/// `Unavailable` without a tree; a peer finds something else.
pub(crate) fn study(measuring: &Measuring, args: &SearchArgs) -> Result<Study> {
    let (searched, notes) = prepare(args)?;
    let ours = OURS.map(|(name, prefix)| peers::own(name, prefix));
    let ours = ours.into_iter().collect::<Result<Vec<_>>>()?;
    let (subjects, programs) = peers::compared(ours, &PEERS, measuring);
    for searched in &searched {
        assert_same(&programs, searched)?;
    }
    let has_disk = fs::OpenOptions::new().write(true).open(DROP_CACHES).is_ok();
    let plan = plan(subjects, notes);
    let quiet_wait = measuring.quiet_wait();
    let is_search = |program: &Option<Program>| !program.as_ref().is_some_and(is_fio);
    let is_search = Vec::from_iter(programs.iter().map(is_search));
    let measure = move |cell: Cell| {
        let program = programs[cell.subject].as_ref().context("it is missing")?;
        let kind = &KINDS[cell.panel];
        let subject = &searched[kind.searched];
        let command = || command(program, kind.modes[cell.point], &subject.paths);
        if kind.is_from_disk {
            ensure!(has_disk, "only root can empty the page cache");
            rustix::fs::sync();
        }
        let window = Window::open(None, quiet_wait)?;
        if kind.is_from_disk {
            fs::write(DROP_CACHES, "3").context("empty the page cache")?;
        }
        if is_fio(program) {
            let figures = vec![read_by_fio(program, &searched)?, f64::NAN, f64::NAN];
            let usage = window.close()?;
            return Ok(Taken { figures, usage });
        }
        let before = cpu_of_children()?;
        let begin = Instant::now();
        run(&mut command())?;
        let elapsed = begin.elapsed();
        let cpu = cpu_of_children()? - before;
        let usage = window.close()?;
        let calls = match cell.round {
            0 => count_calls(&command())?.map(|calls| calls as f64 / subject.files as f64),
            _ => None,
        };
        let figures = vec![
            elapsed.as_secs_f64() * 1e3,
            cpu.as_secs_f64() * 1e3,
            calls.unwrap_or(f64::NAN),
        ];
        Ok(Taken { figures, usage })
    };
    let applies =
        move |panel: usize, subject: usize| KINDS[panel].is_from_disk || is_search[subject];
    Ok(Study::new(plan, SECONDS_EACH, measure).where_it(applies))
}

fn plan(subjects: Vec<Subject>, notes: Vec<String>) -> results::Study {
    let metrics = vec![
        Metric::new("time", "ms", Better::Less).drawn(),
        Metric::new("CPU", "ms", Better::Less).drawn(),
        Metric::new("system calls", "per file", Better::Less),
    ];
    let panels = KINDS.iter().map(|kind| {
        let points = kind.modes.iter().map(|mode| Point::name(mode));
        Panel::new(kind.title, "", points.collect(), metrics.clone())
    });
    super::plan("search", notes, subjects, panels.collect())
}

/// Finds the tree, and makes the small tree and the large file of its files.
fn prepare(args: &SearchArgs) -> Result<([Searched; 3], Vec<String>)> {
    let folders = match &args.tree[..] {
        [] => sources_and_documents(),
        named => named.to_vec(),
    };
    ensure!(
        !folders.is_empty(),
        Unavailable("there is no tree to search: name one with --tree".to_owned())
    );
    let (large, small) = (
        args.search_folder.join("large"),
        args.search_folder.join("small"),
    );
    let files = files(&folders)?;
    let texts = files
        .iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "rs"));
    let mut texts = texts.map(|(path, _)| path);
    if fs::read_dir(&small).map_or(0, Iterator::count) != FEW_FILES {
        fs::create_dir_all(&small)?;
        for (index, path) in texts.by_ref().take(FEW_FILES).enumerate() {
            fs::copy(path, small.join(format!("{index}.rs")))?;
        }
    }
    if fs::metadata(&large).map_or(0, |large| large.len()) != LARGE_BYTES {
        write_large(&large, texts)?;
    }
    let tree = Searched::new(folders, &files);
    let [small, large] = [vec![small], vec![large]].map(|paths| {
        let files = self::files(&paths)?;
        anyhow::Ok(Searched::new(paths, &files))
    });
    let searched = [tree, small?, large?];
    let note = format!(
        "The tree has {} files with {} MB, the large file has 2 GiB of such text, and the small tree 10 of the files.",
        searched[0].files,
        searched[0].bytes / 1_000_000
    );
    Ok((searched, vec![note]))
}

/// Returns the folders in which cargo unpacks crates and writes their documentation, if they are
/// there.
fn sources_and_documents() -> Vec<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let sources = home.map(|home| home.join("registry/src"));
    let folders = sources.into_iter().chain([PathBuf::from("target/doc")]);
    folders.filter(|folder| folder.is_dir()).collect()
}

/// Returns the regular files beneath these paths and their sizes, in the order of their paths.
fn files(paths: &[PathBuf]) -> Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    let mut left = paths.to_vec();
    while let Some(path) = left.pop() {
        let described = || format!("look at {}", path.display());
        let status = fs::symlink_metadata(&path).with_context(described)?;
        if status.is_dir() {
            for entry in fs::read_dir(&path).with_context(described)? {
                left.push(entry?.path());
            }
        } else if status.is_file() {
            found.push((path, status.len()));
        }
    }
    found.sort();
    Ok(found)
}

/// Writes a file of [`LARGE_BYTES`] with these texts, again and again.
fn write_large<'a>(path: &Path, texts: impl Iterator<Item = &'a PathBuf>) -> Result<()> {
    /// Repeated to fill the file: more than the caches of a CPU hold.
    const PART_BYTES: usize = 256 << 20;
    let mut part = Vec::with_capacity(PART_BYTES);
    for text in texts {
        File::open(text)?.read_to_end(&mut part)?;
        if part.len() >= PART_BYTES {
            break;
        }
    }
    ensure!(!part.is_empty(), "the tree has no Rust sources");
    part.truncate(PART_BYTES);
    let mut file = File::create(path)?;
    let mut left = LARGE_BYTES;
    while left > 0 {
        let count = left.min(part.len() as u64);
        file.write_all(&part[..count as usize])?;
        left -= count;
    }
    Ok(())
}

/// Returns the command for a search with the option `-l` or `-c`.
fn command(program: &Program, option: &str, paths: &[PathBuf]) -> Command {
    let mut command = Command::new(&program.path);
    command.args(program.prefix);
    match program.name.as_str() {
        "go" => {
            let what = if option == "-c" { "counts" } else { "paths" };
            command.args(["search", what, PATTERN]);
        }
        "ripgrep" => {
            command.arg("--no-config").args(EVERYTHING);
            command.args(["-j", WORKERS, option, PATTERN]);
        }
        _ => {
            command.arg("search").args(EVERYTHING);
            command.args(["-j", WORKERS, option, PATTERN]);
        }
    }
    command.args(paths);
    command
}

/// Runs a search to its end and returns its lines. Exit code 1 means that nothing was found.
fn run(command: &mut Command) -> Result<BTreeSet<String>> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let child = command.stderr(Stdio::piped()).spawn();
    finish(child.with_context(|| format!("run {}", command.get_program().display()))?)
}

fn finish(mut child: Child) -> Result<BTreeSet<String>> {
    let stdout = BufReader::new(child.stdout.take().context("a pipe")?);
    let lines = stdout.lines().collect::<io::Result<_>>()?;
    let mut errors = String::new();
    let stderr = child.stderr.take();
    stderr.context("a pipe")?.read_to_string(&mut errors)?;
    let status = child.wait()?;
    ensure!(
        matches!(status.code(), Some(0 | 1)) && errors.is_empty(),
        "{status}: {errors}"
    );
    Ok(lines)
}

/// Compares what the programs find. Also brings the files into the page cache.
fn assert_same(programs: &[Option<Program>], searched: &Searched) -> Result<()> {
    // A single file is printed without its path by some.
    let only = |line: &String| line.rsplit(':').next().unwrap_or_default().to_owned();
    let mut expected = None;
    let searches = programs.iter().flatten();
    for program in searches.filter(|program| !is_fio(program)) {
        for option in MODES {
            let mut found = run(&mut command(program, option, &searched.paths))?;
            if option == "-c" && searched.files == 1 {
                found = found.iter().map(only).collect();
            }
            let known = expected.get_or_insert_with(Vec::new);
            let index = usize::from(option == "-c");
            if known.len() == index {
                known.push(found);
            } else {
                ensure!(
                    known[index] == found,
                    "{} does not find in {:?} what the others do",
                    program.name,
                    searched.paths
                );
            }
        }
    }
    Ok(())
}

fn is_fio(program: &Program) -> bool {
    program.name == FIO
}

/// Reads as many bytes as the tree has from the large file, in pieces of the mean size of its
/// files, and returns the time in ms.
fn read_by_fio(fio: &Program, searched: &[Searched; 3]) -> Result<f64> {
    let [tree, _, large] = searched;
    let piece = (tree.bytes / tree.files).next_multiple_of(4096);
    let mut command = Command::new(&fio.path);
    command.args(["--name=reads", "--readonly", "--direct=1", "--thread"]);
    command.args([
        "--ioengine=io_uring",
        "--rw=randread",
        "--output-format=json",
    ]);
    command.arg(format!("--bs={piece}"));
    command.arg(format!("--iodepth={READS_AT_ONCE}"));
    command.arg(format!("--size={LARGE_BYTES}"));
    command.arg(format!("--io_size={}", tree.bytes));
    command.arg("--filename").args(&large.paths);
    let report = run_fio(&mut command)?;
    let time = report.pointer("/jobs/0/read/runtime");
    time.and_then(Value::as_f64).context("fio reported no time")
}

/// Counts the system calls of a search. A shell waits for a line, so that the counters are there
/// before it becomes the search.
fn count_calls(command: &Command) -> Result<Option<u64>> {
    let mut shell = Command::new("sh");
    shell.args(["-c", "read line; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    shell.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = shell.stderr(Stdio::piped()).spawn().context("run sh")?;
    let mut stdin = child.stdin.take().context("a pipe")?;
    let (_, calls) = calls::count(child.id(), || {
        stdin.write_all(b"\n")?;
        drop(stdin);
        finish(child)
    })?;
    Ok(calls)
}
