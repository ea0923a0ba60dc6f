//! Comparison with ripgrep: the same arguments and tree give the same lines, messages and exit
//! code. Without ripgrep, nothing is compared.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::corpus::Corpus;
use super::{DRIVERS, is_exhaustive};
use crate::harness::command;

/// Oldest major version that behaves like the crates that both programs use.
const VERSION_MIN: u32 = 15;

/// Options, each compared with one pattern on one driver, or with all of them if the tests are
/// exhaustive.
const OPTIONS: [&str; 58] = [
    "",
    "-F",
    "-i",
    "-S",
    "-s",
    "-w",
    "-x",
    "-v",
    "-c",
    "-l",
    "-n",
    "-N",
    "-H",
    "-I",
    "-o",
    "-m1",
    "-m 3 -c",
    "-A2",
    "-B1",
    "-C1 -n",
    "-a",
    "-a -c",
    "-u",
    "-uu",
    "-uuu",
    "-uuu -c",
    "-uuu -a -F -l",
    "-uuu -v -c",
    "--binary -c",
    "--hidden",
    "--no-ignore",
    "-g *.rs",
    "-g !*.rs",
    "-g src/** -g !*.txt",
    "--iglob *.RS",
    "-trust",
    "-Trust -l",
    "-tc -tmd -c",
    "-L -l",
    "-L -uuu -c",
    "--max-filesize 5K -c",
    "--max-filesize 100",
    "--files-without-match",
    "--count-matches",
    "-c -o",
    "-v -o -c",
    "-o -n --column",
    "--column",
    "--heading -n",
    "-0 -l",
    "-0 -c",
    "-q",
    "--color always -n",
    "--color always --heading",
    "-E latin1 -c",
    "-E none -c -uuu",
    "--no-messages -L -c",
    "-l -c",
];

/// Options of editors and pickers: the layout of the results and the choice of files, which depend
/// on no pattern. Each is compared with one pattern on one driver.
const LAYOUTS: [&str; 26] = [
    "--vimgrep -M 200",
    "-p",
    "-p --color never",
    "-M 20",
    "-M 20 --max-columns-preview",
    "-d 1",
    "-d 2 -L -l",
    "--passthru -n",
    "--trim -n",
    "-r [$0]",
    "-r x -o",
    "-b -o",
    "-U",
    "-U -c",
    "-U -uuu -l",
    "--crlf",
    "--null-data -c",
    "--no-ignore-vcs -l",
    "--no-ignore-dot -l",
    "--no-ignore-parent --ignore-file one.log -l",
    "--include-zero -c",
    "--stop-on-nonmatch -n",
    "-z -c",
    "--type-add own:*.rs -town -c",
    "--hyperlink-format vscode --color always",
    "--no-unicode -i -c",
];

/// Path where the benchmarks and `.ci/run` install ripgrep.
const INSTALLED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/peers/tools/bin/rg"
);

/// Returns the path of ripgrep, if it is there and new enough.
fn ripgrep() -> Option<&'static str> {
    let found = ["rg", INSTALLED].into_iter().find(|path| {
        let output = Command::new(path).arg("--version").output();
        let text = output.map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let version = text.split_whitespace().nth(1).unwrap_or_default();
        let major = version.split('.').next().unwrap_or_default().parse();
        major.is_ok_and(|major: u32| major >= VERSION_MIN)
    });
    if found.is_none() {
        println!("not compared: this takes ripgrep {VERSION_MIN}, which .ci/run installs");
    }
    found
}

/// The output of a search, and its exit code.
struct Ended {
    code: Option<i32>,
    /// Lines, and paths that end with a NUL byte.
    lines: Vec<Vec<u8>>,
    messages: Vec<String>,
}

fn ended(command: &mut Command, folder: &Path, name: &str) -> Ended {
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    let output = output.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let mut messages = Vec::from_iter(stderr.lines().map(|line| line.replace(name, "")));
    messages.sort();
    let lines = output.stdout.split(|byte| matches!(byte, b'\n' | b'\0'));
    Ended {
        code: output.status.code(),
        lines: lines.map(<[u8]>::to_vec).collect(),
        messages,
    }
}

fn ours(arguments: &[&str], driver: &str, folder: &Path) -> Ended {
    let mut command = command(&["search"]);
    command.args(arguments).env("UTHREAD_DRIVER", driver);
    ended(&mut command, folder, "uthread: ")
}

/// Runs ripgrep in the order of the paths, because in any other order its matches in a binary file
/// depend on the files searched before. Also disables memory maps, with which ripgrep finds more
/// matches in binary files.
fn theirs(rg: &str, arguments: &[&str], folder: &Path) -> Ended {
    let mut command = Command::new(rg);
    command.args(["--no-config", "--no-mmap"]).args(arguments);
    let mut ended = ended(command.args(["--sort", "path"]), folder, "rg: ");
    for message in &mut ended.messages {
        if let Some((path, rest)) = message.split_once(": IO error for operation on ") {
            let error = rest.strip_prefix(path).unwrap();
            *message = format!("{path}{error}");
        }
    }
    ended.messages.sort();
    ended
}

#[track_caller]
fn assert_same(ours: &Ended, theirs: &Ended, described: &str) {
    for (our, their) in ours.lines.iter().zip(&theirs.lines) {
        let shown = |line: &[u8]| line.escape_ascii().to_string();
        assert_eq!(shown(our), shown(their), "{described}: our line and theirs");
    }
    assert_eq!(ours.lines.len(), theirs.lines.len(), "{described}: lines");
    assert_eq!(ours.messages, theirs.messages, "{described}");
    assert_eq!(ours.code, theirs.code, "{described}");
}

/// Compares two searches with ripgrep's: one in the order of the paths, and one in no order.
#[track_caller]
pub(super) fn compare(arguments: &[&str], driver: &str, folder: &Path) {
    let Some(rg) = ripgrep() else { return };
    let described = format!("{driver}: {arguments:?}");
    let mut their = theirs(rg, arguments, folder);
    let our = ours(&[&["--sort=path"], arguments].concat(), driver, folder);
    assert_same(&our, &their, &described);
    let mut our = ours(arguments, driver, folder);
    our.lines.sort();
    their.lines.sort();
    assert_same(&our, &their, &described);
}

/// Compares searches with all options. Each of them takes one pattern on one driver, unless the
/// tests are exhaustive: all combinations take long.
fn compare_options(driver: usize) {
    let mut corpus = Corpus::new(1);
    let mut patterns = vec![
        "alpha".to_owned(),
        "not there".to_owned(),
        r"\w+ta\b".to_owned(),
    ];
    patterns.extend((0..2).map(|_| corpus.literal()));
    let options = OPTIONS.iter().map(|options| (options, is_exhaustive()));
    let layouts = LAYOUTS.iter().map(|options| (options, false));
    for (index, (options, is_whole)) in options.chain(layouts).enumerate() {
        for (number, pattern) in patterns.iter().enumerate() {
            let is_turn = index % DRIVERS.len() == driver && index % patterns.len() == number;
            if !is_turn && !is_whole {
                continue;
            }
            let mut arguments = Vec::from_iter(options.split_whitespace());
            arguments.extend(["--regexp", pattern]);
            // A directory by its name, by a dot, several, or none.
            arguments
                .extend([&["."][..], &["src", "docs", "binary"], &[], &["./names/"]][index % 4]);
            compare(&arguments, DRIVERS[driver], corpus.path());
        }
    }
}

#[test]
fn on_uring() {
    compare_options(0);
}

#[test]
fn on_epoll() {
    compare_options(1);
}

#[test]
fn on_threads() {
    compare_options(2);
}

#[test]
fn named_files_are_searched_whatever_they_contain() {
    let corpus = Corpus::new(2);
    let paths = [
        "binary/early",
        "binary/after-buffer",
        "binary/line",
        "encoded/utf-16le",
        "encoded/latin",
        "zz/one-line",
        "large/530000",
        "large/262144",
        "empty",
        ".hidden",
        "one.log",
        "missing",
        "links/file",
        "links/folder",
        "links/broken",
        "links/self",
    ];
    let options = [
        "", "-c", "-l", "-n", "-a", "-v", "-o", "--files", "-H", "-m2",
    ];
    for (index, path) in paths.iter().enumerate() {
        let driver = DRIVERS[index % DRIVERS.len()];
        for (number, options) in options.iter().enumerate() {
            if (index + number) % 3 != 0 && !is_exhaustive() {
                continue;
            }
            let mut arguments = Vec::from_iter(options.split_whitespace());
            arguments.extend((*options != "--files").then_some("alpha"));
            arguments.push(path);
            // Two files are printed with their names.
            arguments.extend((number % 2 == 0).then_some("newline"));
            compare(&arguments, driver, corpus.path());
        }
    }
}

#[test]
fn the_same_files_are_listed() {
    let corpus = Corpus::new(3);
    for (index, options) in [
        "",
        "-u",
        "-uu",
        "--hidden",
        "-L",
        "-L -uu",
        "-g *.rs",
        "-g !src",
        "-trust",
        "-0",
        "--max-filesize 1K",
        "src links",
        "-q",
        "-g nothing",
        "-q -g nothing",
        "--color always",
    ]
    .iter()
    .enumerate()
    {
        let mut arguments = vec!["--files"];
        arguments.extend(options.split_whitespace());
        compare(&arguments, DRIVERS[index % DRIVERS.len()], corpus.path());
    }
}

#[test]
fn json_has_the_same_messages() {
    let Some(rg) = ripgrep() else { return };
    let corpus = Corpus::new(4);
    for options in [
        "--json",
        "--json -C1",
        "--json -uuu",
        "--json -v -m2",
        "--json -a",
    ] {
        let mut arguments = Vec::from_iter(options.split_whitespace());
        arguments.extend(["beta", "src", "binary", "encoded"]);
        let their = theirs(rg, &arguments, corpus.path());
        arguments.push("--sort=path");
        let our = ours(&arguments, "uring", corpus.path());
        let messages =
            |ended: &Ended| Vec::from_iter(ended.lines.iter().map(|line| without_times(line)));
        assert_eq!(messages(&our), messages(&their), "{options}");
        assert_eq!(our.code, their.code);
    }
}

/// Parses a message of the JSON output, and removes what differs between two runs.
fn without_times(line: &[u8]) -> Value {
    let mut message: Value = serde_json::from_slice(line).unwrap_or_default();
    let mut parts = vec![&mut message];
    while let Some(part) = parts.pop() {
        if let Value::Object(fields) = part {
            fields.retain(|name, _| !name.starts_with("elapsed") && name != "bytes_searched");
            parts.extend(fields.values_mut());
        }
    }
    message
}

#[test]
fn totals_are_the_same() {
    let Some(rg) = ripgrep() else { return };
    let corpus = Corpus::new(5);
    for options in [
        "--stats",
        "--stats -c",
        "--stats -o",
        "--stats -q",
        "--stats -l",
    ] {
        let mut arguments = Vec::from_iter(options.split_whitespace());
        arguments.push("beta");
        let totals = |ended: &Ended| {
            let last = ended.lines.iter().rev().take(9);
            let texts = last.map(|line| String::from_utf8_lossy(line).into_owned());
            let is_same =
                |text: &String| !text.contains("seconds") && !text.contains("bytes searched");
            Vec::from_iter(texts.filter(is_same))
        };
        let their = totals(&theirs(rg, &arguments, corpus.path()));
        let our = totals(&ours(&arguments, "uring", corpus.path()));
        assert_eq!(our, their, "{options}");
        assert!(
            our.iter().any(|line| line.ends_with(" files searched")),
            "{our:?}"
        );
    }
}
